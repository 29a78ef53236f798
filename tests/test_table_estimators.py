"""The estimators of tables: scikit-learn's checks, pandas tables with texts, intervals."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    estimator_checks_generator,
)

from uraenas import Run, UraeNAS, UraeNASClassifier, UraeNASRegressor
from uraenas.base.errors import UraenasError
from uraenas.base.files import read_json, write_json
from uraenas.data.tables.frame import frame_of

pytestmark = pytest.mark.filterwarnings("ignore:the part of weights")  # no architecture has two members
SMALL = {
    "method": "uniform-adam",
    "members": 2,
    "epochs": 15,
    "settings": {"train.adam.step_size": 0.03, "train.batch": 16, "network.widths": "16", "network.nodes": 1},
}
KINDS = {kind.__name__: kind for kind in (UraeNASRegressor, UraeNASClassifier)}
# Those that fit once or less; the others are slow.
QUICK = (
    "check_estimators_unfitted",
    "check_n_features_in_after_fitting",
    "check_supervised_y_no_nan",
    "check_fit2d_1sample",
    "check_requires_y_none",
    "check_dict_unchanged",
    "check_methods_subset_invariance",
    "check_sample_weights_shape",
    "check_all_zero_sample_weights_error",
)
OF_REGRESSORS = ("check_regressor_multioutput",)
# Whole weights as repeated rows: minibatches, folds and held-out rows are drawn row by row.
NOT_HELD = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)


def checks(name: str) -> list:
    found = estimator_checks_generator(KINDS[name](**SMALL), legacy=True)
    return [
        pair
        for pair in found
        if "array_api" not in pair[1].func.__name__ and pair[1].func.__name__ not in NOT_HELD
    ]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.filterwarnings("ignore")
def test_checks_of_scikit_learn_hold(name: str) -> None:
    wanted = {*QUICK, *(OF_REGRESSORS if name == "UraeNASRegressor" else ())}
    quick = [pair for pair in checks(name) if pair[1].func.__name__ in wanted]
    assert {check.func.__name__ for _, check in quick} == wanted
    for estimator, check in quick:
        check(estimator)
    check_dataframe_column_names_consistency(name, KINDS[name](**SMALL))


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.filterwarnings("ignore")
def test_all_checks_of_scikit_learn_hold(name: str) -> None:
    found = checks(name)
    assert len(found) > 45
    for estimator, check in found:
        check(estimator)


@pytest.mark.parametrize("name", KINDS)
def test_weights_count_by_their_ratios_and_0_leaves_a_row_out(name: str) -> None:
    random = np.random.default_rng(0)
    rows, weights = random.normal(size=(80, 2)), random.uniform(0.1, 2.0, 80)
    y = np.where(rows[:, 0] + 0.5 * random.normal(size=80) > 0, 1, 0)
    y[:20] = 2  # of weight 0, so of classes it is none

    def said(count: slice, *weight: np.ndarray) -> np.ndarray:
        model = KINDS[name](**SMALL).fit(rows[count], y[count], *weight)
        return model.predict_proba(rows) if name == "UraeNASClassifier" else model.predict(rows)

    weights[:20] = 0
    kept = slice(20, 80)
    weighted = said(kept, weights[20:])
    np.testing.assert_array_equal(said(slice(80), weights), weighted)
    np.testing.assert_array_equal(said(kept, 8 * weights[20:]), weighted)
    np.testing.assert_array_equal(said(kept, np.full(60, 3.0)), said(kept))
    assert np.abs(said(kept) - weighted).max() > 1e-3


@pytest.mark.parametrize(("weights", "told"), [(-1.0, "Negative values"), (0.0, "0 for all rows|non-zero")])
def test_weights_that_cannot_be_are_refused(weights: float, told: str) -> None:
    rows = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(ValueError, match=told):
        UraeNASRegressor(**SMALL).fit(rows, rows.sum(axis=1), np.full(60, weights))


def test_classes_may_come_as_a_categorical_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    rows = np.random.default_rng(0).normal(size=(60, 2))
    y = pandas.Categorical(np.where(rows[:, 0] > 0, "a", "b"), categories=["b", "a"])
    assert UraeNASClassifier(**SMALL).fit(rows, y).classes_.tolist() == ["a", "b"]
    y[3] = np.nan
    with pytest.raises(ValueError, match="y has missing values"):
        UraeNASClassifier(**SMALL).fit(rows, y)


def test_texts_and_missing_values_of_a_pandas_table_are_learned_from() -> None:
    pandas = pytest.importorskip("pandas")
    random = np.random.default_rng(0)
    town = random.choice(["a", "b"], 120)
    rows = pandas.DataFrame(
        {"town": town, "area": np.where(random.random(120) < 0.1, np.nan, random.random(120))}
    )
    y = np.where(town == "a", 1.0, -1.0) + 0.05 * random.standard_normal(120)
    model = UraeNASRegressor(**SMALL).fit(rows, y)
    assert model.score(rows, y) > 0.8
    ends = model.predict_interval(rows, 0.5)
    assert ((y >= ends[:, 0]) & (y <= ends[:, 1])).mean() > 0.3
    mean, deviation = model.predict(rows, return_std=True)
    assert (deviation > 0).all()
    np.testing.assert_array_equal(mean, model.predict(rows))
    assert set(model.uncertainty(rows)) == {"total", "data", "weights", "architecture"}
    sorted_out = UraeNASClassifier(**SMALL).fit(rows, town)
    assert (sorted_out.predict(rows) == town).mean() > 0.95
    assert sorted_out.predict_set(rows, 0.5).shape == (120, 2)


def rows_of_two_targets(count: int = 60) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    rows = random.standard_normal((count, 2))
    return rows, rows * (1.0, 1000.0) + 0.1 * random.standard_normal((count, 2))


def test_several_targets_have_predictions_intervals_and_uncertainty_of_their_own() -> None:
    rows, both = rows_of_two_targets(120)
    model = UraeNASRegressor(**SMALL).fit(rows, both)
    assert model.score(rows, both) > 0.8
    mean, deviation = model.predict(rows, return_std=True)
    ends = model.predict_interval(rows, 0.5)
    assert (mean.shape, deviation.shape, ends.shape) == ((120, 2), (120, 2), (120, 2, 2))
    assert (((both >= ends[..., 0]) & (both <= ends[..., 1])).mean(axis=0) > 0.3).all()
    split = model.uncertainty(rows)
    np.testing.assert_allclose(split["data"] + split["weights"] + split["architecture"], split["total"])
    assert (split["total"][:, 1] > 1000 * split["total"][:, 0]).all()
    assert len(set(model.ensemble_.temperatures)) == 2


def test_a_deviation_has_the_temperature_and_parts_of_uncertainty_do_not() -> None:
    x = np.random.default_rng(0).normal(size=(80, 2))
    model = UraeNASRegressor(**SMALL).fit(x, x[:, 0])
    deviation, total = model.predict(x, return_std=True)[1], model.uncertainty(x)["total"]
    np.testing.assert_allclose(deviation**2, model.ensemble_.temperature * total)
    assert model.ensemble_.temperature != 1


def test_several_targets_keep_the_names_of_their_columns_where_these_can_be_told_apart() -> None:
    pandas = pytest.importorskip("pandas")
    rows, both = rows_of_two_targets()
    rows = pandas.DataFrame({"a": rows[:, 0], "town": np.where(rows[:, 1] > 0, "x", "y")})
    for columns, expected in (
        (["price", "rent"], ["price", "rent"]),
        (["a", "x,y"], ["the target 0", "the target 1"]),
    ):
        model = UraeNASRegressor(**{**SMALL, "epochs": 1}).fit(rows, pandas.DataFrame(both, columns=columns))
        assert [part.column for part in model.ensemble_.normalisation.target.parts] == expected


def test_a_row_is_predicted_alike_alone_and_among_others_and_with_truths_in_any_form() -> None:
    pandas = pytest.importorskip("pandas")
    random = np.random.default_rng(0)
    code, flag = random.choice(["007", "1.0", "A12"], 120), random.choice([True, False, None], 120)
    rows = pandas.DataFrame({"code": code, "flag": flag})
    y = (code == "A12") * 2.0 + np.array([one is True for one in flag])
    model = UraeNASRegressor(**SMALL).fit(rows, y)
    some = rows[(code == "007") & rows.flag.notna()][:4]
    expected = model.predict(rows)[some.index]
    np.testing.assert_allclose(model.predict(some), expected)
    np.testing.assert_allclose(model.predict(some.assign(flag=some.flag.astype(bool))), expected)


def test_a_warning_says_where_a_word_made_texts_of_measurements() -> None:
    pandas = pytest.importorskip("pandas")
    x = np.random.default_rng(0).normal(size=120).round(1)
    rows = pandas.DataFrame({"x": ["<1", *map(str, x[1:])]})
    with pytest.warns(UserWarning, match="different numbers, which are read as texts") as told:
        UraeNASRegressor(**SMALL).fit(rows, x)
    assert told[0].filename == __file__


def test_a_warning_counts_rows_with_what_was_never_seen() -> None:
    pandas = pytest.importorskip("pandas")
    x = np.random.default_rng(0).normal(size=60)
    rows = pandas.DataFrame({"x": x, "town": ["a", "b", "c"] * 20})
    model = UraeNASRegressor(**SMALL).fit(rows, x)
    model.predict(rows)
    for column, value, words in (
        ("town", "z", "town = z"),
        ("town", None, "town missing"),
        ("x", None, "x m"),
    ):
        new = rows.copy()
        new.loc[[3, 5], column] = value
        for ask in (model.predict, model.uncertainty, model.is_foreign):
            said = f"2 rows have what no training row has, such as {words}"
            with pytest.warns(UserWarning, match=said) as told:
                ask(new)
            assert told[0].filename == __file__
        with pytest.warns(UserWarning, match=f"1 row has what no training row has, such as {words}"):
            model.predict(new.loc[[3]])
    gaps = rows.assign(x=np.where(x > 1, np.nan, x))
    UraeNASRegressor(**SMALL).fit(gaps, x).predict(gaps)


def test_rows_that_cannot_be_predicted_are_value_errors() -> None:
    pandas = pytest.importorskip("pandas")
    rows = pandas.DataFrame({"town": ["a", "b"] * 10, "area": np.arange(20.0) / 2})
    model = UraeNASRegressor(**SMALL).fit(rows, rows.area)
    with pytest.raises(ValueError, match="no rows"):
        model.predict(rows[:0])
    with pytest.raises(ValueError, match="column area holds 'large', and had numbers"):
        model.predict(rows.assign(area=["1.5", "large"] * 10))


@pytest.mark.parametrize("name", KINDS)
def test_a_warning_counts_rows_that_are_there_twice_unless_by_chance(name: str) -> None:
    x = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.warns(UserWarning, match="of 80 training rows are also in another part") as told:
        KINDS[name](**SMALL).fit(np.tile(x, (2, 1)), np.tile(x[:, 0] > 0, 2).astype(float))
    assert told[0].filename == __file__
    few = np.random.default_rng(0).integers(0, 4, (80, 2))
    KINDS[name](**SMALL).fit(few, few[:, 0] % 2)


@pytest.mark.parametrize(
    ("labels", "said"),
    [(["yes", 1], "int and str"), (["yes", None], "nothing and str"), ([0, 1], "here int;")],
)
def test_labels_of_mixed_types_are_told_in_one_line(labels: list, said: str) -> None:
    with pytest.raises(ValueError, match=f"Unknown label type: objects.*{said}") as refused:
        UraeNASClassifier(**SMALL).fit(np.arange(40.0)[:, None], np.array(labels * 20, dtype=object))
    assert "\n" not in str(refused.value)


def test_a_warning_names_a_part_of_uncertainty_that_is_not_defined() -> None:
    x = np.random.default_rng(0).normal(size=(60, 2))
    model = UraeNASRegressor(**SMALL).fit(x, x[:, 0])
    with pytest.warns(UserWarning, match="the part of weights is not defined: no architecture has") as told:
        assert not model.uncertainty(x)["weights"].any()
    assert told[0].filename == __file__


@pytest.mark.parametrize(
    "form", [np.asarray, np.ndarray.tolist, lambda rows: rows.astype(str), lambda rows: rows.astype(bytes)]
)
def test_arrays_and_lists_may_hold_texts(form) -> None:
    table, numbers = table_with_texts()
    rows = form(table.to_numpy())
    model = UraeNASRegressor(**SMALL).fit(table, numbers)
    alone = UraeNASRegressor(**SMALL).fit(rows, numbers)
    np.testing.assert_array_equal(alone.predict(rows), model.predict(table))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        np.testing.assert_array_equal(model.predict(rows), model.predict(table))


def test_tables_of_another_library_may_have_other_types() -> None:
    class Table:
        """As polars has it: names in a list, and types that are not numpy's."""

        def __init__(self, frame) -> None:
            self.frame, self.columns, self.shape = frame, list(frame), frame.shape
            self.dtypes = [object() for _ in self.columns]

        def __len__(self) -> int:
            return len(self.frame)

        def __getitem__(self, name):
            return self.frame[name]

        def to_dict(self):
            return dict(self.frame)

    table, numbers = table_with_texts()
    model = UraeNASRegressor(**SMALL).fit(Table(table), numbers)
    expected = UraeNASRegressor(**SMALL).fit(table, numbers).predict(table)
    np.testing.assert_array_equal(model.predict(Table(table)), expected)


def test_sparse_rows_are_those_with_all_their_zeros() -> None:
    from scipy.sparse import random_array

    rows = random_array((60, 4), density=0.8, rng=np.random.default_rng(0)).tocsr()
    dense = rows.toarray()
    numbers = dense.sum(axis=1)
    expected = UraeNASRegressor(**SMALL).fit(dense, numbers).predict(dense)
    np.testing.assert_array_equal(UraeNASRegressor(**SMALL).fit(rows, numbers).predict(rows), expected)


def test_masked_values_are_missing_and_masked_labels_are_refused() -> None:
    x = np.random.default_rng(0).normal(size=(60, 2))
    hidden = (x > 1) & (x == x.max(axis=1, keepdims=True))  # no row is without any value
    masked = np.ma.masked_array(x, hidden)
    model = UraeNASRegressor(**SMALL).fit(masked, x[:, 1])
    gaps = np.where(hidden, np.nan, x)
    np.testing.assert_array_equal(model.predict(masked), model.predict(gaps))
    assert not np.array_equal(model.predict(masked), model.predict(x))
    with pytest.raises(ValueError, match="y has missing values"):
        UraeNASRegressor(**SMALL).fit(x, masked[:, 1])


def test_labels_of_pandas_own_types_are_kept_as_they_are() -> None:
    pandas = pytest.importorskip("pandas")
    x = np.eye(12)[np.arange(120) % 12]
    for labels in (10**16 + np.arange(120) % 12, np.arange(120) % 2 == 0):
        y = pandas.Series(labels).convert_dtypes()
        model = UraeNASClassifier(**{**SMALL, "epochs": 40}).fit(x, y)
        assert model.classes_.dtype == labels.dtype
        np.testing.assert_array_equal(model.predict(x), labels)
        y[3] = None
        with pytest.raises(ValueError, match="y has missing values; leave those rows out"):
            UraeNASClassifier(**SMALL).fit(x, y)


def test_a_value_that_was_constant_changes_nothing_and_a_warning_says_so() -> None:
    x = np.random.default_rng(0).normal(size=(60, 2))
    x[:, 1] = 2024
    model = UraeNASRegressor(**SMALL).fit(x, x[:, 0])
    expected = model.predict(x)
    with pytest.warns(UserWarning, match="60 rows have what no training row has, such as x1 = 2030.0"):
        np.testing.assert_allclose(model.predict(x + np.array([0, 6])), expected, rtol=1e-12)


@pytest.mark.parametrize("inner", [[1, 2], {"a": 1}, np.zeros(2)])
def test_a_cell_holds_one_value(inner) -> None:
    pandas = pytest.importorskip("pandas")
    rows = pandas.DataFrame({"x": np.arange(60.0), "inner": [inner] * 60})
    with pytest.raises(ValueError, match=r"column inner holds a .*; allowed: numbers and texts"):
        UraeNASRegressor(**SMALL).fit(rows, np.arange(60.0))


def test_periods_are_dates() -> None:
    pandas = pytest.importorskip("pandas")
    rows = pandas.DataFrame({"month": pandas.period_range("2020", periods=60, freq="M")})
    with pytest.raises(ValueError, match="column month holds dates such as 2020-01; make numbers of them"):
        UraeNASRegressor(**SMALL).fit(rows, np.arange(60.0))
    for none in (rows[:0], rows.assign(month=pandas.PeriodIndex(["NaT"] * 60, freq="M"))):
        with pytest.raises(UraenasError, match=r"column month holds dates such as period\[M\]"):
            frame_of(none)


def test_a_table_of_numbers_keeps_the_names_of_its_columns() -> None:
    pandas = pytest.importorskip("pandas")
    rows = pandas.DataFrame({"area": np.arange(20.0) / 2, "age": np.arange(20.0) ** 2})
    model = UraeNASRegressor(**SMALL).fit(rows, rows.area)
    assert model.ensemble_.normalisation.columns.names == ("area", "age")
    without = UraeNASRegressor(**SMALL).fit(rows.to_numpy(), rows.area)
    np.testing.assert_array_equal(model.predict(rows), without.predict(rows.to_numpy()))
    with pytest.raises(ValueError, match="column age holds 'old', and had numbers"):
        model.predict(rows.assign(age="old"))


def test_a_column_is_not_lost_to_the_target() -> None:
    pandas = pytest.importorskip("pandas")
    rows = pandas.DataFrame({"the target": np.arange(20.0), "town": ["a", "b"] * 10})
    with pytest.raises(ValueError, match="a column of X is called 'the target'; give it another name"):
        UraeNASRegressor(**SMALL).fit(rows, np.arange(20.0))


def test_a_warning_says_what_so_few_held_out_rows_cannot_promise() -> None:
    rows = np.random.default_rng(0).random((20, 2))
    numbers = UraeNASRegressor(**SMALL).fit(rows, rows[:, 0])
    with pytest.warns(UserWarning, match=r"held-out rows.*too few .* 0\.95, .* needed: \d+ .* data\.\w+"):
        assert np.isinf(numbers.predict_interval(rows)).all()
    classes = UraeNASClassifier(**SMALL).fit(rows, np.arange(20) % 2)
    with pytest.warns(UserWarning, match=r"held-out rows.*too few .* 0\.99: .* needed: 99 .* data\.held_out"):
        assert classes.predict_set(rows, 0.99).all()
    with pytest.warns(UserWarning, match=r"with \d+ held-out rows the smallest p is"):
        assert not classes.is_foreign(rows + 100, 0.01).any()


@pytest.mark.parametrize("name", KINDS)
def test_settings_of_files_are_refused_and_others_of_data_are_heeded(name: str) -> None:
    rows, labels = np.random.default_rng(0).random((60, 2)), np.arange(60) % 2
    with pytest.raises(ValueError, match=r"data.leave_out is not for arrays; of data .* data.held_out"):
        KINDS[name](**{**SMALL, "settings": {"data.leave_out": "x0"}}).fit(rows, labels)
    sizes = []
    for share in (0.2, 0.5):
        settings = {**SMALL["settings"], "data.held_out": share, "train.folds": 0}
        model = KINDS[name](**{**SMALL, "settings": settings}).fit(rows, labels)
        sizes.append(len(model.ensemble_.require_known().scores["uncertainty"]))
    assert sizes == [12, 30]


@pytest.mark.parametrize("share", [0.0, -1.0, 0.99])
def test_a_share_to_hold_out_is_one(share: float) -> None:
    rows = np.random.default_rng(0).random((60, 2))
    with pytest.raises(ValueError, match=f"held_out = {share} is not allowed; allowed: above 0, below 0.9"):
        UraeNASRegressor(**SMALL, held_out=share).fit(rows, rows[:, 0])


def test_logarithms_of_probabilities() -> None:
    rows = np.random.default_rng(0).random((60, 2))
    model = UraeNASClassifier(**SMALL).fit(rows, np.arange(60) % 2)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(rows)), model.predict_proba(rows))


def table_with_texts(count: int = 60):
    pandas = pytest.importorskip("pandas")
    random = np.random.default_rng(0)
    table = pandas.DataFrame({"size": random.normal(size=count), "kind": random.choice(["a", "b"], count)})
    return table, table["size"].to_numpy() + (table["kind"] == "b").to_numpy()


@pytest.mark.filterwarnings("ignore")
def test_what_was_saved_predicts_as_before(tmp_path) -> None:
    table, numbers = table_with_texts()
    fitted = UraeNASRegressor(**SMALL, random_state=np.random.RandomState(0)).fit(table, numbers)
    fitted.save(tmp_path / "model")
    read = UraeNASRegressor.load(tmp_path / "model")
    assert read.get_params() == {**fitted.get_params(), "random_state": None}
    for one, other in zip(
        read.predict(table, return_std=True), fitted.predict(table, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(read.predict_interval(table), fitted.predict_interval(table))
    np.testing.assert_array_equal(read.is_foreign(table), fitted.is_foreign(table))
    with pytest.raises(ValueError, match="feature names"):
        read.predict(table.rename(columns={"size": "length"}))
    with pytest.raises(ValueError, match="expecting 2 features"):
        read.predict(table.assign(more=0).rename(columns={"size": 0, "kind": 1, "more": 2}))


@pytest.mark.filterwarnings("ignore")
def test_classes_are_saved_as_they_are(tmp_path) -> None:
    table, numbers = table_with_texts()
    labels = np.where(numbers > 0.5, -1, 7)
    fitted = UraeNASClassifier(**SMALL).fit(table, labels)
    fitted.save(tmp_path / "model")
    read = UraeNASClassifier.load(tmp_path / "model")
    assert read.classes_.dtype == fitted.classes_.dtype
    assert read.classes_.tolist() == [-1, 7]
    np.testing.assert_array_equal(read.predict_proba(table), fitted.predict_proba(table))
    for other in (UraeNASRegressor, UraeNAS):
        with pytest.raises(UraenasError, match="saved by 'UraeNASClassifier', not by " + other.__name__):
            other.load(tmp_path / "model")
    facts = read_json(tmp_path / "model/estimator.json")
    write_json(tmp_path / "model/estimator.json", {**facts, "classes": {"type": "<i8", "values": [7]}})
    with pytest.raises(UraenasError, match="classes are not those of its ensemble"):
        UraeNASClassifier.load(tmp_path / "model")


def test_a_run_directory_knows_what_classes_are_called(tmp_path) -> None:
    table, numbers = table_with_texts()
    labels = np.where(numbers > 0.5, "+", "007")
    fitted = UraeNASClassifier(**SMALL, run_directory=tmp_path / "run").fit(table, labels)
    ensemble = Run(tmp_path / "run").ensemble()
    assert ensemble.classes == tuple(fitted.classes_) == ("+", "007")
    np.testing.assert_array_equal(ensemble.predict_proba(table), fitted.predict_proba(table))


def test_a_model_whose_classes_were_called_by_their_places_is_read(tmp_path) -> None:
    table, numbers = table_with_texts()
    fitted = UraeNASClassifier(**SMALL).fit(table, numbers > 0.5)
    places = UraeNASClassifier(**SMALL).fit(table, (numbers > 0.5).astype(int))
    places.save(tmp_path / "model")
    facts = read_json(tmp_path / "model/estimator.json")
    write_json(
        tmp_path / "model/estimator.json", {**facts, "classes": {"type": "|b1", "values": [False, True]}}
    )
    read = UraeNASClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(read.predict(table), fitted.predict(table))


def test_what_is_not_fitted_is_not_saved(tmp_path) -> None:
    with pytest.raises(NotFittedError):
        UraeNASRegressor().save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
