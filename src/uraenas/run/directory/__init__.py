"""The run directory: every file in it by name, and what each holds. docs/run-directory.md describes them.

`Run` is the entry. Its base, `RunFiles`, writes, reads and mends; search, chains and members are parts that use it.
"""

from uraenas.run.directory.files import TEACHER
from uraenas.run.directory.members import link
from uraenas.run.directory.run import KEPT_FILES, PRIMARY, REPORT, Run
from uraenas.run.directory.searches import SEARCH_STATE, history_of, search_taken_from, write_history
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
    "search_taken_from",
    "write_history",
]
