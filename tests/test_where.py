"""Masks and ignored labels: samples that are left out are as if they were not there."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import hofs_dask as hd
from hofs_dask.methods.registry import METHOD_NAMES

RNG = np.random.default_rng(5)
SHAPE = (3, 13, 17)  # time, y, x
LABEL = RNG.integers(0, 4, SHAPE)  # 0: without a label
CUBE = RNG.normal(size=(*SHAPE, 6)) + LABEL[..., None] * [0.8, 0, 0.4, 0, 0.2, 0]
CUBE[..., 5] = np.where(LABEL == 0, 50.0, CUBE[..., 5])  # what no label must not be seen
CUBE[0, :3, :4, 1] = np.nan
INSIDE = LABEL > 0


def cube(lazy=True):
    array = xr.DataArray(
        CUBE, dims=("time", "y", "x", "band"), coords={"band": [f"b{j}" for j in range(6)]}
    )
    return array.chunk({"time": 1, "y": 5, "x": 9}) if lazy else array


def label(values=LABEL, lazy=True):
    array = xr.DataArray(values, dims=("time", "y", "x"), name="crop")
    return array.chunk({"time": 2}) if lazy else array


def alone():
    """The labelled pixels, passed alone."""
    names = {"band": [f"b{j}" for j in range(6)]}
    data = xr.DataArray(CUBE[INSIDE], dims=("pixel", "band"), coords=names)
    return data, xr.DataArray(LABEL[INSIDE], dims="pixel", name="crop")


def same(one, other):
    """Compare everything but what says how samples were left out."""
    one, other = one.to_dataset(), other.to_dataset()
    for each in (one, other):
        for name in ("n_dropped", "notes", "fingerprint", "selections"):
            each.attrs.pop(name, None)
    xr.testing.assert_identical(one, other)


#: The ways of leaving out pixels without a label: name, data, target, options.
WAYS = {
    "ignored": lambda: (cube(), label(), {"ignore_label": 0}),
    "nan": lambda: (cube(), label().where(label() > 0), {}),
    "fill": lambda: (
        cube(),
        label(np.where(INSIDE, LABEL, -9999)),
        {"where": label(np.where(INSIDE, LABEL, -9999)) != -9999},
    ),
    "masked": lambda: (cube(lazy=False), label(), {"where": label() > 0}),
    "masked flat": lambda: (
        CUBE.reshape(-1, 6),
        LABEL.reshape(-1),
        {"where": da.from_array(INSIDE.reshape(-1), chunks=100)},
    ),
    "positions": lambda: (cube(), label(), {"where": np.flatnonzero(INSIDE)}),
    "masked array": lambda: (cube(), np.ma.masked_equal(LABEL, 0), {}),
}


@pytest.mark.parametrize("method", METHOD_NAMES)
def test_select__unlabelled_samples_change_nothing(method):
    data, target = alone()
    expected = hd.select(data, target, 4, method=method)
    assert expected.to_dataset().attrs["n_samples"] == INSIDE.sum()
    assert expected.to_dataset().attrs["target_kind"] == "class"
    for name, way in WAYS.items():
        data, target, options = way()
        dims = {} if "flat" in name else {"feature_dim": "band"}
        found = hd.select(data, target, 4, method=method, **dims, **options)
        if "flat" in name:  # a table without dims, compared with such a table
            table = hd.select(CUBE[INSIDE], LABEL[INSIDE], 4, method=method)
            np.testing.assert_array_equal(table.scores, expected.scores)
            same(found, table)
            continue
        if "array" in name:  # a target without a name
            found = hd.Selection(found.to_dataset().assign_attrs(target="crop"))
        same(found, expected)


@pytest.mark.parametrize("criterion", ["joint", "sum", "mean"])
def test_select__unlabelled_samples_change_nothing_for_all_criteria(criterion):
    data, target = alone()
    method = hd.HOFS(criterion=criterion)
    expected = hd.select(data, target, 4, method=method)
    for name in ("ignored", "nan", "fill", "masked"):
        data, target, options = WAYS[name]()
        same(hd.select(data, target, 4, method=method, feature_dim="band", **options), expected)


def test_other_functions__unlabelled_samples_change_nothing(tmp_path):
    some, crop = alone()
    options = {"feature_dim": "band", "ignore_label": 0}
    same(
        hd.compare(cube(), label(), 2, methods=["hofs", "jmi"], n_resamples=2, **options),
        hd.compare(some, crop, 2, methods=["hofs", "jmi"], n_resamples=2),
    )
    same(hd.interactions(cube(), label(), top=5, **options), hd.interactions(some, crop, top=5))
    xr.testing.assert_identical(
        hd.information_matrix(cube(), label(), **options), hd.information_matrix(some, crop)
    )
    codes = hd.encode(cube(), label(), tmp_path / "codes", **options)
    same(hd.select(codes, None, 3), hd.select(some, crop, 3))
    assert "ignore_label=0 leaves out" in repr(codes)
    assert "663 samples" in str(hd.estimate(cube(), label(), 3, **options))


def test_where__with_groups_keeps_the_groups_of_the_kept_samples():
    place = xr.DataArray(np.arange(13), dims="y", name="strip")
    found = hd.select(cube(), label(), 3, feature_dim="band", where=label() > 0, groups=place)
    data, target = alone()
    ids = np.broadcast_to(np.arange(13)[None, :, None], SHAPE)[INSIDE]
    expected = hd.select(data, target, 3, groups=xr.DataArray(ids, dims="pixel", name="strip"))
    same(found, expected)


def test_where__is_broadcast_along_sample_dims_and_combined_with_ignore_label():
    land = xr.DataArray(np.arange(13 * 17).reshape(13, 17) % 3 > 0, dims=("y", "x"))
    found = hd.select(cube(), label(), 3, feature_dim="band", where=land, ignore_label=0)
    inside = INSIDE & land.values
    expected = hd.select(CUBE[inside], LABEL[inside], 3)
    assert found.indices.tolist() == expected.indices.tolist()
    np.testing.assert_array_equal(found.scores, expected.scores)
    outside, ignored = int(3 * (~land.values).sum()), int((land.values & (LABEL == 0)).sum())
    attrs = found.to_dataset().attrs
    assert attrs["n_dropped"] == 0
    assert attrs["notes"] == (
        f"where leaves out {outside} samples\nignore_label=0 leaves out {ignored} samples"
    )
    assert f"note: where leaves out {outside} samples" in repr(found)


FRAME = pd.DataFrame(CUBE.reshape(-1, 6), columns=list("abcdef")).assign(
    crop=LABEL.reshape(-1), land=INSIDE.reshape(-1)
)


@pytest.mark.parametrize(
    ("data", "where"),
    [
        (FRAME, "land"),
        (FRAME.drop(columns="land"), FRAME["land"]),
        (FRAME.drop(columns="land"), FRAME["land"].astype("boolean").where(FRAME["land"])),
        (FRAME.drop(columns="land"), FRAME["land"].tolist()),
        (FRAME.drop(columns="land"), FRAME.index[FRAME["land"]]),
        (dd.from_pandas(FRAME, npartitions=3), "land"),
        ({name: FRAME[name].to_numpy() for name in FRAME}, "land"),
        (FRAME.to_xarray(), "land"),
    ],
)
def test_where__every_kind_of_data_and_mask(data, where):
    expected = hd.select(FRAME[FRAME["land"]].drop(columns="land"), "crop", 2, method="jmi")
    same(hd.select(data, "crop", 2, method="jmi", where=where), expected)


def test_store__a_mask_is_part_of_its_identity(tmp_path):
    path = tmp_path / "codes"
    whole = hd.select(FRAME, "crop", 1, store=path, exclude=["land"])
    some = hd.select(FRAME, "crop", 1, store=path, where="land")
    assert whole.to_dataset().attrs["n_samples"] == 663
    assert some.to_dataset().attrs["n_samples"] == INSIDE.sum()
    with pytest.raises(ValueError, match="is missing or ignored for other samples than crop"):
        hd.select(FRAME, "crop", 1, store=path, where="land", ignore_label=1)


ERRORS = [
    ({"where": [0, 1, 1]}, ValueError, "where has 3 positions of 2 samples, so that some are"),
    ({"where": [700]}, ValueError, "where has the position 700, but the data has 663 samples; "),
    ({"where": np.ones(5, bool)}, ValueError, "where has 5 values and the data has 663 samples"),
    ({"where": np.ones(663)}, TypeError, "where is float64; give booleans, one per sample, such"),
    ({"where": np.ones((663, 2), int)}, TypeError, "where is int64 of shape (663, 2); give bool"),
    ({"where": {"y": 3}}, TypeError, "where is {'y': 3}; give booleans, one per sample, such as"),
    ({"where": "lnd"}, ValueError, "unknown column for where 'lnd'; valid: 'land', "),
    (
        {"where": np.zeros(663, bool)},
        ValueError,
        "none of the 663 samples is left: where leaves out 663 samples",
    ),
    (
        {"where": pd.Series(INSIDE.reshape(-1), index=np.arange(1, 664))},
        ValueError,
        "where 'where' and the data have different indexes; give where.loc[data.index]",
    ),
    ({"ignore_label": "0"}, ValueError, "ignore_label is '0', but the target holds numbers"),
    (
        {"ignore_label": [0, 1]},
        TypeError,
        "ignore_label is [0, 1]; give one class, such as 0, or where=~target.isin([0, 1])",
    ),
]


@pytest.mark.parametrize(("options", "error", "message"), ERRORS)
def test_where__that_cannot_be_used_is_refused(options, error, message):
    with pytest.raises(error) as caught:
        hd.select(FRAME, "crop", 1, **options)
    assert str(caught.value).startswith(message)


def test_where_for_features__is_refused():
    with pytest.raises(ValueError, match=r"where has the dims .*'band'.* the samples of the"):
        hd.select(cube(), label(), 1, feature_dim="band", where=cube().notnull())


def test_ignore_label_for_a_code_store__is_refused(tmp_path):
    codes = hd.encode(FRAME, "crop", tmp_path / "codes")
    with pytest.raises(ValueError, match="ignore_label is 0, but the data is a code store"):
        hd.select(codes, None, 1, ignore_label=0)


def test_whole_numbers_as_floats__few_are_classes_and_reported():
    target = LABEL.reshape(-1).astype(float)
    found = hd.select(CUBE.reshape(-1, 6), target, 2)
    expected = hd.select(CUBE.reshape(-1, 6), LABEL.reshape(-1), 2)
    same(found, expected)
    assert "note: target 'target' holds 4 different whole numbers as floats, which" in repr(found)
    assert "note" not in repr(expected)


def test_whole_numbers_as_floats__many_are_continuous_with_a_warning():
    x, target = CUBE.reshape(-1, 6), (np.arange(663) % 21).astype(float)
    with pytest.warns(UserWarning, match="21 different whole numbers as floats and is cut into 8"):
        found = hd.select(x, target, 1, method="mim")
    assert found.to_dataset().attrs["target_kind"] == "continuous"
    few = hd.select(x, (np.arange(663) % 20).astype(float), 1, method="mim")
    assert few.to_dataset().attrs["n_classes"] == 20


def test_samples_without_features__are_a_warning():
    masked = cube().where(label() > 0)  # the cube is masked and the label is not
    with pytest.warns(UserWarning, match=r"of the samples miss every feature, and a missing value"):
        found = hd.select(masked, label(), 2, feature_dim="band")
    share = (LABEL == 0).mean()
    assert f"note: {share:.1%} of the samples miss every feature" in repr(found)
    hd.select(masked, label(), 2, feature_dim="band", ignore_label=0)
