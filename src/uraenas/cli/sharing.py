"""The command that shares a run."""

from typing import Annotated

import typer

from uraenas.cli.printing import AsJson, say
from uraenas.cli.runs import RunPath


def push(
    path: RunPath,
    repo: Annotated[
        str, typer.Argument(help="OWNER/NAME on the Hugging Face hub; made where it is not there.")
    ],
    methods: Annotated[
        str, typer.Option("--methods", help="Comma-separated; default: all that are trained.")
    ] = "",
    private: Annotated[bool, typer.Option("--private", help="A repository that is made is private.")] = False,
    full_precision: Annotated[
        bool, typer.Option("--full-precision", help="Weights as they are, twice as large.")
    ] = False,
    licence: Annotated[str, typer.Option("--license", help="For the model card: apache-2.0, mit, …")] = "",
    as_json: AsJson = False,
) -> None:
    """Share a run on the Hugging Face hub, with a model card; others open it as hf://OWNER/NAME.

    Sent is what `export` writes. The token is that of `hf auth login`, or HF_TOKEN.
    """
    from uraenas.run.directory import Run
    from uraenas.run.hub import push as send

    names = tuple(name.strip() for name in methods.split(",") if name.strip())
    address = send(Run.find(path), repo, names, private, not full_precision, licence)
    say(f"pushed to {address}", as_json, {"repo": repo, "address": address})
