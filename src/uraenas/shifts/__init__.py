"""Corruptions by family, and the suites made of them."""

from uraenas.shifts.table import SHIFTS, SUITES, Shift, corrupt, suited

__all__ = ["SHIFTS", "SUITES", "Shift", "corrupt", "suited"]
