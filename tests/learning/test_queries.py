"""Searches by queries: real trainings, told to the distribution, that go on bit for bit wherever they are cut off."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from uraenas.architectures import DISTRIBUTIONS, queried
from uraenas.data import LabelledImages, digits, stratified_split
from uraenas.data.loader import Loader, Normalisation
from uraenas.engine import Engine, EngineSettings
from uraenas.ensemble import MembersPredictor
from uraenas.learning.chains import ChainSpec, TrainSettings, initial_chain
from uraenas.learning.queries import QUERY_WEIGHTS, QueryParts, QuerySearch, QuerySettings, Trainings
from uraenas.learning.recipes import Recipe, recipe_of
from uraenas.learning.search import SearchState, SearchTask
from uraenas.learning.train import Training, train
from uraenas.spaces import CellSpace, Shape

SPACE = CellSpace(channels=4, cells=1, shape=Shape(8, 8, 1, 10))
QUERIED = [name for name, row in DISTRIBUTIONS.items() if row.made.loop == "queries"]
SEED = 4


@pytest.fixture(scope="module")
def halves() -> tuple:
    part = digits().train
    return tuple(part.take(index) for index in stratified_split(part.labels, [64, 60], key=1))


def begin(halves: tuple, name: str, state: SearchState | None = None, stack: int = 10) -> QuerySearch:
    engine = Engine(EngineSettings(device="cpu", stack=stack))
    row = DISTRIBUTIONS[name]
    few = {"together": 3, "population": 3, "first": 3, "candidates": 20}
    parts = QueryParts(
        QuerySettings(queries=5, query_epochs=1, batch=32, prior_deviation=1.0, distribution=name),
        row.make({key: value for key, value in few.items() if key in row.settings}),
        QUERY_WEIGHTS["point"].make(),
    )
    normalisation = Normalisation.of(halves[0].images)

    def load(part: LabelledImages, batch: int) -> Loader:
        return Loader(part, normalisation, batch, 0, False, engine.device, engine.dtype)

    task = SearchTask(SPACE, *halves, normalisation, load, engine, SEED)
    return QuerySearch(Trainings(parts, task), state)


def run(searching: QuerySearch) -> QuerySearch:
    while not searching.done:
        searching.advance()
    return searching


@pytest.fixture(scope="module", params=QUERIED)
def whole(request: pytest.FixtureRequest, halves: tuple) -> tuple[str, QuerySearch]:
    return request.param, run(begin(halves, request.param))


def test_a_search_cut_off_after_any_stack_goes_on_with_the_same_bits(halves: tuple, whole: tuple) -> None:
    """Stacks of one and two in rounds of three: the first cut is in the midst of a round."""
    name, undisturbed = whole
    searching = begin(halves, name, stack=1)
    searching.advance()
    again = run(begin(halves, name, searching.snapshot(), stack=2))
    assert again.history == undisturbed.history
    for key, tensor in undisturbed.state.items():
        assert torch.equal(tensor, again.state[key]), key


def test_the_history_has_a_row_for_every_round(whole: tuple) -> None:
    _, searching = whole
    assert [row["queries"] for row in searching.history] == [3, 5]
    assert [row["epoch"] for row in searching.history] == [0, 1]
    last, found = searching.history[-1], searching.found()
    assert last["best"] == float(searching.state["values"].max())
    assert last["genotype"] == str(found.expected)
    assert np.array(last[found.distribution.numbers]).shape == (6, 5)
    assert len(found.draw(3, seed=0)[0]) == 3
    assert searching.images == 5 * 64


def test_a_query_is_a_chain_and_its_value_the_accuracy_on_validation_images(
    halves: tuple, whole: tuple
) -> None:
    """The fifth query, trained alone by the chains' own loop."""
    _, searching = whole
    architecture = SPACE.architecture(queried.asked(searching.state)[4])
    own = searching.state.get("recipes")
    recipe = Recipe() if own is None else recipe_of(own[4].tolist())
    spec = ChainSpec("query", searching.here.method, 4, architecture, recipe=recipe)
    members: list = []
    settings = TrainSettings(1, 32, 1.0)
    task, loader = searching.here.task, searching.here.loader
    training = Training(settings, SPACE, loader, task.engine, SEED)
    train([initial_chain(spec, SPACE, SEED)], training, members.append, lambda states: None)
    predict = MembersPredictor(members, SPACE, task.normalisation, task.engine)
    right = predict(halves[1].images)[0].argmax(dim=-1).numpy() == halves[1].labels
    assert float(searching.state["values"][4]) == pytest.approx(right.mean(), abs=1e-12)


def test_progress_counts_steps_and_reaches_the_end(halves: tuple) -> None:
    searching, told = begin(halves, "random"), []
    while not searching.done:
        searching.advance(lambda *steps: told.append(steps))
    assert told[-1] == (10, 10)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    moving, steps, queries = begin(halves, "random").trial()
    assert steps * len(moving.specs) == searching.here.loader.steps  # of one epoch, shared by the stack
    assert queries == len(moving.specs)


def test_a_network_that_cannot_be_trained_is_worth_nothing(halves: tuple) -> None:
    searching = begin(halves, "random")
    searching.here.method = replace(searching.here.method, step_size=1e30)
    searching.advance()
    assert searching.state["values"].tolist() == [0.0] * 3
