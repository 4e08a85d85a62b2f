"""`where=` on a code store: the samples are as if encoded alone, with the bins of the encoding."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import hofs_dask as hd
from hofs_dask.methods.registry import METHOD_NAMES
from hofs_dask.store.codes import read_codes

RNG = np.random.default_rng(8)
N = 3000
KIND = RNG.integers(0, 4, N)
TARGET = np.array(["a", "b", "c", "d"])[KIND]
DATA = np.clip(RNG.integers(0, 3, (N, 9)) + (KIND[:, None] * [1, 0, 1, 0, 0, 1, 0, 0, 1]), 0, 4)
DATA = DATA.astype(float)
DATA[RNG.random((N, 9)) < 0.02] = np.nan
SUBJECT = RNG.integers(0, 40, N)
WEIGHT = RNG.integers(1, 4, N) * 6.0
#: Class d does not occur, the order of the classes by frequency differs, and so do the fold sizes
#: of the groups; every code of every feature still occurs.
SOME = (KIND < 3) & (RNG.random(N) < np.array([0.2, 0.5, 0.9, 0.0])[KIND]) & (SUBJECT != 7)


@pytest.fixture(scope="module")
def codes(tmp_path_factory):
    return hd.encode(DATA, TARGET, tmp_path_factory.mktemp("where") / "codes", bins=5)


def same(one, other):
    """Compare everything but what says how samples were left out."""
    one, other = one.to_dataset(), other.to_dataset()
    for each in (one, other):
        for name in ("notes", "fingerprint", "selections"):
            each.attrs.pop(name, None)
    xr.testing.assert_identical(one, other)


@pytest.mark.parametrize(
    "method", [*METHOD_NAMES, hd.HOFS(criterion="sum"), hd.HOFS(criterion="mean")]
)
def test_select__equals_the_samples_encoded_alone(codes, method):
    found = hd.select(codes, None, 5, method=method, where=SOME)
    same(found, hd.select(DATA[SOME], TARGET[SOME], 5, method=method, bins=5))
    assert found.to_dataset().attrs["n_classes"] == 3
    assert f"where leaves out {N - SOME.sum()} of {N} samples of a code store" in repr(found)


@pytest.mark.parametrize(
    "options", [{"groups": SUBJECT}, {"weights": WEIGHT}, {"groups": SUBJECT, "weights": WEIGHT}]
)
@pytest.mark.parametrize("method", ["hofs", "jmi", "vmi"])
def test_select__deals_groups_again_and_keeps_weights(tmp_path, options, method):
    codes = hd.encode(DATA, TARGET, tmp_path / "codes", bins=5, **options)
    some = {name: each[SOME] for name, each in options.items()}
    same(
        hd.select(codes, None, 5, method=method, where=SOME),
        hd.select(DATA[SOME], TARGET[SOME], 5, method=method, bins=5, **some),
    )


def test_select__weights_that_are_equal_in_the_samples_are_none(tmp_path):
    weights = np.where(SOME, 4.0, RNG.integers(1, 4, N))
    codes = hd.encode(DATA, TARGET, tmp_path / "codes", bins=5, weights=weights)
    found = hd.select(codes, None, 5, where=SOME)
    same(found, hd.select(DATA[SOME], TARGET[SOME], 5, bins=5))


def test_select__uses_the_bins_and_values_of_the_encoding(tmp_path):
    data = RNG.normal(size=(N, 6)) + KIND[:, None] * [1.0, 0, 0.5, 0, 0.2, 0]
    codes = hd.encode(data, KIND, tmp_path / "codes", bins=6, chunks=(512, 4))
    # the samples with each value replaced by the value of its bin, which then are its only values
    binned = np.take_along_axis(codes.values, read_codes(codes, slice(0, 6), slice(0, N)), 1).T
    for method in ("jmi", "hofs", hd.HOFS(criterion="sum")):
        found = hd.select(codes, None, 4, method=method, where=SOME)
        expected = hd.select(binned[SOME], KIND[SOME], 4, method=method, bins=6)
        assert found.features == expected.features
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-12)
    alone = hd.select(data[SOME], KIND[SOME], 4, method="jmi", bins=6)
    assert not np.array_equal(
        alone.scores, hd.select(codes, None, 4, method="jmi", where=SOME).scores
    )


def test_other_functions__use_the_samples(codes):
    some = {"data": DATA[SOME], "target": TARGET[SOME], "bins": 5}
    methods = ["hofs", "jmi"]
    same(
        hd.compare(codes, None, 3, methods=methods, n_resamples=2, where=SOME),
        hd.compare(n_features=3, methods=methods, n_resamples=2, **some),
    )
    same(hd.interactions(codes, None, top=4, where=SOME), hd.interactions(top=4, **some))
    xr.testing.assert_identical(
        hd.information_matrix(codes, None, where=SOME), hd.information_matrix(**some)
    )


@pytest.mark.parametrize(
    "where",
    [
        np.flatnonzero(SOME),
        np.flatnonzero(SOME).tolist(),
        SOME.tolist(),
        pd.Series(SOME),
        da.from_array(SOME, chunks=700),
        xr.DataArray(SOME, dims="sample"),
    ],
    ids=["positions", "list of positions", "list", "series", "dask", "xarray"],
)
def test_where__is_a_mask_or_positions(codes, where):
    same(hd.select(codes, None, 2, where=where), hd.select(codes.path, None, 2, where=SOME))


def test_where__all_samples_is_the_store_itself(codes):
    found = hd.select(codes, None, 3, where=np.ones(N, bool))
    xr.testing.assert_identical(found.to_dataset(), hd.select(codes, None, 3).to_dataset())


def test_where__resumes_a_checkpoint_of_the_same_samples_only(codes, tmp_path):
    first = hd.select(codes, None, 2, where=SOME, checkpoint=tmp_path / "run")
    rounds = []
    found = hd.select(
        codes, None, 4, where=SOME, checkpoint=tmp_path / "run", callback=rounds.append
    )
    assert found.features[:2] == first.features
    assert [each.rank for each in rounds if isinstance(each, hd.RoundStarted)] == [3, 4]
    with pytest.raises(ValueError, match="data"):
        hd.select(codes, None, 4, where=~SOME, checkpoint=tmp_path / "run")


def test_where__of_a_continuous_target_leaves_out_empty_classes(tmp_path):
    target = RNG.normal(size=N)
    codes = hd.encode(DATA, target, tmp_path / "codes")
    found = hd.select(codes, None, 2, method="jmi", where=target > 0)
    assert found.to_dataset().attrs["n_classes"] == 4


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (np.zeros(N, bool), "where leaves none of the 3000 samples"),
        (KIND == 1, "target 'target' has only one value, 'b', in the"),
        (SOME[:10], "where has the shape .10,. and the code store has 3000 samples; give one"),
        ([0, N], "where has the position 3000"),
        ("land", "a code store has no such columns"),
        (DATA[:, 0], "where is float64; give booleans"),
    ],
)
def test_where__refuses_what_it_cannot_use(codes, where, message):
    with pytest.raises((TypeError, ValueError), match=message):
        hd.select(codes, None, 2, where=where)


def test_where__refuses_positions_if_samples_were_left_out(tmp_path):
    target = np.where(np.arange(N) < 10, np.nan, KIND)
    codes = hd.encode(DATA, target, tmp_path / "codes")
    with pytest.raises(ValueError, match="10 of the 3000 samples of its source are not in it"):
        hd.select(codes, None, 2, where=np.flatnonzero(SOME))
    with pytest.raises(ValueError, match="because 10 of the 3000"):
        hd.select(codes, None, 2, where=SOME)
    hd.select(codes, None, 2, where=SOME[10:])


def test_where__refuses_samples_of_one_group(tmp_path):
    codes = hd.encode(DATA, TARGET, tmp_path / "codes", groups=SUBJECT)
    with pytest.raises(ValueError, match="only one group in the"):
        hd.select(codes, None, 2, where=SUBJECT == 3)
