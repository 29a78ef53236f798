"""The scikit-learn face: conventions, labels of any type, arrays of any usual form."""

import copy

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import estimator_checks_generator

from uraenas import Run, UraeNAS, UraenasError

DIGITS = load_digits()
IMAGES, LABELS = np.uint8(DIGITS.images[:400] * 15), DIGITS.target[:400]


def small(method="uraenas", **parameters) -> UraeNAS:
    return UraeNAS(method, preset="tiny", **parameters)


def smallest(**parameters) -> UraeNAS:
    """One network, and nothing to search for."""
    return small("random-ensemble", members=1, **parameters)


@pytest.fixture(scope="module")
def fitted() -> UraeNAS:
    """The joint ensemble."""
    return small().fit(IMAGES, LABELS)


@pytest.fixture(scope="module")
def single(tmp_path_factory) -> UraeNAS:
    """One network, whose run is kept."""
    return smallest(run_directory=tmp_path_factory.mktemp("single") / "run").fit(IMAGES, LABELS)


def test_parameters_go_through_get_params_and_clone():
    estimator = small("deep-ensemble", members=4, width=6, random_state=3)
    copy = clone(estimator)
    assert copy.get_params() == estimator.get_params()
    assert copy is not estimator


def test_it_predicts_probabilities_over_classes(fitted):
    probabilities = fitted.predict_proba(IMAGES[:20])
    assert probabilities.shape == (20, 10)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert (fitted.classes_ == np.arange(10)).all()
    assert (fitted.predict(IMAGES[:20]) == probabilities.argmax(axis=1)).all()
    assert 0 <= fitted.score(IMAGES, LABELS) <= 1


def test_the_same_random_state_gives_the_same_model_and_another_another(fitted, single):
    again, other = small().fit(IMAGES, LABELS), smallest(random_state=1).fit(IMAGES, LABELS)
    np.testing.assert_array_equal(again.predict_proba(IMAGES[:9]), fitted.predict_proba(IMAGES[:9]))
    assert not np.array_equal(other.predict_proba(IMAGES[:9]), single.predict_proba(IMAGES[:9]))


@pytest.mark.parametrize(
    "form",
    [lambda a: a, lambda a: a[..., None], lambda a: a[:, None], lambda a: a / np.float32(255)],
    ids=["N×H×W", "N×H×W×C", "N×C×H×W", "float"],
)
def test_image_arrays_of_any_form_give_one_prediction(fitted, form):
    np.testing.assert_allclose(
        fitted.predict_proba(form(IMAGES[:9])), fitted.predict_proba(IMAGES[:9]), atol=1e-5
    )


def test_crops_move_tall_images_by_an_eighth_of_their_width(tmp_path):
    smallest(run_directory=tmp_path / "run").fit(np.repeat(IMAGES, 5, axis=1), LABELS)
    assert Run(tmp_path / "run").data().padding == 1


def test_it_abstains_where_an_image_is_foreign(fitted):
    noise = np.random.default_rng(0).integers(0, 256, (20, 8, 8), dtype=np.uint8)
    images = np.concatenate([IMAGES[:20], noise])
    foreign = fitted.is_foreign(images)
    assert foreign[20:].mean() > 0.9
    assert foreign[:20].mean() < 0.3
    with pytest.warns(UserWarning, match="too few to promise this risk"):
        answers = fitted.predict(images, abstain=True)
    assert answers.mask[foreign].all()
    assert (answers.data == fitted.predict(images)).all()
    with pytest.warns(UserWarning, match=r"the smallest p is 0\.016, so none is called foreign at 0\.001"):
        assert fitted.predict(images, abstain=True, risk=0.99, share=0.001).mask.sum() < foreign.sum()


@pytest.mark.filterwarnings("ignore::UserWarning")  # of so few held-out images
def test_what_is_not_finite_is_refused_where_it_may_abstain(fitted):
    """No confidence is less than a threshold where it is no number."""
    wild = copy.deepcopy(fitted)
    for member in wild.ensemble_.members:
        member.weights.fill_(1e38)  # finite, and its products are not
    with pytest.raises(UraenasError, match="not finite"):
        wild.predict(IMAGES[:3], abstain=True, share=1e-6)


def test_a_prediction_set_holds_the_most_probable_class_and_grows_with_its_coverage(fitted):
    narrow, wide = (fitted.predict_set(IMAGES[:50], coverage) for coverage in (0.5, 0.9))
    assert narrow.shape == wide.shape == (50, len(fitted.classes_))
    assert (wide | ~narrow).all()
    assert wide[np.arange(50), fitted.predict_proba(IMAGES[:50]).argmax(axis=1)].all()
    with pytest.warns(UserWarning, match=r"too few to promise a coverage of 0\.999: sets hold all classes"):
        assert fitted.predict_set(
            IMAGES[:5], coverage=0.999
        ).all()  # so few held-out images can promise no less


def test_a_warning_says_where_so_few_held_out_images_call_none_foreign(fitted):
    noise = np.random.default_rng(0).integers(0, 256, (20, 8, 8), dtype=np.uint8)
    with pytest.warns(UserWarning, match=r"the smallest p is 0\.016, so none is called foreign at 0\.001"):
        assert not fitted.is_foreign(noise, share=0.001).any()


def test_a_warning_of_abstaining_says_nothing_of_sets():
    few = smallest().fit(IMAGES[:150], LABELS[:150])
    with pytest.warns(UserWarning, match="too few to promise this risk") as told:
        few.predict(IMAGES[:5], abstain=True)
    assert not [one for one in told if "coverage" in str(one.message)]


def test_warnings_name_parts_of_uncertainty_that_are_not_defined(single):
    with pytest.warns(UserWarning, match=r"the part of \w+ is not defined") as told:
        assert not single.uncertainty(IMAGES[:5])["architecture"].any()
    assert {one.filename for one in told} == {__file__}


@pytest.mark.filterwarnings("ignore:the part of weights")  # no architecture has two members
def test_uncertainty_parts_add_up(fitted):
    parts = fitted.uncertainty(IMAGES[:30])
    np.testing.assert_allclose(
        parts["total"], parts["data"] + parts["weights"] + parts["architecture"], atol=1e-10
    )
    assert all((values >= -1e-12).all() for values in parts.values())


@pytest.mark.parametrize(
    "names", [[f"class {n}" for n in range(10)], [True, False] * 5], ids=["text", "bool"]
)
def test_labels_of_any_type_survive_saving(tmp_path, names):
    labels = np.array(names)[LABELS[:100]]
    estimator = smallest().fit(IMAGES[:100], labels)
    assert set(estimator.predict(IMAGES[:20])) <= set(names)
    estimator.save(tmp_path / "saved")
    loaded = UraeNAS.load(tmp_path / "saved")
    assert loaded.classes_.dtype == estimator.classes_.dtype
    np.testing.assert_array_equal(loaded.predict_proba(IMAGES[:20]), estimator.predict_proba(IMAGES[:20]))


def test_it_works_in_cross_validation_and_in_a_pipeline():
    steps = [("invert", FunctionTransformer(np.invert, validate=False)), ("classify", smallest())]
    assert cross_val_score(Pipeline(steps), IMAGES[:100], LABELS[:100], cv=2).shape == (2,)


def test_sample_weights_count(single):
    weights = np.where(LABELS < 5, 1.0, 0.0)
    weighted = smallest().fit(IMAGES, LABELS, sample_weight=weights)
    assert weighted.predict_proba(IMAGES)[:, 5:].mean() < single.predict_proba(IMAGES)[:, 5:].mean()
    even = smallest().fit(IMAGES, LABELS, sample_weight=np.full(len(LABELS), 3.0))
    np.testing.assert_allclose(even.predict_proba(IMAGES[:9]), single.predict_proba(IMAGES[:9]), atol=1e-5)


def test_a_fit_that_was_kept_goes_on_where_it_stopped(single):
    log = single.run_directory / "log.jsonl"
    before = log.read_text()
    again = clone(single).fit(IMAGES, LABELS)
    assert log.read_text() == before  # nothing was left to do
    np.testing.assert_array_equal(again.predict_proba(IMAGES[:9]), single.predict_proba(IMAGES[:9]))


@pytest.mark.parametrize(
    ("images", "labels", "words"),
    [
        (IMAGES, LABELS[:-1], "400 labels"),
        (IMAGES, np.zeros(400), "2 classes"),
        (IMAGES[:0], LABELS[:0], "no images"),
        (np.where(IMAGES == 0, np.nan, 0.5), LABELS, "NaN"),
        (IMAGES.astype(float), LABELS, "value_range"),
        (IMAGES.reshape(400, 64), LABELS, r"N×H×W"),
        (np.zeros((400, 3, 8, 3), np.uint8), LABELS, "channels"),
    ],
)
def test_bad_arrays_are_refused_with_one_line(images, labels, words):
    with pytest.raises(UraenasError, match=words):
        small().fit(images, labels)


@pytest.mark.parametrize(
    "labels",
    [
        [0, 1, None, 1],
        [0.0, 1.0, float("nan"), 1.0],
        np.ma.masked_array([0, 1, 0, 1], [False, False, True, False]),
    ],
)
def test_missing_labels_are_named(labels):
    with pytest.raises(UraenasError, match="missing values"):
        small().fit(np.zeros((4, 8, 8), np.uint8), labels)


def test_a_kept_run_made_with_other_augmentation_is_refused(single):
    with pytest.raises(UraenasError, match="other images"):
        clone(single).set_params(padding=3).fit(IMAGES, LABELS)


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"method": "drnas,uraenas"}, "unknown method"),
        ({"method": "drnas", "members": 2}, "ensemble.members is no setting of drnas"),
        ({"padding": -1}, "padding = -1 is not allowed"),
        ({"padding": "x"}, "padding = 'x' is not allowed"),
        ({"settings": {"a.b": 1}}, "unknown setting 'a.b'"),
        (
            {"settings": {"data.flip": "on"}},
            "data.flip is not for arrays",
        ),  # it would not be looked at: flip=True
    ],
)
def test_bad_parameters_are_refused_before_anything_is_trained(parameters, why):
    with pytest.raises(UraenasError, match=why):
        small(**parameters).fit(IMAGES, LABELS)


def test_numpy_parameters_can_be_saved(tmp_path):
    images, momentum = IMAGES[:100].astype(np.float32), {"train.point.momentum": np.float64(0.8)}
    value_range = (images.min(), images.max())
    estimator = small("random-ensemble", members=np.int64(1), settings=momentum, value_range=value_range)
    estimator.fit(images, LABELS[:100]).save(tmp_path / "saved")
    loaded = UraeNAS.load(tmp_path / "saved")
    assert loaded.members == 1
    assert loaded.settings == {"train.point.momentum": 0.8}
    assert loaded.value_range == (0.0, 240.0)
    np.testing.assert_array_equal(loaded.predict(images[:9]), estimator.predict(images[:9]))


def test_an_estimator_is_not_saved_into_its_run(single):
    with pytest.raises(UraenasError, match="save the estimator to another folder"):
        single.save(single.run_directory)
    assert len(Run(single.run_directory).ensemble()) == 1


def test_a_fit_says_how_far_it_has_come(capfd):
    small("drnas", search_epochs=2, verbose=True).fit(IMAGES[:200], LABELS[:200])
    told = capfd.readouterr().err
    assert "search 20 of 20" in told
    assert "train 20 of 20" in told


@pytest.mark.parametrize("channels", [2, 4])
def test_images_need_no_shift_that_suits_them(channels):
    images = np.repeat(IMAGES[:100, ..., None], channels, axis=3)
    assert smallest().fit(images, LABELS[:100]).predict(images[:9]).shape == (9,)


def test_nothing_is_predicted_before_fit():
    with pytest.raises(NotFittedError):
        small().predict(IMAGES[:2])


def test_images_of_another_size_are_refused(fitted):
    with pytest.raises(UraenasError, match="takes images of"):
        fitted.predict(np.zeros((2, 9, 9), np.uint8))


def test_logarithms_of_probabilities_are_finite(fitted):
    probabilities = fitted.predict_proba(IMAGES[:20])
    logarithms = fitted.predict_log_proba(IMAGES[:20])
    np.testing.assert_allclose(np.exp(logarithms), probabilities)
    assert np.isfinite(logarithms).all()


def test_flattened_images_are_taken_by_their_shape(single, tmp_path):
    rows = IMAGES.reshape(400, 64)
    flat = smallest(image_shape=(8, 8)).fit(rows, LABELS)
    assert flat.n_features_in_ == 64
    np.testing.assert_array_equal(flat.predict_proba(rows[:9]), single.predict_proba(IMAGES[:9]))
    np.testing.assert_array_equal(flat.predict(IMAGES[:9]), flat.predict(rows[:9]))  # images as they are, too
    with pytest.raises(UraenasError, match="rows of 63 values are no images of 8×8"):
        flat.predict(rows[:, :63])
    flat.save(tmp_path / "saved")
    loaded = UraeNAS.load(tmp_path / "saved")
    assert loaded.image_shape == (8, 8)
    np.testing.assert_array_equal(loaded.predict(rows[:9]), flat.predict(rows[:9]))


def test_flattened_images_of_a_pandas_table_keep_the_order_of_their_columns(tmp_path):
    pandas = pytest.importorskip("pandas")
    rows = pandas.DataFrame(IMAGES.reshape(400, 64), columns=[f"pixel{k}" for k in range(64)])
    flat = smallest(image_shape=(8, 8)).fit(rows, LABELS)
    flat.save(tmp_path / "saved")
    for one in (flat, UraeNAS.load(tmp_path / "saved")):
        assert one.predict(rows[:9]).shape == (9,)
        for ask in (one.predict, one.predict_set, one.is_foreign, one.uncertainty):
            with pytest.raises(ValueError, match="feature names should match"):
                ask(rows[rows.columns[::-1]])


def test_masks_of_bytes_need_a_range():
    """As floats they would be 0 and 1 where these are 0 and 1/255."""
    masks = np.uint8(IMAGES > 100)
    with pytest.raises(UraenasError, match="uint8 images with values 0 and 1 alone are ambiguous"):
        smallest().fit(masks, LABELS)
    fitted = smallest(value_range=(0, 1)).fit(masks, LABELS)
    np.testing.assert_array_equal(
        fitted.predict_proba(masks[:9]), fitted.predict_proba(masks[:9].astype(float))
    )


class OfRows(UraeNAS):
    """Rows of any length and values, as scikit-learn's checks draw them, made images of 8 × 8."""

    def __init__(self, image_shape=(8, 8), random_state=0):
        small = {"preset": "tiny", "members": 1, "epochs": 1, "width": 2, "padding": 0}
        super().__init__("random-ensemble", **small, image_shape=image_shape, random_state=random_state)

    def _images(self, X):
        rows = 1 / (1 + np.exp(-np.asarray(X, dtype=float)))
        return super()._images(np.pad(rows[:, :64], ((0, 0), (0, max(0, 64 - rows.shape[1])))))


# Those that ask for a ValueError where we raise an UraenasError, for what we refuse (one class, sparse arrays), or for
# weights that equal repetitions, which no method of random batches has.
NOT_HELD = {
    "check_all_zero_sample_weights_error",
    "check_classifier_data_not_an_array",  # needs pandas
    "check_classifiers_one_label",
    "check_classifiers_train",
    "check_complex_data",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_estimator_sparse_tag",
    "check_estimators_empty_data_messages",
    "check_estimators_nan_inf",
    "check_fit1d",
    "check_fit2d_1sample",
    "check_fit2d_predict1d",
    "check_n_features_in_after_fitting",
    "check_requires_y_none",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weights_pandas_series",
    "check_sample_weights_shape",
    "check_supervised_y_2d",
    "check_supervised_y_no_nan",
}
HELD = {
    check.func.__name__: check
    for _, check in estimator_checks_generator(OfRows(), legacy=True)
    if check.func.__name__ not in NOT_HELD and "array_api" not in check.func.__name__
}


@pytest.mark.parametrize("name", HELD)
@pytest.mark.filterwarnings("ignore")
def test_the_checks_of_scikit_learn_hold_on_rows(name):
    HELD[name](OfRows())


def test_most_checks_of_scikit_learn_are_among_them():
    assert len(HELD) > 30
