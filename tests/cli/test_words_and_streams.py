"""Names from outside do no harm where they are shown or stored, and streams may be closed, full or broken."""

import csv
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from uraenas import Run, UraenasError, load_dataset
from uraenas.base.words import csv_cell, printable
from uraenas.cli.printing import methods_table, outside_table
from uraenas.evaluation import Row, Separated

ESCAPE = "\x1b]0;owned\x07\x1b[31m"
NAMES = (f"{ESCAPE}.png", "[bold]x[red].png", "=1+1.png", "@sum.png", "‮gnp.png", "a\nb.png")


def pictures(folder: Path, names: tuple[str, ...]) -> None:
    folder.mkdir(parents=True)
    for number, name in enumerate(names):
        Image.fromarray(np.full((8, 8), 20 * number, np.uint8)).save(folder / name)


def test_control_characters_marks_of_direction_and_foreign_bytes_are_written_as_escapes() -> None:
    assert printable("größe 10 %, 猫") == "größe 10 %, 猫"
    assert printable("a\x1b[31m\n\u202e\udcff") == "a\\x1b[31m\\n\\u202e\\udcff"
    assert [csv_cell(value) for value in ("=1", "-x", "x", -1, 0.5)] == ["'=1", "'-x", "x", -1, 0.5]


def test_names_of_images_from_elsewhere_cannot_steer_a_terminal() -> None:
    table = outside_table([Separated(f"[red]{ESCAPE}", "swa", 1, None, None, None, {}, {})])
    (cell,) = table.columns[0].cells
    assert cell == "\\[red]" + printable(ESCAPE)


@pytest.mark.parametrize("form", [(), ("--csv",)])
def test_names_of_files_cannot_steer_a_terminal_or_a_spreadsheet(
    uraenas: Callable,
    finished_run: Path,
    tmp_path: Path,
    form: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pictures(tmp_path / "images", NAMES)
    (tmp_path / "images" / f"broken{ESCAPE}.png").write_bytes(b"no picture")
    monkeypatch.chdir(tmp_path / "images")
    done = uraenas(
        "predict", finished_run, *(f"./{name}" if form == () else name for name in NAMES), ".", *form
    )
    assert done.returncode == 1
    for text in (done.stdout, done.stderr):
        assert not set(text) & {"\x1b", "\x07", "\u202e"}
    if form:
        cells = [row[0] for row in csv.reader(io.StringIO(done.stdout))]
        assert "'=1+1.png" in cells
        assert "'@sum.png" in cells
        assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)
    else:
        assert "[bold]x[red]" in done.stdout  # its end may be on the next line


def test_names_that_are_not_utf8_are_stored_and_shown(uraenas: Callable, tmp_path: Path) -> None:
    """The path of the run, of the images, and an image's own name."""
    odd = os.fsdecode(b"odd\xff")
    for name in ("a", "b"):
        pictures(tmp_path / odd / "images" / name, tuple(f"{odd}-{number}.png" for number in range(8)))
    settings = ("--methods", "drnas", "--set", "evaluate.suite=none", "--set", "data.image_size=8")
    given = ("run", "--preset", "tiny", "--set", f"data.name={tmp_path / odd / 'images'}", *settings)
    done = uraenas(*given, "--out", tmp_path / odd / "run")
    assert done.returncode == 0, done.stderr
    assert Run(tmp_path / odd / "run").ensemble().classes == ("a", "b")
    done = uraenas("predict", tmp_path / odd / "run", tmp_path / odd / "images")
    assert done.returncode == 0, done.stderr
    table = re.sub(r"[│\s]", "", done.stdout)
    assert r"\udcff" in table


@pytest.mark.parametrize("name", [os.fsdecode(b"odd\xff"), "x" * 225])
def test_a_name_that_cannot_be_stored_is_refused_before_anything_is_trained(
    tmp_path: Path, name: str
) -> None:
    for part in ("a", "b"):
        pictures(tmp_path / name / part, tuple(f"{number}.png" for number in range(8)))
    with pytest.raises(UraenasError, match=r"not UTF-8|more than 100 bytes"):
        load_dataset(tmp_path / name)
    if len(name) < 100:  # a class
        pictures(tmp_path / "images" / "plain", ("1.png", "2.png"))
        os.rename(tmp_path / name, tmp_path / "images" / name)
        with pytest.raises(UraenasError, match="not UTF-8"):
            load_dataset(tmp_path / "images")


def shell(words: str, run: Path) -> subprocess.CompletedProcess[str]:
    command = f"{shlex.quote(sys.executable)} -m uraenas {words}".replace("RUN", shlex.quote(str(run)))
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=run)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("--version >&-", 2, "uraenas: standard output: it is closed"),
        ("--version > /dev/full", 2, "uraenas: the system: No space left on device"),
        ("--version 2>&-", 0, ""),
        ("no-such-command 2>&-", 2, ""),
        ("no-such-command 2> /dev/full", 2, ""),
        ("--version <&- >&- 2>&-", 2, ""),
        ("show RUN >&-", 2, "uraenas: standard output: it is closed"),
        ("show RUN | true; exit ${PIPESTATUS[0]}", None, ""),  # before its last word or after it
    ],
)
def test_streams_that_cannot_be_written_end_in_one_line(
    finished_run: Path, words: str, code: int | None, told: str
) -> None:
    done = shell(words, finished_run)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert done.returncode == code if code is not None else done.returncode in (0, 1, 141), done.stderr
    assert done.stderr.startswith(told)
    assert done.stderr.count("\n") <= 1


@pytest.mark.parametrize(
    ("out", "told"),
    [
        ("", ".: it is a folder"),
        ("/dev/null", "/dev/null: it is a dev"),
        ("/dev/stdout", "/dev/stdout: it is a link"),
    ],
)
def test_a_report_is_written_to_a_regular_file_alone(
    uraenas: Callable, finished_run: Path, out: str, told: str
) -> None:
    done = uraenas("report", finished_run, "--format", "md", "--out", out)
    assert done.returncode == 2
    assert done.stderr.startswith(f"uraenas: cannot write {told}")


def test_a_table_of_methods_has_no_column_without_a_value():
    found = {"one": {"accuracy": 0.9, "nll": 0.4}, "two": {"accuracy": 0.8, "nll": 0.3, "disagreement": 0.1}}
    rows = [
        Row(name, "rows", "none", 0, metric, value, 2, "raw", 0)
        for name, values in found.items()
        for metric, value in values.items()
    ]
    shown = methods_table(rows, "raw", "")
    assert [str(column.header) for column in shown.columns] == ["Method", "E", "Acc", "NLL", "Dis"]
    cells = [list(column.cells) for column in shown.columns]
    assert cells[2:] == [["[bold]90.00[/]", "80.00"], ["0.400", "[bold]0.300[/]"], ["–", "0.100"]]
