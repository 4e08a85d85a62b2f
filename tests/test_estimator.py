"""`HOFSSelector` in scikit-learn: its checks, pipelines, grids, names, lazy data."""

import pickle
import re

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import hofs_dask as hd
from hofs_dask import api, estimator
from hofs_dask.encoding import encode as encoding
from hofs_dask.scheduling import session

rng = np.random.default_rng(0)
N = 600
Y = rng.integers(0, 2, N)
X = rng.normal(size=(N, 8))
X[:, 5] += 2 * Y
X[:, 2] += Y
NAMES = [f"f{j}" for j in range(8)]
FRAME = pd.DataFrame(X, columns=NAMES)


@pytest.fixture(autouse=True)
def nothing_kept():
    session.reset()
    yield
    session.reset()


#: A weight does not add evidence: bins, penalties and tests use the effective number of samples,
#: (sum w)^2 / sum w^2, which is larger for repeated samples.
EXPECTED_FAILURES = {
    f"check_sample_weight_equivalence_on_{kind}_data": "weights do not add evidence"
    for kind in ("dense", "sparse")
}


@pytest.mark.filterwarnings("ignore")  # of classes with one sample
@pytest.mark.parametrize("selector", [hd.HOFSSelector(), hd.HOFSSelector(1, method=hd.MRMR())])
def test_checks__of_scikit_learn_all_pass(selector):
    results = check_estimator(
        selector, on_fail=None, on_skip=None, expected_failed_checks=EXPECTED_FAILURES
    )
    assert len(results) > 40
    failed = [
        (each["check_name"], each["exception"]) for each in results if each["status"] == "failed"
    ]
    assert not failed
    skipped = {each["check_name"] for each in results if each["status"] == "skipped"}
    assert skipped <= {"check_array_api_input"}


def test_fit__describes_the_selection():
    selector = hd.HOFSSelector(3, method="jmi").fit(X, Y)
    expected = hd.select(X, Y, 3, method="jmi")
    assert selector.selection_ == expected
    assert selector.get_support(indices=True).tolist() == sorted(expected.indices)
    assert selector.ranking_[expected.indices].tolist() == [1, 2, 3]
    assert sorted(selector.ranking_) == [1, 2, 3, *[4] * 5]
    assert selector.scores_[expected.indices].tolist() == expected.scores.tolist()
    assert np.isnan(selector.scores_[~selector.support_]).all()
    assert selector.subsets_ == expected.subsets
    assert np.array_equal(selector.transform(X), X[:, selector.support_])
    assert selector.n_features_in_ == 8
    assert not hasattr(selector, "feature_names_in_")


def test_fit__shows_no_progress(monkeypatch):
    """A grid fits dozens of selectors."""
    shown = []

    def watched(function):
        def call(*arguments, progress, **options):
            shown.append(progress)
            return function(*arguments, progress=progress, **options)

        return call

    for name in ("encode", "select"):
        monkeypatch.setattr(estimator, name, watched(getattr(estimator, name)))
    x = np.random.default_rng(5).normal(size=(100, 3))
    hd.HOFSSelector(1).fit(x, x[:, 0] > 0)
    assert shown == []  # the encoding and the search in memory have no listeners
    monkeypatch.setattr(api, "is_here", lambda: False)  # as with a Dask client
    hd.HOFSSelector(1).fit(x + 1, x[:, 0] > 0)
    assert shown == [False] * 2


def test_weights__are_those_of_select():
    weight = np.where(X[:, 5] > 1, 0.5, 2.0)
    weight[:50] = 0
    selector = hd.HOFSSelector(3).fit(X, Y, sample_weight=weight)
    np.testing.assert_array_equal(
        selector.selection_.scores, hd.select(X, Y, 3, weights=weight).scores
    )
    again = hd.HOFSSelector(3).fit(X, Y)
    assert not np.array_equal(again.selection_.scores, selector.selection_.scores)
    lazy = hd.HOFSSelector(3).fit(da.from_array(X, chunks=(200, 8)), Y, sample_weight=weight)
    assert lazy.selection_.features == selector.selection_.features
    with pytest.raises(ValueError, match="sample_weight.shape == "):
        selector.fit(X, Y, sample_weight=weight[:-1])
    with pytest.raises(ValueError, match="negative for"):
        selector.fit(X, Y, sample_weight=-1.0 - weight)


def test_weights__are_routed_through_a_pipeline():
    weight = np.where(np.arange(N) < N // 2, 0.0, 1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(
            hd.HOFSSelector(2, method="jmi").set_fit_request(sample_weight=True),
            LogisticRegression().set_fit_request(sample_weight=False),
        )
        pipeline.fit(X, Y, sample_weight=weight)
    half = hd.select(X[N // 2 :], Y[N // 2 :], 2, method="jmi")
    np.testing.assert_array_equal(pipeline[0].selection_.scores, half.scores)


@pytest.mark.parametrize(
    ("given", "number"), [(None, 4), (2, 2), (np.int64(2), 2), (0.5, 4), (1.0, 8), (0.01, 1)]
)
def test_number__may_be_absent_a_number_or_a_share(given, number):
    assert hd.HOFSSelector(given, method="mim").fit(X, Y).support_.sum() == number


@pytest.mark.parametrize("given", [0, -1, 1.5, "all", True, np.nan])
def test_number__of_another_form_is_refused(given):
    with pytest.raises(ValueError, match="n_features_to_select is .*; give a number such as 10"):
        hd.HOFSSelector(given).fit(X, Y)


@pytest.mark.parametrize("lazy", [False, True])
def test_number__share_is_of_the_features_that_can_be_selected(lazy):
    flat = X.copy()
    flat[:, [0, 1, 3]] = 7
    data = da.from_array(flat, chunks=(200, 8)) if lazy else flat
    for given, number in ((None, 2), (1.0, 4), (0.25, 1), (0.01, 1)):
        selector = hd.HOFSSelector(given, method="mim", exclude=["x4"]).fit(data, Y)
        assert selector.support_.sum() == number
    both = hd.HOFSSelector(0.01, method="mim", include=["x7", "x6"]).fit(data, Y)
    assert both.get_support(indices=True).tolist() == [6, 7]
    with pytest.raises(ValueError, match="^n_features_to_select is 5 but only 4 features can be"):
        hd.HOFSSelector(5, method="mim", exclude=["x4"]).fit(data, Y)


def test_number__auto_takes_what_is_significant():
    selector = hd.HOFSSelector("auto").fit(X, Y)
    assert selector.selection_ == hd.select(X, Y, "auto")
    assert selector.get_support(indices=True).tolist() == [2, 5]
    noise = hd.HOFSSelector("auto").fit(X[:, :2], Y)
    assert not noise.support_.any()
    with pytest.warns(UserWarning, match="No features were selected"):
        assert noise.transform(X[:, :2]).shape == (N, 0)


def test_frame__has_names_and_output_of_its_kind():
    selector = hd.HOFSSelector(2, method="mim").fit(FRAME, pd.Series(Y, index=range(N, 2 * N)))
    assert selector.feature_names_in_.tolist() == NAMES
    assert selector.get_feature_names_out().tolist() == ["f2", "f5"]
    assert isinstance(selector.transform(FRAME), np.ndarray)
    assert selector.set_output(transform="pandas").transform(FRAME).equals(FRAME[["f2", "f5"]])
    polars = pl.from_pandas(FRAME)
    selector = clone(selector).set_output(transform="polars").fit(polars, Y)
    assert selector.transform(polars).columns == ["f2", "f5"]
    with pytest.raises(ValueError, match="feature names should match"):
        selector.transform(polars[:, ::-1])


def test_frame__columns_of_any_type_and_name_are_used():
    frame = FRAME.assign(kind=np.where(Y, "p", "q"), gaps=FRAME["f0"].where(X[:, 1] > 0))
    selector = hd.HOFSSelector(1, method="mim").fit(frame, Y)
    assert selector.get_feature_names_out().tolist() == ["kind"]
    numbered = hd.HOFSSelector(2, method="mim", exclude=[2]).fit(pd.DataFrame(X), Y)
    assert numbered.ranking_[5] == 1
    assert not numbered.support_[2]
    with pytest.raises(ValueError, match=r"X has 1 sample"):
        selector.fit(frame[:1], Y[:1])


def test_lazy__data_stays_lazy(monkeypatch):
    frame = dd.from_pandas(FRAME, npartitions=3)
    for data, target in ((da.from_array(X, chunks=(200, 4)), Y), (frame, Y)):
        selector = hd.HOFSSelector(2, method="mim").fit(data, target)
        found = selector.transform(data)
        assert type(found) is type(data)
        assert np.array_equal(np.asarray(found.compute()), X[:, [2, 5]])
    assert selector.get_feature_names_out().tolist() == ["f2", "f5"]
    with pytest.raises(ValueError, match="X has 3 features, but HOFSSelector is expecting 8"):
        selector.transform(frame[NAMES[:3]])
    with pytest.raises(ValueError, match="feature names should match"):
        selector.transform(frame[NAMES[::-1]])
    with pytest.raises(ValueError, match="requires y to be passed"):
        selector.fit(frame, None)


@pytest.mark.parametrize("missing", [None, np.nan])
def test_target__missing_classes_are_dropped(missing):
    y = pd.Series(np.where(Y == 0, "u", "v"), dtype=object)
    y[::7] = missing
    found = hd.HOFSSelector(2, method="mim").fit(FRAME, y).selection_
    assert found == hd.select(FRAME, y, 2, method="mim")
    assert found.to_dataset().attrs["n_dropped"] == len(y[::7])
    with pytest.raises(ValueError, match="has no values: all 600 are missing"):
        hd.HOFSSelector(2).fit(FRAME, pd.Series([None] * N, dtype=object))


def test_lazy__names_of_an_earlier_fit_are_forgotten():
    selector = hd.HOFSSelector(2, method="mim").fit(dd.from_pandas(FRAME, npartitions=2), Y)
    assert selector.feature_names_in_.tolist() == NAMES
    selector.fit(da.from_array(X[:, :6], chunks=(200, 6)), Y)
    assert not hasattr(selector, "feature_names_in_")
    assert selector.get_feature_names_out().tolist() == ["x2", "x5"]


@pytest.mark.parametrize(
    ("make", "instead"),
    [
        (pa.Table.from_pandas, "X.to_pandas()"),
        (pa.RecordBatch.from_pandas, "X.to_pandas()"),
        (lambda frame: pyarrow.dataset.dataset(pa.Table.from_pandas(frame)), "X.to_table()"),
        (lambda frame: pl.from_pandas(frame).lazy(), "X.collect()"),
    ],
)
def test_table__error_says_what_to_give(make, instead):
    message = f"HOFSSelector reads numpy arrays and data frames of .*; give {re.escape(instead)}"
    with pytest.raises(TypeError, match=message):
        hd.HOFSSelector(2).fit(make(FRAME), Y)
    selector = hd.HOFSSelector(2, method="mim").fit(FRAME, Y)
    with pytest.raises(TypeError, match=message):
        selector.transform(make(FRAME))


def test_pickle_clone_and_repr():
    selector = hd.HOFSSelector(2, method=hd.MIFS(beta=0.5), exclude=["f5"]).fit(FRAME, Y)
    again = pickle.loads(pickle.dumps(selector))
    assert np.array_equal(again.transform(FRAME), selector.transform(FRAME))
    assert clone(selector).get_params() == selector.get_params()
    assert "MIFS(beta=0.5)" in repr(selector)
    assert "HOFSSelector" in selector._repr_html_()


def test_column_transformer__selects_in_some_columns():
    chosen = ColumnTransformer(
        [("few", hd.HOFSSelector(1, method="mim"), ["f1", "f2", "f3"])], remainder="drop"
    ).fit(FRAME, Y)
    assert chosen.get_feature_names_out().tolist() == ["few__f2"]


class Counted:
    """Counts calls of a function."""

    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *given, **options):
        self.calls += 1
        return self.function(*given, **options)


def test_grid__encodes_each_fold_once_and_continues_its_searches(monkeypatch):
    encoded = Counted(api.encode_here)
    monkeypatch.setattr(api, "encode_here", encoded)
    rounds = []
    drive = api.drive

    def counting(codes, searches, listeners):
        return drive(codes, searches, [*listeners, rounds.append])

    monkeypatch.setattr(api, "drive", counting)
    grid = GridSearchCV(
        make_pipeline(hd.HOFSSelector(), LogisticRegression()),
        {
            "hofsselector__n_features_to_select": [1, 3, 2, 5],
            "hofsselector__method": ["mim", "jmi"],
        },
        cv=3,
        refit=False,
    ).fit(X, Y)
    assert encoded.calls == 3
    ended = [event for event in rounds if isinstance(event, hd.RoundEnded)]
    assert len(ended) == 3 * 2 * 5  # not 3 * 2 * (1 + 3 + 2 + 5)
    assert grid.best_score_ > 0.8


def test_grid__results_are_those_of_single_selections():
    for n in (1, 4, 2):
        found = hd.HOFSSelector(n).fit(X, Y)
        assert found.selection_ == hd.select(X, Y, n)


def test_grid__numbers_and_auto_are_searched_on_the_same_data():
    for order in ([2, "auto", 3], ["auto", 2, "auto"]):
        session.reset()
        for n in order:
            assert hd.HOFSSelector(n).fit(X, Y).selection_ == hd.select(X, Y, n)
    grid = GridSearchCV(
        make_pipeline(hd.HOFSSelector(), LogisticRegression()),
        {"hofsselector__n_features_to_select": [2, "auto"]},
        cv=3,
        error_score="raise",
    ).fit(X, Y)
    assert np.isfinite(grid.cv_results_["mean_test_score"]).all()


def test_kept__runs_are_few_and_depend_on_the_content(monkeypatch):
    monkeypatch.setattr(session, "MOST_KEPT", 2)
    encoded = Counted(api.encode_here)
    monkeypatch.setattr(api, "encode_here", encoded)
    changed = X.copy()
    for _ in range(2):
        hd.HOFSSelector(1).fit(changed, Y)
    assert encoded.calls == 1
    changed[0, 0] += 1
    hd.HOFSSelector(1).fit(changed, Y)
    hd.HOFSSelector(1, bins=4).fit(changed, Y)
    assert encoded.calls == 3
    hd.HOFSSelector(2).fit(changed, Y)  # kept
    assert encoded.calls == 3
    hd.HOFSSelector(1).fit(X, Y)  # dropped
    assert encoded.calls == 4


def test_client__keeps_runs_in_folders(monkeypatch):
    monkeypatch.setattr(session, "MOST_KEPT", 2)
    folders = []
    made = estimator.HeldFolder

    def watched():
        folder = made()
        folders.append(folder.path)
        return folder

    monkeypatch.setattr(estimator, "HeldFolder", watched)
    encoded = Counted(encoding._encode)
    monkeypatch.setattr(encoding, "_encode", encoded)
    # as with a Dask client, whose workers need files
    monkeypatch.setattr(api, "is_here", lambda: False)
    found = [hd.HOFSSelector(n, method="jmi").fit(X, Y).selection_.features for n in (1, 3, 2)]
    assert len(folders) == encoded.calls == 1
    assert found == [found[1][:1], found[1], found[1][:2]]
    hd.HOFSSelector(1, bins=4).fit(X, Y)
    hd.HOFSSelector(1, bins=5).fit(X, Y)
    assert [folder.exists() for folder in folders] == [False, True, True]
    session.reset()
    assert not any(folder.exists() for folder in folders)


def test_groups__are_routed():
    ids = np.arange(N) // 20
    with sklearn.config_context(enable_metadata_routing=True):
        selector = hd.HOFSSelector(2).set_fit_request(groups=True)
        pipeline = make_pipeline(selector, LogisticRegression()).fit(X, Y, groups=ids)
        found = pipeline[0].selection_
        GridSearchCV(pipeline, {"hofsselector__method": ["mim"]}, cv=GroupKFold(3)).fit(
            X, Y, groups=ids
        )
    assert found == hd.select(X, Y, 2, groups=ids)
    assert found.to_dataset().attrs["n_groups"] == 30
