"""How long a run takes, and how much is left: amounts of work times rates that are given, by a clock that is moved."""

import gc
import shutil
import weakref
from collections import Counter

import pytest

from uraenas.base.progress import Lines, in_words
from uraenas.engine import Engine
from uraenas.learning.chains import ChainSpec
from uraenas.learning.train import StackOfChains
from uraenas.run.config import preset
from uraenas.run.directory import Run
from uraenas.run.forecast import Countdown, Forecast, forecast
from uraenas.run.pipeline import Pipeline
from uraenas.run.rates import Rates


class Given:
    """Rates that nobody measured: a second for everything, on two lanes."""

    lanes, searched = 2, None
    search_epoch = predict = look = shifts = references = 1.0

    def abreast(self, spec: object) -> int:
        return self.lanes

    def chain_start(self, spec: object, count: int) -> float:
        return 0.0

    def chain_epoch(self, spec: object, count: int) -> float:
        return 1.0

    def cell(self, members: int) -> float:
        return 1.0


class Ticking:
    """A clock on which a second passes between two looks."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


class Hand:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def expected(path, rates=None, evaluating: bool = False, **changes: object) -> Forecast:
    pipeline = Pipeline.checked(path, preset("tiny", {"evaluate.suite": "none", **changes}))
    return forecast(pipeline.config, pipeline.task, pipeline.run, rates or Given(), evaluating)


def test_every_chain_is_counted_once_and_as_many_run_side_by_side_as_there_are_lanes(tmp_path):
    changes = {"methods": "drnas,deep-ensemble", "train.epochs": 10, "search.epochs": 3}
    found = expected(tmp_path / "run", **changes, **{"ensemble.members": 5})
    assert found.seconds["search"] == 3
    assert found.plan["chains"] == 5  # drnas is the first of them
    assert found.seconds["train"] == pytest.approx(3 * 10)  # two, two and one
    assert found.seconds["evaluate"] == 0  # nobody asked for it


def test_what_others_have_explored_is_not_run_again(tmp_path):
    """A snapshot chain moves like one with noise until it samples."""
    changes = {"train.epochs": 10, "train.sampling.exploration": 0.5, "ensemble.members": 1}
    alone, both = (
        expected(tmp_path / "run", methods=methods, **changes)
        for methods in ("uraenas-w", "uraenas-w,snapshot")
    )
    assert alone.seconds["train"] == 10
    assert both.seconds["train"] == 10 + 5


def test_other_ways_to_predict_are_counted_by_how_often_members_see_an_image(tmp_path):
    """Digits are moved, not mirrored: five views; norms that know the images take two passes."""
    changes = {"methods": "random-ensemble", "evaluate.references": False}
    plain, others = (
        expected(tmp_path / "run", evaluating=True, **changes, **{"evaluate.test_time": ways}).seconds
        for ways in ((), "views,statistics")
    )
    assert others["evaluate"] - 1 == 8 * (plain["evaluate"] - 1)  # a second to measure


def test_what_is_done_is_not_counted(finished_run, own_run):
    whole = Pipeline.resume(finished_run)

    def left(path, **facts):
        pipeline = Pipeline.resume(path)
        rates = Given()
        rates.searched = pipeline.run.searched()
        return forecast(pipeline.config, pipeline.task, pipeline.run, rates, **facts).seconds

    assert sum(left(finished_run).values()) == 0
    shutil.rmtree(own_run / "methods")
    again = left(own_run)
    assert again["search"] == again["train"] == 0  # chains are there
    assert again["members"] > 0
    assert again["evaluate"] > 0
    shutil.rmtree(own_run / "chains")
    epochs = whole.config.train.epochs
    assert left(own_run)["train"] == 2 * epochs  # sampled-sghmc and expected-point, two chains of each


def test_measuring_leaves_no_trace_and_measures_only_what_is_asked_for(tmp_path, finished_run):
    """Bits do not change: `test_stages_one_by_one_give_the_same_result` compares with a run that measured nothing."""
    clock = Ticking()
    changes = {"evaluate.severities": "1", "methods": "mimo,drnas,swag,uraenas"}
    pipeline = Pipeline.checked(tmp_path / "run", preset("tiny", changes))
    rates = Rates(pipeline.config, pipeline.task, pipeline.engine, clock=clock)
    found = forecast(pipeline.config, pipeline.task, pipeline.run, rates)
    assert all(seconds > 0 for seconds in found.seconds.values())
    # A kind of weights that changes the step is timed by itself.
    timed = {(source, kind) for source, kind, _ in rates._stacks}
    assert timed == {("expected", "mimo"), ("expected", ""), ("sampled", "")}
    assert not (tmp_path / "run").exists()
    done = Pipeline.resume(finished_run)
    clock.now = 0.0
    rates = Rates(done.config, done.task, done.engine, done.run.searched(), clock=clock)
    assert forecast(done.config, done.task, done.run, rates).total == 0
    assert clock.now == 0  # nothing was timed


def test_on_a_gpu_compiling_is_no_part_of_a_step_and_few_networks_take_less_than_many(tmp_path, monkeypatch):
    """A GPU's engine in what matters here: steps are captured at their fourth call, and nothing runs on threads."""
    clock, calls = Hand(), Counter()

    def one_step(stack: StackOfChains, step: int = 0) -> None:
        calls["all"] += 1
        stack.calls = getattr(stack, "calls", 0) + 1
        captured = stack.calls > 4
        clock.now += 30.0 * (calls["all"] == 1) + (0.001 * (3 + len(stack.specs)) if captured else 1.0)

    monkeypatch.setattr(StackOfChains, "one_step", one_step)
    monkeypatch.setattr(Engine, "calls_to_capture", 4)
    changes = {"methods": "deep-ensemble", "ensemble.members": 10, "evaluate.suite": "none"}
    pipeline = Pipeline.checked(tmp_path / "run", preset("tiny", changes))
    pipeline.engine.workers = None
    rates = Rates(pipeline.config, pipeline.task, pipeline.engine, clock=clock)
    spec = ChainSpec("expected", pipeline.config.method("deep-ensemble").weights, 0, "")
    steps = pipeline.task.steps(pipeline.config.train.batch)
    for count in (2, 6, 10):
        assert rates.chain_epoch(spec, count) == pytest.approx(steps * 0.001 * (3 + count))
        assert rates.chain_start(spec, count) == pytest.approx(3.0, abs=0.1)  # to warm up and be captured
    assert len(rates._stacks) == 2


def test_on_a_gpu_stacks_that_do_not_fit_are_timed_smaller_and_none_is_kept(tmp_path, monkeypatch):
    made, beside = [], []
    begin = StackOfChains.__init__

    def watched(stack, chains, training):
        gc.collect()
        beside.append(sum(one() is not None for one in made))
        if len(chains) > 4:
            raise RuntimeError("CUDA error: out of memory")
        begin(stack, chains, training)
        made.append(weakref.ref(stack))

    monkeypatch.setattr(StackOfChains, "__init__", watched)
    changes = {"methods": "deep-ensemble", "ensemble.members": 10, "evaluate.suite": "none"}
    pipeline = Pipeline.checked(tmp_path / "run", preset("tiny", changes))
    pipeline.engine.workers = None
    rates = Rates(pipeline.config, pipeline.task, pipeline.engine)
    spec = ChainSpec("expected", pipeline.config.method("deep-ensemble").weights, 0, "")
    with pytest.warns(UserWarning, match="networks do not fit into memory side by side"):
        assert rates.chain_epoch(spec, 10) > 0
    assert rates.abreast(spec) == 2
    anew = Rates(pipeline.config, pipeline.task, pipeline.engine, clock=Ticking())
    with pytest.warns(UserWarning, match="networks do not fit into memory side by side"):
        first = forecast(pipeline.config, pipeline.task, pipeline.run, anew, evaluating=False)
    again = forecast(pipeline.config, pipeline.task, pipeline.run, anew, evaluating=False)
    assert first.seconds["train"] == again.seconds["train"]
    assert beside == [0] * len(beside)


def test_a_forecast_in_words():
    seconds = {"search": 20.4, "train": 131.0, "members": 0.2, "evaluate": 29.6}
    assert str(Forecast(seconds, {})) == "about 3 min: search 20 s, training 2 min, evaluation 30 s"
    assert str(Forecast({"train": 3.0}, {})) == "about 3 s"
    assert [in_words(t) for t in (-1, 0.4, 99, 100, 5999, 9000)] == [
        "0 s",
        "0 s",
        "99 s",
        "2 min",
        "100 min",
        "2.5 h",
    ]


def test_the_time_left_is_that_of_all_stages_at_the_pace_so_far():
    clock, told = Hand(), []
    countdown = Countdown(lambda *facts: told.append(facts), clock)
    countdown.expect(Forecast({"search": 10.0, "train": 100.0, "evaluate": 50.0}, {}))
    countdown("search", 0, 10)
    assert told == [("search", 0, 10, pytest.approx(160))]
    for step in range(1, 11):  # twice as slow as forecast
        clock.now += 2
        countdown("search", step, 10)
    assert 150 < told[-1][3] < 300
    countdown("train", 0, 1000)
    for step in range(1, 1001):
        clock.now += 0.2
        countdown("train", step, 1000)
    assert told[-1][3] == pytest.approx(100, rel=0.1)  # evaluation, twice as long
    clock.now += 100
    countdown("evaluate", 7, 7)
    assert told[-1][3] == 0


def test_progress_is_told_a_few_times_a_second():
    clock, told = Hand(), []
    countdown = Countdown(lambda *facts: told.append(facts), clock)
    for step in range(1001):
        countdown("train", step, 1000)
        clock.now += 0.001
    assert told[0] == ("train", 0, 1000, None)
    assert told[-1] == ("train", 1000, 1000, None)
    assert len(told) <= 6


def test_what_goes_on_in_the_middle_of_a_stage_is_timed_from_there():
    clock, told = Hand(), []
    countdown = Countdown(lambda *facts: told.append(facts), clock)
    countdown.expect(Forecast({"train": 50.0}, {}))  # of the half that is left
    countdown("train", 500, 1000)
    assert told[-1][3] == pytest.approx(50)
    clock.now += 25
    countdown("train", 750, 1000)
    assert told[-1][3] == pytest.approx(25)


def test_the_room_of_a_stage_ends_where_later_stages_must_begin():
    clock = Hand()
    countdown = Countdown(lambda *facts: None, clock)
    assert countdown.room("train") == float("inf")
    countdown.expect(Forecast({"train": 60.0, "evaluate": 20.0}, {}), end=100.0)
    countdown("train", 0, 60)
    assert countdown.room("train") == pytest.approx(80)
    assert countdown.room("evaluate") == pytest.approx(100)


def test_lines_come_by_tenths_and_do_not_go_back(capsys):
    lines = Lines()
    for done in (0, 1, 9, 10, 15, 8, 20, 100):
        lines("train", done, 100, 240.0 - done)
    lines("download", 1, 2)
    assert capsys.readouterr().err.splitlines() == [
        "train 0 of 100, 4 min left",
        "train 10 of 100, 4 min left",
        "train 20 of 100, 4 min left",
        "train 100 of 100, 2 min left",
        "download 1 of 2",
    ]


def test_a_dry_run_prints_the_plan_and_writes_nothing(uraenas, tmp_path):
    out = tmp_path / "run"
    words = ("run", "--preset", "tiny", "--set", "evaluate.severities=1", "--out", out, "--dry-run")
    done = uraenas(*words)
    assert done.returncode == 0, done.stderr
    for word in ("search", "train", "members", "evaluate", "4 chains, 2 epochs", "uraenas 2", "5 sets"):
        assert word in done.stdout
    assert uraenas(*words, "--json").stdout.startswith('{"run"')
    assert not out.exists()
    assert not Run(out).exists


def test_perceptrons_move_as_one_batch_and_are_timed_as_one():
    """One after another they would take many times as long."""
    settings = preset("table", {"engine.device": "cpu", "evaluate.suite": "none"})
    pipeline = Pipeline.checked("unwritten", settings)
    rates = Rates(pipeline.config, pipeline.task, pipeline.engine)
    plain, masked = (settings.method(name).weights for name in ("joint-adam", "mc-dropout"))
    assert rates.abreast(ChainSpec("sampled", plain, 0, "")) == 40
    assert rates.abreast(ChainSpec("sampled", masked, 0, "")) == rates.lanes < 40
