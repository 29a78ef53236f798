"""What a reader of tables notes, and what it refuses, in words that say how to mend it."""

from pathlib import Path

import numpy as np

from uraenas.data.catalog import load_dataset


def test_arrays_that_are_no_part_of_the_table_are_named(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(60, 2))
    arrays = {"x": x, "y": x[:, 0]}
    np.savez(tmp_path / "t.npz", **arrays, test=np.zeros((20, 60), bool))
    said = "ignored in t.npz: test; rows for testing are x_test and y_test"
    assert load_dataset(tmp_path / "t.npz").notes[0] == said
    np.savez(tmp_path / "t.npz", **arrays, x_test=x[:5], y_test=x[:5, 0])
    assert not any("ignored" in note for note in load_dataset(tmp_path / "t.npz").notes)
