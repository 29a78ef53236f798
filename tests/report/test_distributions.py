"""What is written of every kind of distribution is read again, and the page shows it."""

import re
from dataclasses import replace

import pytest
import torch
from made_up_run import MakeRun

from uraenas.architectures import DISTRIBUTIONS, Searched, queried
from uraenas.base import draws
from uraenas.report.reading import read
from uraenas.report.sections import architecture
from uraenas.run.config import override
from uraenas.spaces import CellSpace, option_counts

SPACE = CellSpace(channels=4, cells=1)


def searched_by(name: str) -> Searched:
    """What a search of three epochs or rounds might have found."""
    here = DISTRIBUTIONS[name].make()
    state = here.initial(option_counts(SPACE), 1)
    history = []
    for epoch in range(3):
        if here.loop == "queries":
            asked = here.propose(state, 4, draws.at(5, epoch), lambda options: True)
            state = queried.told(state, asked, [sum(options) / 24 for options in asked])
        else:
            slope = draws.normal(draws.at(5, epoch), 30, torch.float64).view(6, 5)
            state = here.update(state, dict.fromkeys(here.learned, slope), torch.tensor(epoch))
        genotype = str(SPACE.architecture(here.mode(state).tolist()))
        row = {"epoch": epoch, **here.facts(state), "genotype": genotype}
        row |= {"queries": 4 * (epoch + 1)} if here.loop == "queries" else {}
        history.append({**row, here.numbers: here.favour(state).tolist()})
    return Searched(SPACE, here, state, history)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_what_was_learned_is_read_again_and_shown(name: str, make_own_run: MakeRun) -> None:
    run, _ = make_own_run()
    found = searched_by(name)
    run.write_searched(found, name, epochs=3, seed=0)
    again = run.searched()
    assert again is not None
    assert again.distribution == found.distribution
    assert again.draw(3, seed=2) == found.draw(3, seed=2)
    facts = read(run)
    chosen = {"search.distribution": name, "search.weights": "point"}  # which all of them can have
    section = architecture.section(replace(facts, config=override(facts.config, chosen)))
    shown = {
        figure.id: str(figure.svg) for block in section.blocks for figure in getattr(block, "figures", ())
    }
    assert {"favour", "expected", "entropy"} <= shown.keys()
    assert ("search-accuracy" in shown) == (found.distribution.loop == "queries")
    tips = re.findall(r'data-tip="([^"]*)"', shown["favour"])
    assert len(tips) == 30
    assert sum("expected option" in tip for tip in tips) == 6
    assert ("deviation" in tips[0]) == (found.distribution.spread(found.state) is not None)
    heights = [float(value) for value in re.findall(r'<rect[^>]* height="([^"]*)"', shown["favour"])]
    assert min(heights) >= 0  # also of means below 0
    assert ("drawn-options" in shown) == (found.distribution.spread(found.state) is not None)
    notes = [block.text for block in section.blocks if block.kind == "note"]
    (about,) = (note for note in notes if note.startswith(f"{name}: "))
    assert found.distribution.bars in about
    assert str(found.expected) in about
    changes = [block for block in section.blocks if block.kind == "table" and "over time" in block.caption]
    assert changes[0].lines[-1].cells[0].text == found.history[-1]["genotype"]


@pytest.mark.parametrize(
    ("name", "unit", "done"), [("evolution", "queries", [4, 8, 12]), ("darts", "epochs", [1, 2, 3])]
)
def test_the_course_of_a_search_is_told_in_what_it_is_counted_in(
    name: str, unit: str, done: list[int]
) -> None:
    found = searched_by(name)
    for row, genotype in zip(found.history, "aab", strict=True):
        row["genotype"] = genotype
    blocks = architecture.learned(found, name, "image")
    (table,) = (block for block in blocks if block.kind == "table")
    assert f"1 change in {done[-1]} {unit}." in table.caption  # what it began with is none
    assert table.header[0] == f"{unit.capitalize()} done"
    assert [line.name for line in table.lines] == [str(done[0]), str(done[2])]
    figures = {figure.id: str(figure.svg) for block in blocks for figure in getattr(block, "figures", ())}
    told = re.findall(r"after (\d+) (\w+)", figures["entropy"])
    assert told == [(str(n), unit if n > 1 else "epoch") for n in done]
    assert f"n = {done[-1]} {unit}" in figures["entropy"]


def test_where_the_smallest_bar_is_drawn_most_often_the_page_says_and_shows_it(make_own_run: MakeRun) -> None:
    """As of `none` by BayesNAS: no image tells of its switch, so it keeps a wide prior."""
    run, _ = make_own_run()
    found = searched_by("bayesnas")
    found.state["switch"][0] = torch.tensor([0.1, 0.2, 0.2, 0.2, 0.2])
    found.state["variance"][0] = torch.tensor([1.0, 1e-4, 1e-4, 1e-4, 1e-4])
    run.write_searched(found, "bayesnas", epochs=3, seed=0)
    section = architecture.section(read(run))
    assert "larger a bar" not in section.lead
    figures = {
        figure.id: str(figure.svg) for block in section.blocks for figure in getattr(block, "figures", ())
    }
    switches, shares = (
        [float(value) for value in re.findall(rf"{words}\t([^\n\"]*)", figures[name])][:5]
        for name, words in (("favour", "switch"), ("drawn-options", "share of draws"))
    )
    assert switches.index(min(switches)) == shares.index(max(shares)) == 0
    drawn = found.drawn_shares(300)[0]
    assert torch.tensor(shares).sub(drawn).abs().max() < 0.1
    heights = [
        float(value) for value in re.findall(r'<rect[^>]* height="([^"]*)"', figures["drawn-options"])
    ][:5]
    assert [height / sum(heights) for height in heights] == pytest.approx(shares, abs=0.02)
