"""Kinds of options that several commands have."""

import typer


def as_share(text: str | float) -> float:
    """0.05, or 5%; whether it is allowed is asked where it is used. A default is a number already."""
    number = str(text).strip()
    try:
        return float(number[:-1]) / 100 if number.endswith("%") else float(number)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a share; use 0.05 or 5%") from None
