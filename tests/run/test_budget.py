"""A run that is over in time: what is chosen for a budget, what is there when time is up. Clocks are moved by hand."""

import itertools
import json
from functools import cached_property
from types import SimpleNamespace

import numpy as np
import pytest
from short_runs import FEW

from uraenas import UraeNAS, UraenasError
from uraenas.engine.kernels.cells.fits import why_not
from uraenas.run import budget, choice
from uraenas.run.advice import ENOUGH_STEPS, FEW_STEPS
from uraenas.run.budget import seconds_of
from uraenas.run.choice import MOST_STEPS, Choice
from uraenas.run.config import override, preset
from uraenas.run.directory import Run
from uraenas.run.forecast import Forecast
from uraenas.run.pipeline import Pipeline

STEPS = 16  # of an epoch of digits, by the preset


@pytest.fixture(autouse=True)
def still(monkeypatch):
    """To choose takes no time here, however busy the machine."""
    monkeypatch.setattr(choice, "time", SimpleNamespace(monotonic=lambda: 0.0))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("45", 45), ("90s", 90), ("10m", 600), ("1.5 h", 5400), (30, 30), (0.5, 0.5), ("2min", 120)],
)
def test_times_are_read(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "ten", "10d", "-5", "0", 0, "0m", "nan", "1h30", True])
def test_what_is_no_time_is_one_line(text):
    with pytest.raises(UraenasError, match="is no time; allowed: a number of seconds, or 90s, 10m, 2h"):
        seconds_of(text)


def given(config, searched=None, cell: float = 0.0) -> SimpleNamespace:
    """With eight channels a step of a chain takes 0.005 s, of the search 0.05; with fewer as much less."""
    step = 0.005 * config.values["network.channels"] / 8
    return SimpleNamespace(
        lanes=1,
        abreast=lambda spec: 1,
        searched=searched,
        search_epoch=10 * 8 * step,
        chain_start=lambda spec, count: 0.0,
        chain_epoch=lambda spec, count: STEPS * step,
        predict=0.0,
        look=0.0,
        shifts=0.0,
        references=0.0,
        cell=lambda members: cell,
    )


def chosen(tmp_path, seconds: float, measure=given, fixed=(), **changes: object):
    asked = {"methods": "deep-ensemble", "evaluate.references": False, **changes}
    pipeline = Pipeline.checked(tmp_path / "run", preset("digits", asked))
    found = Choice(pipeline, measure, seconds, fixed).best()
    assert found.expected.total <= 0.9 * seconds
    return found.config


def test_enough_steps_come_first_then_members_then_more_steps(tmp_path):
    """Enough for two chains takes 20 s, for six 60; the preset's search takes 12."""
    asked = preset("digits")
    enough = -(-ENOUGH_STEPS // STEPS)
    two, four, six, most = (chosen(tmp_path, seconds) for seconds in (40, 66, 200, 10_000))
    assert [config.ensemble.members for config in (two, four, six, most)] == [2, 4, 6, 6]
    assert most.train.epochs == -(-MOST_STEPS // STEPS)
    for config, seconds in ((two, 40), (four, 66), (six, 200)):  # what is left goes into more epochs
        assert enough <= config.train.epochs < most.train.epochs
        epoch = 0.005 * STEPS * config.ensemble.members
        left = 0.9 * seconds - 0.4 * config.search.settings.epochs - epoch * config.train.epochs
        assert -1e-9 <= left < epoch
    for config, seconds in ((two, 40), (four, 66), (six, 200)):
        assert config.search is not None
        assert config.search.settings.epochs * 0.4 <= 0.2 * 0.9 * seconds
        assert config.search.settings.epochs % config.search.weights.cycles == 0
        assert config.network.channels == asked.network.channels
    assert most.search.settings.epochs == asked.search.settings.epochs  # never more than asked for


def test_what_does_not_fit_gets_fewer_steps_then_narrower_networks_and_then_is_refused(tmp_path):
    few = -(-FEW_STEPS // STEPS)
    short = chosen(tmp_path, 10)
    assert few <= short.train.epochs < -(-ENOUGH_STEPS // STEPS)
    assert (short.ensemble.members, short.network.channels) == (2, 8)
    narrow = chosen(tmp_path, 2.5)
    assert narrow.network.channels == 4
    assert narrow.train.epochs >= few
    with pytest.raises(UraenasError, match=r"nothing fits into 1 s: the least .* takes about 2 s here"):
        chosen(tmp_path, 1)


def test_networks_are_as_wide_as_own_kernels_want_them(tmp_path):
    """With the kernels' own word on what fits, which an engine on a CPU does not ask."""
    config = preset("digits", {"methods": "deep-ensemble", "evaluate.references": False})
    pipeline = Pipeline.checked(tmp_path / "run", config)

    def widths(fits, seconds=10_000, fixed=()):
        choosing = Choice(pipeline, given, seconds, fixed)
        choosing.why_no_kernels = fits
        return choosing.best().config.network.channels

    assert pipeline.task.space.channels == 8
    assert widths(why_not) == 16
    assert widths(why_not, 2.5) == 4  # where there is no time for that
    assert widths(why_not, fixed={"network.channels"}) == 8
    assert widths(lambda space: "there are none") == 8
    assert widths(lambda space: "") == 8
    wide = Choice(
        Pipeline.checked(tmp_path / "run", override(config, {"network.channels": 300})), given, 10_000
    )
    assert wide.best().config.network.channels == 300  # 1,200 would be refused


def test_cycles_give_as_many_samples_as_their_epochs_hold(tmp_path):
    """Forty are for 200 epochs, of which they are a fifth; fewer epochs have fewer."""
    forty = {"train.sampling.samples": 40, "train.sampling.exploration": 0.8, "train.sampling.peak": 0.5}
    asked = {"methods": "uraenas-swa,deep-ensemble", "train.epochs": 200, "ensemble.members": 2, **forty}
    short = chosen(tmp_path, 30, **asked)
    assert short.train.epochs < 200
    samples = short.values["train.sampling.samples"]
    assert samples == short.train.epochs - int(0.8 * short.train.epochs) < 40
    assert chosen(tmp_path, 10_000, **asked).values["train.sampling.samples"] == 40
    with pytest.raises(UraenasError, match="nothing fits"):
        chosen(tmp_path, 30, fixed={"train.sampling.samples"}, **asked)
    kept = chosen(tmp_path, 40, **asked, **{"train.sampling.mean_of": 10})
    assert kept.values["train.sampling.samples"] >= 10


def test_networks_that_start_trained_keep_their_width(tmp_path, finished_run):
    start = {"train.sampled.start": str(finished_run), "methods": "uraenas,deep-ensemble"}
    pipeline = Pipeline.checked(tmp_path / "run", override(Run(finished_run).config(), start))
    choosing = Choice(pipeline, given, 10_000)
    choosing.why_no_kernels = why_not
    assert choosing.best().config.network.channels == pipeline.config.network.channels


def test_networks_with_too_few_steps_are_said_to_be_undertrained(tmp_path):
    config = preset("digits", {"methods": "deep-ensemble", "evaluate.references": False})
    pipeline = Pipeline.checked(tmp_path / "run", config)
    short, long = (Choice(pipeline, given, seconds) for seconds in (10, 40))
    (said,) = short.doubts(short.best())
    wanted = "train.epochs=46, and they want 125, which would take a budget of about 24 s here"
    assert said == f"networks are undertrained: {wanted}"
    assert long.doubts(long.best()) == []


def test_measuring_takes_its_time_from_the_budget(tmp_path, monkeypatch):
    """Rates are measured when they are first asked for, so that is when time passes."""
    config = preset("digits", {"methods": "deep-ensemble", "evaluate.references": False})
    pipeline = Pipeline.checked(tmp_path / "run", config)
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(choice, "time", SimpleNamespace(monotonic=lambda: now.seconds))
    for took in (0.0, 5.0):

        class Slow(SimpleNamespace):
            search_epoch = 0.4

            @cached_property
            def predict(self, took=took):
                now.seconds += took
                return 0.0

        def measure(config, kind=Slow):
            rates = vars(given(config))
            return kind(
                **{name: rate for name, rate in rates.items() if name not in ("predict", "search_epoch")}
            )

        choosing = Choice(pipeline, measure, 20, fixed={"train.batch"})
        found = choosing.best()
        assert 0.9 * 20 - took - 1 < found.expected.total <= 0.9 * 20 - took
        enough = choosing._try(choosing._epochs(choosing.enough), 2).expected.total
        assert f"a budget of about {took + enough / 0.9:.0f} s here" in choosing.doubts(found)[0]


def test_something_is_chosen_though_every_look_takes_time(tmp_path, monkeypatch):
    """What fitted a moment ago may not any more."""
    config = preset("digits", {"methods": "deep-ensemble", "evaluate.references": False})
    pipeline = Pipeline.checked(tmp_path / "run", config)
    for seconds in np.arange(27.5, 27.8, 0.02):
        clock = itertools.count(0.0, 0.005)
        monkeypatch.setattr(choice, "time", SimpleNamespace(monotonic=lambda ticks=clock: next(ticks)))
        assert Choice(pipeline, given, float(seconds)).best().config.ensemble.members == 2


def test_networks_that_start_trained_are_not_said_to_be_undertrained(tmp_path, finished_run):
    start = {"train.sampled.start": str(finished_run)}
    for methods, said in (("uraenas", 0), ("uraenas,deep-ensemble", 1)):  # the second's weights are drawn
        config = override(Run(finished_run).config(), {"methods": methods, **start})
        choice = Choice(Pipeline.checked(tmp_path / "run", config), given, 10)
        assert len(choice.doubts(choice.best())) == said


def test_batches_are_halved_where_steps_are_few_and_smaller_ones_cost_little(tmp_path):
    def slow(config):
        rates = given(config)
        epoch = (
            rates.chain_epoch("", 1) * 64 / config.train.batch
        )  # a step takes as long on half as many images
        return SimpleNamespace(**{**vars(rates), "chain_epoch": lambda spec, count: epoch})

    halved = chosen(tmp_path, 10)
    assert (halved.train.batch, halved.method("deep-ensemble").weights.step_size) == (32, 0.05)
    kept = [
        chosen(tmp_path, 10, slow),
        chosen(tmp_path, 10, fixed={"train.batch"}),
        chosen(tmp_path, 10, fixed={"train.point.step_size"}),
        chosen(tmp_path, 40),
    ]
    for config in kept:
        assert (config.train.batch, config.method("deep-ensemble").weights.step_size) == (64, 0.1)


def test_trying_smaller_batches_in_vain_is_paid_for(tmp_path, monkeypatch):
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(choice, "time", SimpleNamespace(monotonic=lambda: now.seconds))

    def slow(config):
        rates, half = given(config), config.train.batch == 32
        now.seconds += 4.0 * half  # to find out that smaller batches are too slow
        epoch = rates.chain_epoch("", 1) * (4 if half else 1)
        return SimpleNamespace(**{**vars(rates), "chain_epoch": lambda spec, count: epoch})

    config = preset("digits", {"methods": "deep-ensemble", "evaluate.references": False})
    choosing = Choice(Pipeline.checked(tmp_path / "run", config), slow, 20)
    found = choosing.best()
    assert (found.config.train.batch, now.seconds) == (64, 4)
    assert found.expected.total <= 0.9 * 20 - 4


def test_settings_that_are_given_stay(tmp_path):
    fixed = {"train.epochs": 16, "ensemble.members": 5, "search.epochs": 4}
    config = chosen(tmp_path, 1000, fixed=fixed, **fixed)
    assert {key: config.values[key] for key in fixed} == fixed


QUERIES, QUERY_EPOCHS = "search.queries", "search.query_epochs"


@pytest.mark.parametrize("name", ["random", "evolution", "reinforce", "local", "bayesian", "agebo"])
def test_a_search_by_queries_makes_fewer_then_shorter_then_still_fewer_ones(tmp_path, name):
    """An epoch of a query takes 0.4 s: a hundred of twelve take 480, thirty of twelve 144, thirty of four 48."""
    by_queries = {"search.distribution": name}
    found = []
    for seconds in (10_000, 1000, 500, 100):
        values = chosen(tmp_path, seconds, **by_queries).values
        found.append((values[QUERIES], values[QUERY_EPOCHS]))
        assert 0.4 * values[QUERIES] * values[QUERY_EPOCHS] <= max(0.4 * 4, 0.2 * 0.9 * seconds)
    assert found == [(100, 12), (37, 12), (32, 7), (11, 4)]


def test_of_queries_and_their_epochs_what_is_given_stays(tmp_path):
    for key, value, found in ((QUERIES, 60, (60, 4)), (QUERY_EPOCHS, 9, (12, 9))):
        config = chosen(tmp_path, 250, fixed={key}, **{"search.distribution": "local", key: value})
        assert (config.values[QUERIES], config.values[QUERY_EPOCHS]) == found


def test_a_budget_says_in_a_dry_run_how_many_queries_it_chose(uraenas, tmp_path, monkeypatch):
    monkeypatch.setattr(
        budget, "Rates", lambda config, task, engine, searched, patience: given(config, searched)
    )
    words = ("run", "--preset", "digits", "--methods", "deep-ensemble", "--out", tmp_path / "run")
    done = uraenas(
        *words, "--set", "search.distribution=evolution", "--set", "evaluate.references=false",
        "--budget", "1000", "--dry-run",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "search.queries=37, search.query_epochs=12" in done.stderr
    assert "37 queries of 12 epochs" in done.stdout
    assert not (tmp_path / "run").exists()


def test_epochs_are_whole_cycles_for_every_method(tmp_path):
    cycles = {"train.sampling.cycles": 3, "train.epochs": 18}
    config = chosen(tmp_path, 100, methods="uraenas,deep-ensemble", **cycles)
    assert config.train.epochs % 3 == 0


def test_a_search_that_is_taken_over_takes_no_time(tmp_path, finished_run):
    searched = Run(finished_run).searched()
    with_one, without = (
        chosen(tmp_path, 25, lambda config, one=one: given(config, one)) for one in (None, searched)
    )
    assert without.ensemble.members >= with_one.ensemble.members
    assert without.search.settings.epochs == preset("digits").search.settings.epochs


def test_shifted_images_are_left_out_where_they_do_not_fit(tmp_path):
    def slow(config):
        return given(config, cell=1.0)

    assert chosen(tmp_path, 1000, slow).evaluate.suite == "basic"
    assert chosen(tmp_path, 60, slow).evaluate.suite == "none"
    assert (
        chosen(tmp_path, 60, slow, fixed={"ensemble.members"}, **{"ensemble.members": 2}).ensemble.members
        == 2
    )


def test_a_run_within_a_budget_says_what_it_chose_and_goes_on_with_it(uraenas, tmp_path, monkeypatch):
    monkeypatch.setattr(
        budget, "Rates", lambda config, task, engine, searched, patience: given(config, searched)
    )
    words = (
        "run",
        "--preset",
        "tiny",
        "--methods",
        "drnas",
        "--set",
        "data.limit=100",
        "--out",
        tmp_path / "run",
    )
    monkeypatch.setattr(choice, "FEW_STEPS", 2)
    monkeypatch.setattr(choice, "ENOUGH_STEPS", 4)
    monkeypatch.setattr(choice, "MOST_STEPS", 8)
    done = uraenas(*words, "--budget", "2h")
    assert done.returncode == 0, done.stderr
    (note,) = [line for line in done.stderr.splitlines() if "chosen for" in line]
    stored = json.loads((tmp_path / "run/config.json").read_text())
    assert note == (f"note: chosen for 2.0 h: search.epochs=2, train.epochs={stored['train.epochs']}")
    before = (tmp_path / "run/metrics.json").read_bytes()
    again = uraenas(*words, "--budget", "2h")
    assert again.returncode == 0, again.stderr
    assert "chosen for" not in again.stderr
    assert "note: the run has begun, and keeps its settings" in again.stderr
    assert (tmp_path / "run/metrics.json").read_bytes() == before
    refused = uraenas(*words, "--budget", "soon")
    assert refused.returncode == 2
    assert (
        refused.stderr
        == "uraenas: budget = 'soon' is no time; allowed: a number of seconds, or 90s, 10m, 2h\n"
    )


# When time is up. A second goes by with every step of a chain; an epoch has eight, a chain two epochs.


def begun(path, methods: str, end: float, **changes: object) -> Pipeline:
    facts = {**FEW, "ensemble.members": 4, "engine.stack": 2, "methods": methods}
    pipeline = Pipeline.start(path, preset("tiny", {**facts, **changes}))
    progress = pipeline.progress
    progress.clock = lambda: progress.stages["train"].done if "train" in progress.stages else 0.0
    progress.expect(Forecast({"train": 64.0}, {}), end)
    return pipeline


def test_members_come_from_the_chains_that_are_through_when_time_is_up(tmp_path):
    late = begun(tmp_path / "late", "random-ensemble", end=40)
    late.train(late.search())
    whole = Pipeline.start(tmp_path / "whole", late.config)
    whole.train(whole.search())
    short, full = (pipeline.run.ensemble("random-ensemble") for pipeline in (late, whole))
    assert [member.identity for member in short.members] == [member.identity for member in full.members[:2]]
    assert late.left_out == ["time was up: 2 of 4 chains are trained to their end"]
    assert len(late.run.chains.names()) == 2  # no chain was begun that could not come to its end
    assert late.evaluate().rows
    assert whole.left_out == []


def test_time_that_is_left_but_too_short_for_other_chains_is_not_called_up(tmp_path):
    late = begun(tmp_path / "late", "random-ensemble", end=56)
    late.train(late.search())
    assert late.left_out == [
        "16 s were left, too few for other chains: 2 of 4 chains are trained to their end"
    ]


def test_where_no_chain_is_through_members_are_what_chains_are_by_then(tmp_path):
    late = begun(tmp_path / "late", "random-ensemble", end=20)
    late.train(late.search())
    members = late.run.ensemble("random-ensemble").members
    assert [(member.origin.chain, member.origin.epoch) for member in members] == [
        ("uniform-point-00", 0),
        ("uniform-point-01", 0),
    ]
    assert late.left_out == [
        "time was up: 0 of 4 chains are trained to their end; 2 are used as far as they came"
    ]


def test_a_method_without_members_is_left_out_and_can_be_trained_later(tmp_path):
    methods, fixed = "deep-ensemble,random-ensemble", {"train.expected.genotype": GENOTYPE}
    late = begun(tmp_path / "late", methods, end=34, **fixed)
    late.train(late.search())
    assert late.left_out[1] == "without members, and left out: random-ensemble"
    assert {row.method for row in late.evaluate().rows} & set(methods.split(",")) == {"deep-ensemble"}
    later = Pipeline.resume(tmp_path / "late")
    later.train(later.search())
    whole = Pipeline.start(tmp_path / "whole", late.run.config())
    whole.train(whole.search())
    ours, theirs = (one.run.ensemble("random-ensemble").identity for one in (later, whole))
    assert ours == theirs


def test_where_there_is_nothing_at_all_it_is_one_line(tmp_path):
    late = begun(tmp_path / "late", "random-ensemble", end=5)
    with pytest.raises(UraenasError, match="time was up before a network was trained"):
        late.train(late.search())


def test_a_search_that_takes_twice_as_long_as_expected_is_ended(tmp_path):
    pipeline = Pipeline.start(
        tmp_path / "run", preset("tiny", {**FEW, "methods": "drnas", "search.epochs": 4})
    )
    progress = pipeline.progress
    progress.clock = lambda: progress.stages["search"].done if "search" in progress.stages else 0.0
    progress.expect(Forecast({"search": 4.0}, {}), end=1000.0)  # its epochs take five seconds
    assert pipeline.search() is not None
    assert pipeline.left_out == ["the search was ended after 2 of 4 epochs"]
    assert pipeline.run.has_search


def test_shifted_images_that_come_too_late_are_left_out_as_a_whole(own_run):
    pipeline = Pipeline.resume(own_run)
    progress = pipeline.progress
    progress.clock = lambda: progress.stages["evaluate"].done if "evaluate" in progress.stages else 0.0
    progress.expect(Forecast({"evaluate": 9.0}, {}), end=2.5)
    assert {row.shift for row in pipeline.evaluate().rows} == {"none"}
    assert pipeline.left_out == ["time was up: shifted images were left out (basic)"]
    again = Pipeline.resume(own_run)
    assert {row.shift for row in again.evaluate().rows} > {"none"}


def test_the_estimator_has_a_budget(monkeypatch):
    monkeypatch.setattr(
        budget, "Rates", lambda config, task, engine, searched, patience: given(config, searched)
    )
    monkeypatch.setattr(choice, "ENOUGH_STEPS", 2)
    monkeypatch.setattr(choice, "MOST_STEPS", 2)
    monkeypatch.setattr(choice, "FEW_STEPS", 2)
    images = np.random.default_rng(0).integers(0, 256, (60, 8, 8), dtype=np.uint8)
    labels = np.arange(60) % 2
    fitted = UraeNAS("random-ensemble", preset="tiny", budget="1h").fit(images, labels)
    assert len(fitted.ensemble_) == 2
    assert fitted.get_params()["budget"] == "1h"
    with pytest.raises(UraenasError, match="is no time"):
        UraeNAS(preset="tiny", budget="soon").fit(images, labels)


GENOTYPE = "|nor_conv_3x3~0|+|none~0|none~1|+|skip_connect~0|none~1|none~2|"


def test_networks_that_move_as_one_batch_stay_one_stack(tmp_path):
    cpu = {"engine.device": "cpu"}
    table, images = (Pipeline.checked(tmp_path / name, preset(name, cpu)) for name in ("table", "digits"))
    assert Choice(table, given, 60.0).stack == table.config.engine.stack
    assert Choice(images, given, 60.0).stack == images.engine.workers.count < images.config.engine.stack
