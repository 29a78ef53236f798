"""Commands that hand a run on: as a copy, as a file that runs without this package, on the hub."""

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uraenas.base.errors import UraenasError, unknown
from uraenas.base.words import names_in
from uraenas.cli.options import Certainty, Coverage, Foreign, Risk, RunPath
from uraenas.cli.printing import AsJson, note, say
from uraenas.cli.stopping import heed

if TYPE_CHECKING:
    from uraenas.deploy import Wanted
    from uraenas.run.directory import Run

Trained = Annotated[
    str, typer.Option("--methods", help="Comma-separated, one for a file; default: all that are trained.")
]
FullPrecision = Annotated[
    bool, typer.Option("--full-precision", help="A copy keeps weights as they are, twice as large.")
]

FILES = ("onnx", "torch", "web")
ENDINGS = {".onnx": "onnx", ".pt2": "torch"}
FORMATS_WITH = {
    "--runtime": ("web",),
    "--full-precision": ("run",),
    "--with-report": ("run",),
    "--precision": ("onnx", "web"),
    "--risk": FILES,
    "--certainty": FILES,
    "--coverage": FILES,
    "--foreign": FILES,
}


def export(
    path: RunPath,
    out: Annotated[
        Path, typer.Option("--out", help="Directory to write, new or empty; a file for onnx and torch.")
    ],
    form: Annotated[
        str,
        typer.Option(
            "--format", help="run, a copy; one file: onnx, torch (torch.export); web, a page's folder."
        ),
    ] = "run",
    runtime: Annotated[
        str,
        typer.Option("--runtime", help="For web: npm's package onnxruntime-web, packed or unpacked."),
    ] = "",
    methods: Trained = "",
    full_precision: FullPrecision = False,
    report: Annotated[
        bool, typer.Option("--with-report", help="A copy keeps report.html, which shows test images.")
    ] = False,
    precision: Annotated[
        str,
        typer.Option("--precision", help="Of an ONNX file: float32, half (weights), int8 (convolutions)."),
    ] = "float32",
    risk: Risk = 0.05,
    certainty: Certainty = 0.95,
    coverage: Coverage = 0.95,
    share: Foreign = 0.05,
    as_json: AsJson = False,
) -> None:
    """Write a small copy of a run, or its ensemble as one file.

    A copy has members in half precision and what is known of them, without checkpoints and images. A file takes raw
    images of any number, or the columns of a table, and says all that predict says; onnxruntime or torch runs it
    without this package.
    """
    from uraenas.run.directory import Run
    from uraenas.run.export import export as write_copy

    names = names_in(methods)
    told = {
        "--runtime": runtime != "",
        "--full-precision": full_precision,
        "--with-report": report,
        "--precision": precision != "float32",
        "--risk": risk != 0.05,
        "--certainty": certainty != 0.95,
        "--coverage": coverage != 0.95,
        "--foreign": share != 0.05,
    }
    _require_used(form, [option for option, is_told in told.items() if is_told])
    heed(signal.SIGTERM)  # what is unfinished is removed
    if form != "run":
        from uraenas.deploy import Wanted
        from uraenas.ensemble.asked import Asked

        wanted = Wanted(precision, Asked(risk, share, certainty, coverage))
        found = _export_file(Run.find(path), out, form, names, wanted, runtime)
        files = [one for one in out.rglob("*") if one.is_file()] if form == "web" else [out]
        size = sum(one.stat().st_size for one in files)
        say(_file_in_words(out, found, size), as_json, {"file": str(out), "bytes": size, **found})
        return
    copy = write_copy(Run.find(path), out, names, half=not full_precision, report=report)
    size = sum(file.stat().st_size for file in copy.path.rglob("*") if file.is_file())
    facts = {"run": str(copy.path), "methods": copy.trained, "bytes": size}
    say(f"wrote {copy.path}: {', '.join(copy.trained)}, {size / 1e6:.1f} MB", as_json, facts)


def _require_used(form: str, told: Sequence[str]) -> None:
    """Refuse options that this format does not have."""
    if form not in ("run", *FILES):
        raise unknown("format", form, ("run", *FILES))
    for option in told:
        if form not in FORMATS_WITH[option]:
            formats = " or ".join(FORMATS_WITH[option])
            raise UraenasError(f"{option} is for --format {formats}, and this is --format {form}")


def _export_file(
    run: "Run", out: Path, form: str, names: Sequence[str], wanted: "Wanted", runtime: str
) -> dict[str, Any]:
    """Write one method's ensemble as a file, or as the folder of a page; what it holds, and what it costs."""
    from uraenas.deploy import export_file
    from uraenas.deploy.web import export_web

    if len(names) > 1:
        raise UraenasError(f"a file holds one method, not {', '.join(names)}; choose one (--methods)")
    if (meant := ENDINGS.get(out.suffix.lower(), form)) != form:
        raise UraenasError(
            f"{out.name} would be taken for --format {meant}, and this is --format {form}; choose another name (--out)"
        )
    method = "".join(names)
    if form == "web":
        if not runtime:
            raise UraenasError(
                "--format web needs ONNX Runtime Web: npm pack onnxruntime-web, then --runtime FILE"
            )
        found = export_web(run, out, runtime, method, wanted)
    else:
        found = export_file(run, out, form, method, wanted)
    if (ensemble := run.ensemble(method)).known is not None:
        note(ensemble.doubts(wanted.asked))
    note(_notes_on_cost(found))
    return found


def _file_in_words(out: Path, facts: dict[str, Any], size: int) -> str:
    apart, members = facts["parity"], len(facts["architectures"])
    name = "probabilities" if "probabilities" in apart else "predicted"
    worst = max(value for key, value in apart.items() if key.rpartition(".")[2] == name)
    same = f"{name} within {worst:.1g} of predict's, on what was made up to compare them"
    count = "1 member" if members == 1 else f"{members} members"
    return f"wrote {out}: {facts['method']}, {count}, {facts['precision']}, {size / 1e6:.1f} MB; {same}"


def _notes_on_cost(facts: dict[str, Any]) -> list[str]:
    """What a precision costs on held-out images."""
    if facts["precision"] == "float32":
        return []
    if "cost" not in facts:
        return ["what half precision costs was not measured: the run's images are not at hand"]
    cost = facts["cost"]
    words = []
    for name, digits in (
        ("accuracy", 4),
        ("nll", 4),
        ("ece", 4),
        ("total", 3),
        ("data", 3),
        ("architecture", 3),
    ):
        if name in facts["undefined"]:
            continue
        words.append(f"{name} {cost['now'][name]:.{digits}f} (float32 {cost['float32'][name]:.{digits}f})")
    of = "training images, which members left out in turn" if "folds" in facts else "held-out images"
    return [f"{facts['precision']} on {cost['images']:,} {of}: {', '.join(words)}"]


def push(
    path: RunPath,
    repo: Annotated[
        str, typer.Argument(help="OWNER/NAME on the Hugging Face hub; made where it is not there.")
    ],
    methods: Trained = "",
    private: Annotated[bool, typer.Option("--private", help="A repository that is made is private.")] = False,
    full_precision: FullPrecision = False,
    licence: Annotated[str, typer.Option("--license", help="For the model card: apache-2.0, mit, …")] = "",
    as_json: AsJson = False,
) -> None:
    """Share a run on the Hugging Face hub, with a model card; others open it as hf://OWNER/NAME.

    Sent is what `export` writes. The token is that of `hf auth login`, or HF_TOKEN.
    """
    from uraenas.run.directory import Run
    from uraenas.run.hub import push as send

    address = send(Run.find(path), repo, names_in(methods), private, not full_precision, licence)
    say(f"pushed to {address}", as_json, {"repo": repo, "address": address})
