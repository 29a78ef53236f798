"""Rows with categories that were never seen: predicted as a mixture, never surer, and for want of knowledge."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from uraenas.data.tables.variants import MOST, taken_for
from uraenas.ensemble import Ensemble
from uraenas.ensemble.table_rows import predict_rows

TOWNS, KINDS = ("a", "b", "c"), ("flat", "house")
SETTINGS = {
    "ensemble.members": 4,
    "train.sampled.architectures": 2,
    "network.widths": "8,16",
    "train.folds": 0,
}


@pytest.fixture(scope="module")
def ensembles() -> dict[str, Ensemble]:
    """Of a number and of classes, that depend on both categories most of all; their effects cancel in some rows."""
    from uraenas import UraeNASClassifier, UraeNASRegressor

    random = np.random.default_rng(0)
    x = {"area": random.uniform(0, 1, 240), "town": random.choice(TOWNS, 240, p=(0.6, 0.3, 0.1))}
    x |= {"kind": random.choice(KINDS, 240)}
    town, kind = (np.array([values.index(one) for one in x[name]]) for name, values in CATEGORIES.items())
    value = x["area"] + 5 * town - 5 * kind + random.normal(0, 0.3, 240)
    rows = np.array([x["area"].astype(object), x["town"], x["kind"]], object).T
    classes = np.where(value > 0.5, "dear", "cheap")
    small: dict[str, Any] = {"search_epochs": 2, "epochs": 30, "random_state": 0, "settings": SETTINGS}
    number = UraeNASRegressor(**small).fit(rows, value).ensemble_
    return {"numbers": number, "classes": UraeNASClassifier(**small).fit(rows, classes).ensemble_}


CATEGORIES = {"town": TOWNS, "kind": KINDS}


def asked(ensemble: Ensemble, towns: tuple[str, ...], kinds: tuple[str, ...]) -> dict[str, np.ndarray]:
    """What is said of each pair, by field."""
    pairs = np.array([(0.5, *pair) for pair in product(towns, kinds)], object)
    rows = predict_rows(ensemble, pairs)
    return {
        name: np.array([row[name] for row in rows]) for name in ("total", "data", "weights", "architecture")
    }


@pytest.mark.parametrize("target", ["numbers", "classes"])
@pytest.mark.parametrize(
    ("towns", "kinds"),
    [(("new",), ("flat",)), (("new",), ("house",)), (("a",), ("new",)), (("x",), ("new",))],
)
def test_it_is_never_surer_and_what_it_lacks_is_knowledge(
    ensembles: dict[str, Ensemble], target: str, towns: tuple[str, ...], kinds: tuple[str, ...]
) -> None:
    ensemble = ensembles[target]
    strange = {name: values[0] for name, values in asked(ensemble, towns, kinds).items()}
    may_be = [own if one[0] not in own else one for own, one in ((TOWNS, towns), (KINDS, kinds))]
    known = {name: values.mean() for name, values in asked(ensemble, *may_be).items()}
    assert strange["total"] > known["total"]
    assert strange["data"] == pytest.approx(known["data"])  # noise is not more for not knowing the category
    assert strange["weights"] > known["weights"] + 0.5 * (strange["total"] - known["total"])
    parts = strange["data"] + strange["weights"] + strange["architecture"]
    assert parts == pytest.approx(strange["total"])


def test_its_number_is_the_mixture_over_what_it_may_be(ensembles: dict[str, Ensemble]) -> None:
    ensemble = ensembles["numbers"]
    every = np.array([(0.5, *pair) for pair in product(TOWNS, KINDS)], object)
    mean, deviation = ensemble.predict_distribution(np.array([(0.5, "x", "y")], object))
    means, deviations = ensemble.predict_distribution(every)
    assert mean[0] == pytest.approx(means.mean())
    # The law of total variance; the spread between combinations is stretched by the temperature as all else.
    between = ensemble.temperature * means.var()
    assert deviation[0] ** 2 == pytest.approx((deviations**2).mean() + between)
    low, high = ensemble.predict_interval(np.array([(0.5, "x", "y")], object), 0.5)[0]
    assert high - low > np.diff(ensemble.predict_interval(every, 0.5)).mean()


def test_rows_beside_it_are_predicted_as_if_they_were_alone(ensembles: dict[str, Ensemble]) -> None:
    rows = np.array([(0.5, "a", "flat"), (0.2, "x", "house"), (0.9, "c", "house")], object)
    for ensemble in ensembles.values():
        together, alone = ensemble.uncertainty(rows), ensemble.uncertainty(rows[[0, 2]])
        for name in ("total", "data", "weights", "architecture"):
            torch.testing.assert_close(getattr(together, name)[[0, 2]], getattr(alone, name))


def test_combinations_are_all_there_are_or_hold_each_value_about_as_often() -> None:
    assert sorted(taken_for([2, 1, 3])) == [[a, 0, b] for a in range(2) for b in range(3)]
    assert taken_for([]) == [[]]
    for counts in ([5, 5], [2] * 8, [3, 40], [1, 1000]):
        found = np.array(taken_for(counts))
        assert len(found) <= MOST
        assert (found[0] == 0).all()
        for place, count in enumerate(counts):
            times = np.bincount(found[:, place], minlength=count)
            assert times.max() - times.min() <= 1
    # Whatever two columns do together is not tied to one another.
    pairs = {tuple(one[:2]) for one in taken_for([2] * 8)}
    assert pairs == set(product(range(2), repeat=2))
