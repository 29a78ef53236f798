"""Commands about data: fetch a dataset, make or check a corruption suite."""

from pathlib import Path
from typing import Annotated

import typer

from uraenas.base.errors import UraenasError
from uraenas.base.words import names_in
from uraenas.cli.printing import AsJson, bars, say

Source = Annotated[
    Path | None, typer.Option("--from", help="An archive or folder at hand, instead of a download.")
]
Root = Annotated[
    str, typer.Option("--root", help="Where datasets lie; default: $URAENAS_DATA or ./datasets.")
]


def fetch(
    name: Annotated[str, typer.Argument(help="cifar10, cifar100, mnist, fashion-mnist or cifar10-c.")],
    source: Source = None,
    root: Root = "",
    as_json: AsJson = False,
) -> None:
    """Download a dataset with its checksum, or take it from files at hand; check a CIFAR-10-C folder."""
    from uraenas.data import data_root, fetch_dataset
    from uraenas.shifts.suite import check_suite

    if name == "cifar10-c":
        folder = source or data_root(root) / "cifar10-c"
        states = check_suite(folder)
        lines = "\n".join(f"{state:12} {file}" for file, state in states.items())
        say(lines, as_json, {"folder": str(folder), "files": states})
        return
    with bars(quiet=as_json) as progress:
        path = fetch_dataset(
            name, root, source, lambda done, total: progress("download", done, total or done)
        )
    say(f"{name} is ready: {path}", as_json, {"dataset": name, "path": str(path)})


def corrupt(
    dataset: Annotated[str, typer.Argument(help="A dataset's name or path; its test images are corrupted.")],
    out: Annotated[Path, typer.Option("--out", help="Where the suite goes.")],
    only: Annotated[str, typer.Option("--only", help="Comma-separated corruptions; default: all 19.")] = "",
    severities: Annotated[
        str, typer.Option("--severities", help="Comma-separated, out of 1 … 5.")
    ] = "1,2,3,4,5",
    seed: Annotated[int, typer.Option("--seed")] = 0,
    workers: Annotated[int | None, typer.Option("--workers", help="Processes; default: all cores.")] = None,
    root: Root = "",
    as_json: AsJson = False,
) -> None:
    """Write a suite of corrupted test images in the layout of CIFAR-10-C; goes on where it was cut off."""
    from uraenas.data import load_dataset
    from uraenas.shifts.suite import write_suite

    try:
        chosen = tuple(int(part) for part in severities.split(","))
    except ValueError as error:
        raise UraenasError(
            f"--severities {severities!r} is not allowed; allowed: 1 … 5, with commas"
        ) from error
    test = load_dataset(dataset, root).test
    with bars(quiet=as_json) as progress:

        def tell(part: str, done: int, total: int) -> None:
            progress("corrupt", done, total)

        write_suite(test.images, test.labels, out, names_in(only), chosen, seed, workers, tell)
    say(f"wrote {out}", as_json, {"folder": str(out)})
