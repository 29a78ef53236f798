"""The estimators of tables under a budget; tests/run/test_budget.py has what is chosen for one."""

import numpy as np
import pytest

from uraenas import Run, UraeNASClassifier, UraeNASRegressor
from uraenas.base.errors import UraenasError
from uraenas.base.files import read_json, write_json
from uraenas.run import choice

pytestmark = pytest.mark.filterwarnings("ignore:the part of weights")  # no architecture has two members
KINDS = (UraeNASClassifier, UraeNASRegressor)
SMALL = {
    "method": "uniform-adam",
    "epochs": 3,
    "settings": {"train.batch": 16, "network.widths": "16", "network.nodes": 1},
}


def rows(kind: type) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).normal(size=(60, 3))
    y = x[:, 0] + x[:, 1]
    return (x, y > 0) if kind is UraeNASClassifier else (x, y)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_given_is_chosen_for_the_budget(kind: type, tmp_path, monkeypatch) -> None:
    x, y = rows(kind)
    monkeypatch.setattr(choice, "MOST_STEPS", 2400)  # of six an epoch; without a budget it is 2,000
    own = {**SMALL, "epochs": None}
    fitted = kind(**own, members=3, budget="1h", run_directory=tmp_path / "run").fit(x, y)
    assert len(fitted.ensemble_.members) == 3
    assert Run(tmp_path / "run").config().train.epochs == 400
    with pytest.raises(ValueError, match="nothing fits"):
        kind(**SMALL, members=3, budget=0.001).fit(x, y)
    with pytest.raises(ValueError, match="'soon'"):
        kind(budget="soon").fit(x, y)


@pytest.mark.filterwarnings("ignore")
def test_a_model_that_was_saved_before_there_were_budgets_is_read(tmp_path) -> None:
    x, y = rows(UraeNASRegressor)
    fitted = UraeNASRegressor(**SMALL, members=2).fit(x, y)
    fitted.save(tmp_path / "model")
    file = tmp_path / "model/estimator.json"
    facts = read_json(file)
    assert facts["parameters"].pop("budget") is None
    write_json(file, facts)
    read = UraeNASRegressor.load(tmp_path / "model")
    assert read.budget is None
    np.testing.assert_array_equal(read.predict(x), fitted.predict(x))
    del facts["parameters"]["members"]
    write_json(file, facts)
    with pytest.raises(UraenasError, match="members is missing"):
        UraeNASRegressor.load(tmp_path / "model")
