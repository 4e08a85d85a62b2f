"""The package against the oracle: the same picks, subsets, epochs and numbers on random data."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

import hofs_dask as hd
from hofs_dask.store.codes import CodeStore, read_codes, read_labels
from tests import oracles
from tests.test_groups import oracle_folds

SOURCES = ("logistic", "gaussian")
# The oracle and the package solve a logistic row by different means; all else is arithmetic.
TOLERANCE = {"sum": 1e-6, "mean": 1e-6, "joint": 1e-8}


def features_of(signal, parity, rng):
    """Columns that say something of a signal (a number) and of a parity (0 or 1), and some not.

    x1 is the noise of x0 and x7 is x0 again, x6 follows x2, the sign of the parity decides how x4
    follows x3 (an XOR), x5 and x8 are nominal and an XOR too; x2, x5 and x6 have missing cells.
    """
    n = len(signal)
    x = rng.normal(size=(n, 9))
    x[:, 1] = x[:, 0] + 0.5 * x[:, 1]
    x[:, 0] += 0.8 * signal
    x[:, 2] -= 0.5 * signal
    x[:, 4] = (2 * parity - 1) * x[:, 3] + 0.6 * x[:, 4]
    x[:, 5] = np.clip(np.round(0.6 * np.abs(signal - 1) + rng.normal(size=n)), -1, 2)
    x[:, 6] += 0.5 * x[:, 2] + 0.6 * parity
    x[:, 7] = x[:, 0]
    x[:, 8] = ((x[:, 5] > 0) + parity + (rng.random(n) < 0.2)) % 2
    for i in (2, 5, 6):
        x[rng.random(n) < 0.08, i] = np.nan
    return x


def class_data(seed, n, n_classes):
    """Features and classes 0 to C - 1 of unequal sizes, a few of them missing."""
    rng = np.random.default_rng(seed)
    share = np.arange(n_classes, 0, -1.0) + 1
    y = rng.choice(n_classes, n, p=share / share.sum()).astype(float)
    x = features_of(y, y % 2, rng)
    y[rng.random(n) < 0.03] = np.nan
    return x, y


def continuous_data(seed, n):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=n)
    return features_of(y, (y > 0).astype(float), rng), y


def nominal_data(seed, n):
    """Categories, each of which follows earlier ones and the class; x5 is constant where known."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n).astype(float)

    def blur(column, share):
        return np.where(rng.random(n) < share, rng.integers(0, 3, n), column) % 3

    x = np.empty((n, 6))
    x[:, 0] = blur(y, 0.5)
    x[:, 1] = blur(x[:, 0] + y, 0.7)
    x[:, 2] = blur(x[:, 1] + 2 * y, 0.2)
    x[:, 3] = blur(np.where(rng.random(n) < 0.3, x[:, 0], x[:, 2] + y), 0.2)
    x[:, 4] = blur(x[:, 3] * x[:, 2] + y, 0.3)
    x[:, 5] = np.where(rng.random(n) < 0.3, np.nan, 1.0)
    return x, y


def encoded(x, y, folder, *, nominal=("x5", "x8"), target_kind="class"):
    """The code store of some data, in several chunks."""
    return hd.encode(
        x,
        y,
        folder / "codes.zarr",
        nominal=nominal,
        target_kind=target_kind,
        bins=6,
        chunks=(170, 5),
    )


def plain_arrays(codes: CodeStore):
    """The codes, tables, labels and row numbers of a store."""
    labels = read_labels(codes, slice(0, codes.n_samples))
    cells = read_codes(codes, slice(0, codes.n_features), slice(0, codes.n_samples)).T
    rows, evidence = np.arange(codes.n_samples), 1.0
    if codes.weights is not None:
        weights = zarr.open_array(f"{codes.place}/weights", mode="r")[:].astype(int)
        rows = np.repeat(rows, weights)
        evidence = weights.sum() / (weights**2).sum()
    return {
        "codes": cells[rows],
        "values": codes.values,
        "n_codes": codes.n_codes,
        "nominal": codes.nominal,
        "labels": labels[rows],
        "label_values": codes.labels.values,
        "rows": rows,
        "evidence": evidence,
    }


def assert_same(
    codes,
    criterion,
    n_features,
    *,
    source="logistic",
    coding="indicator",
    include=(),
    threshold=0.2,
    affinity=None,
    order=None,
    folds=None,
    groups=None,
):
    """The package and the oracle agree in every pick."""
    method = hd.HOFS(
        criterion=criterion,
        source=source,
        label_coding=coding,
        threshold=threshold,
        affinity=affinity,
        order=order,
    )
    found = hd.select(codes, None, n_features, method=method, include=include).to_dataset()
    wanted = oracles.select(
        **plain_arrays(codes),
        criterion=criterion,
        source=source,
        coding=coding,
        n_features=n_features,
        include=include,
        threshold=threshold,
        affinity=affinity,
        order=order or 2,
        folds=folds,
        groups=groups,
    )
    for name in ("index", "subset", "epoch"):
        assert found[name].values.tolist() == [pick[name] for pick in wanted], name
    for name in ("score", "information", "gain"):
        np.testing.assert_allclose(
            found[name].values,
            [pick[name] for pick in wanted],
            rtol=0,
            atol=TOLERANCE[criterion],
            err_msg=name,
        )


@pytest.mark.parametrize(
    ("criterion", "source"),
    [("sum", "logistic"), ("sum", "gaussian"), ("mean", "gaussian"), ("joint", "logistic")],
)
@pytest.mark.parametrize(("seed", "n", "n_classes"), [(0, 200, 2), (1, 350, 3), (2, 500, 4)])
def test_select__agrees_with_the_oracle(tmp_path, criterion, source, seed, n, n_classes):
    codes = encoded(*class_data(seed, n, n_classes), tmp_path)
    assert_same(codes, criterion, 9 if criterion == "joint" else 5, source=source)


@pytest.mark.parametrize("seed", range(3, 6))
def test_joint__agrees_with_the_oracle_on_many_samples(tmp_path, seed):
    codes = encoded(*class_data(seed, 600, 2 + seed % 3), tmp_path)
    assert_same(codes, "joint", 9, source=SOURCES[seed % 2])


def parity_data(seed, n):
    """Return the parity of three features and a number among noise, with missing cells."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 7))
    x[:, 4] = rng.integers(0, 5, n)
    y = ((x[:, 1] > 0) ^ (x[:, 3] > 0) ^ (x[:, 4] > 1)) ^ (rng.random(n) < 0.03)
    x[:, 6] += 0.4 * y
    x[rng.random(n) < 0.05, 3] = np.nan
    return x, y.astype(float)


@pytest.mark.parametrize(
    ("order", "include"), [(3, ()), (3, (6,)), (None, (1, 3)), (None, (4, 6, 1)), (2, ()), (1, ())]
)
@pytest.mark.parametrize("nominal", [False, ("x4",)])
def test_parity__agrees_with_the_oracle(tmp_path, order, include, nominal):
    codes = encoded(*parity_data(20, 1500), tmp_path, nominal=nominal)
    assert_same(codes, "joint", 6, order=order, include=include)
    found = hd.select(codes, None, 6, method=hd.HOFS(order=order), include=include)
    if order == 3 or include == (1, 3):
        assert {1, 3, 4} <= set(found.indices[:4].tolist())


@pytest.mark.parametrize(
    ("criterion", "source"),
    [("sum", "logistic"), ("mean", "gaussian"), ("joint", "logistic"), ("joint", "gaussian")],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_weights__agree_with_the_oracle(tmp_path, criterion, source, seed):
    """The oracle repeats each sample as often as its quantized weight says."""
    x, y = class_data(seed, 300, 2 + seed)
    weights = np.random.default_rng(seed).integers(0, 5, len(y))
    codes = hd.encode(
        x,
        y,
        tmp_path / "codes.zarr",
        nominal=("x5", "x8"),
        target_kind="class",
        bins=6,
        chunks=(128, 5),
        weights=weights,
    )
    assert codes.weights.largest == 4
    assert_same(codes, criterion, 8 if criterion == "joint" else 4, source=source)


@pytest.mark.parametrize(("seed", "n_groups"), [(0, 12), (1, 40), (2, 64)])
def test_joint__agrees_with_the_oracle_on_samples_in_groups(tmp_path, seed, n_groups):
    """Some features and part of the class belong to the group."""
    x, y = class_data(seed, 400, 3)
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, n_groups, len(y))
    for i in (1, 3, 5):
        of_group = rng.normal(size=n_groups).round()[ids]
        x[:, i] = np.where(rng.random(len(y)) < 0.8, of_group, x[:, i])
    whole = ~np.isnan(y)
    x, y, ids = x[whole], y[whole], ids[whole]
    y = np.where(rng.random(len(y)) < 0.6, ids % 3, y)
    path = tmp_path / "codes.zarr"
    codes = hd.encode(
        x, y, path, nominal=("x5", "x8"), target_kind="class", bins=6, chunks=(170, 5), groups=ids
    )
    assert_same(codes, "joint", 9, folds=oracle_folds(ids.tolist()), groups=ids)


@pytest.mark.parametrize("criterion", ["sum", "mean", "joint"])
def test_continuous_target__agrees_with_the_oracle(tmp_path, criterion):
    codes = encoded(*continuous_data(10, 400), tmp_path, target_kind="continuous")
    assert_same(codes, criterion, 6, coding="ordinal")


@pytest.mark.parametrize("criterion", ["sum", "joint"])
@pytest.mark.parametrize("include", [(4, 7), (0, 7, 3)])
def test_include__agrees_with_the_oracle(tmp_path, criterion, include):
    codes = encoded(*class_data(11, 300, 3), tmp_path)
    assert_same(codes, criterion, 5, include=include, source="gaussian")


@pytest.mark.parametrize("criterion", ["sum", "joint"])
def test_few_samples__agree_with_the_oracle(tmp_path, criterion):
    codes = encoded(*class_data(15, 60, 2), tmp_path)
    assert_same(codes, criterion, 7, affinity="within", source="gaussian")


@pytest.mark.parametrize("criterion", ["sum", "joint"])
@pytest.mark.parametrize("seed", [17, 18])
def test_nominal_features__agree_with_the_oracle(tmp_path, criterion, seed):
    codes = encoded(*nominal_data(seed, 400), tmp_path, nominal=True)
    assert_same(codes, criterion, 5, source="gaussian")


@pytest.mark.parametrize(
    ("criterion", "affinity", "threshold"),
    [("sum", "within", 0.2), ("joint", "correlation", 0.2), ("joint", "within", 0.05)],
)
def test_affinity_and_threshold__agree_with_the_oracle(tmp_path, criterion, affinity, threshold):
    codes = encoded(*class_data(12, 400, 3), tmp_path)
    assert_same(codes, criterion, 7, affinity=affinity, threshold=threshold, source="gaussian")


@pytest.mark.parametrize(
    ("affinity", "pair"),
    [("within", (0, 1)), ("within", (2, 6)), ("within", (5, 8)), ("correlation", (2, 6))],
)
def test_affinity__is_that_of_the_oracle_to_nine_digits(tmp_path, affinity, pair):
    codes = encoded(*class_data(19, 200, 3), tmp_path)
    exact = getattr(oracles.Data(**plain_arrays(codes)), affinity)(*pair)
    n_subsets = []
    for threshold in (exact * (1 - 1e-9), exact * (1 + 1e-9)):
        method = hd.HOFS(affinity=affinity, threshold=threshold)
        n_subsets.append(len(hd.select(codes, None, 2, method=method, include=pair).subsets))
    assert n_subsets == [1, 2]


@pytest.mark.parametrize("criterion", ["sum", "joint"])
def test_equal_class_sizes__agree_with_the_oracle(tmp_path, criterion):
    rng = np.random.default_rng(13)
    y = np.repeat([0.0, 1.0, 2.0], 80)
    codes = encoded(features_of(y, y % 2, rng), y, tmp_path)
    assert_same(codes, criterion, 5)


@pytest.mark.parametrize("source", SOURCES)
def test_copy_of_the_target__saturates_as_in_the_oracle(tmp_path, source):
    x, y = class_data(14, 200, 2)
    x[:, 1] = np.nan_to_num(y)
    codes = encoded(x, y, tmp_path)
    assert_same(codes, "sum", 4, source=source)
