"""Arguments and options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

from uraenas.run.presets import PRESETS

RunPath = Annotated[Path, typer.Argument(help="A run directory.")]
TrainedRun = Annotated[
    Path, typer.Argument(help="A run directory with trained members, or a pretrained run: cifar10.")
]
Preset = Annotated[str, typer.Option("--preset", help=f"Settings to start from: {', '.join(PRESETS)}.")]
Assignments = Annotated[
    list[str], typer.Option("--set", help="key=value; repeatable. `uraenas list` names the keys.")
]
Method = Annotated[
    str, typer.Option("--method", help="Whose members predict; default: the joint ensemble's.")
]


def as_share(text: str | float) -> float:
    """0.05, or 5%; whether it is allowed is asked where it is used. A default is a number already."""
    number = str(text).strip()
    try:
        return float(number[:-1]) / 100 if number.endswith("%") else float(number)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a share; use 0.05 or 5%") from None


def _share(name: str, words: str) -> typer.models.OptionInfo:
    return typer.Option(name, parser=as_share, metavar="SHARE", help=words)


Risk = Annotated[
    float, _share("--risk", "Abstain below a confidence above which at most this share is wrong.")
]
Certainty = Annotated[
    float, _share("--certainty", "With which the risk is kept, on examples like the held-out ones.")
]
Coverage = Annotated[
    float, _share("--coverage", "Name so many classes that this share of sets holds the true one.")
]
Foreign = Annotated[
    float, _share("--foreign", "Call at most this share of examples like those of the training foreign.")
]
