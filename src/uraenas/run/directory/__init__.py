"""The run directory: every file in it by name, and what each holds. docs/run-directory.md describes them.

`Run` is the entry. It stands on `RunMembers`, that on `RunChains`, and that on `RunFiles`; none overrides another.
"""

from uraenas.run.directory.chains import SEARCH_STATE, history_of
from uraenas.run.directory.files import TEACHER
from uraenas.run.directory.members import PRIMARY, link
from uraenas.run.directory.run import KEPT_FILES, REPORT, Run
from uraenas.run.location import PRETRAINED, REPLICATES, pretrained_names

__all__ = [
    "KEPT_FILES",
    "PRETRAINED",
    "PRIMARY",
    "REPLICATES",
    "REPORT",
    "SEARCH_STATE",
    "TEACHER",
    "Run",
    "history_of",
    "link",
    "pretrained_names",
]
