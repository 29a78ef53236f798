"""The exact settings and surroundings of a run."""

import json
from typing import Any

from uraenas.report.blocks import Facts, Section
from uraenas.report.reading import RunFacts


def section(facts: RunFacts) -> Section:
    found = Section(
        "settings",
        "Settings and environment",
        "All that is needed to make this run again. The seed and the settings decide the result.",
    )
    data = {**facts.data.as_json(), "classes": f"{len(facts.classes)}: {', '.join(facts.classes)}"}
    for title, values in (("Settings", facts.settings), ("Environment", facts.environment), ("Data", data)):
        if values:
            found.blocks.append(Facts(title, {key: shown(value) for key, value in values.items()}))
    return found


def shown(value: Any) -> str:
    """A setting as it is written on the command line."""
    if isinstance(value, str):
        return value or "(empty)"
    if isinstance(value, list | tuple):
        return ",".join(shown(item) for item in value)
    return json.dumps(value)
