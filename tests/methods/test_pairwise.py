"""The baselines against the oracle and against values derived by hand."""

from __future__ import annotations

import functools
import json
from functools import cache

import dask
import numpy as np
import pytest
import xarray as xr
from scipy import stats
from sklearn.metrics import mutual_info_score

import hofs_dask as hd
from hofs_dask.methods.registry import METHOD_NAMES, as_method
from hofs_dask.store.codes import CodeStore, read_codes, read_labels
from tests import oracles_pairwise as oracle

# By the oracle's names; made when a test runs. A name of the registry means its defaults.
VARIANTS = {
    "mrmr difference": lambda: hd.MRMR(form="difference"),
    "mrmr quotient": lambda: hd.MRMR(form="quotient"),
    "spec_cmi greedy": lambda: hd.SpecCMI(form="greedy"),
    "spec_cmi spectral": lambda: hd.SpecCMI(form="spectral"),
    "vmi naive": lambda: hd.VMI(form="naive", restart=0.01),
    "vmi pairwise": lambda: hd.VMI(form="pairwise", restart=0.01),
}
METHODS = VARIANTS | {
    name: functools.partial(as_method, name)
    for name in (*oracle.GREEDY, *oracle.HIGHER, "mifs")
    if name not in VARIANTS
}
VMI = ("vmi naive", "vmi pairwise")
FROM_COUNTS = tuple(name for name in METHODS if name not in VMI)
L = np.log(2)


# Data


def interacting(seed, n, n_classes, bins, m):
    """Return codes with every kind of dependence, and labels of classes of unequal sizes.

    x1 and x2 determine the class together (an XOR), and so do x7 and x8. x3 is a copy of x0, x6 is
    x0 with reversed codes (ties), and x11 is a copy of x9. x4 is x0 with noise, x10 depends on x9
    and x0. x5 is constant. x12, x14, ... depend on the class less and less; x13, x15, ... depend on
    the same noisy copy of the class, so they are slightly redundant.
    """
    rng = np.random.default_rng(seed)
    share = np.arange(n_classes, 0, -1.0) + 1
    y = rng.choice(n_classes, n, p=share / share.sum())

    def levels(i):
        return bins[i % len(bins)]

    def blur(column, i, noise):
        return np.where(rng.random(n) < noise, rng.integers(0, levels(i), n), column % levels(i))

    x = np.column_stack([rng.integers(0, levels(i), n) for i in range(m)])
    x[:, 0] = blur(y, 0, 0.5)
    x[:, 2] = blur(x[:, 1] + y, 2, 0.15)
    x[:, 3] = x[:, 0]
    x[:, 4] = blur(x[:, 0], 4, 0.3)
    x[:, 5] = 1
    x[:, 6] = x[:, 0].max() - x[:, 0]
    x[:, 8] = blur(x[:, 7] % 2 ^ y % 2, 8, 0.3)
    x[:, 9] = blur(2 * y, 9, 0.7)
    x[:, 10] = blur(x[:, 9] + x[:, 0], 10, 0.4)
    x[:, 11] = x[:, 9]
    view = blur(y, 0, 0.5)
    for i in range(12, m):
        x[:, i] = blur(view, i, 0.4) if i % 2 else blur(y * i, i, 1 - 0.4 / (i - 11))
    return x, y


# (seed, samples, classes, codes of the columns, columns), and the number to choose
CASES = {
    "2 classes, 2 codes, all columns": ((0, 200, 2, (2,), 12), 11),
    "3 classes, 5 codes": ((1, 500, 3, (5,), 16), 9),
    "5 classes, 16 codes": ((2, 2000, 5, (16,), 14), 7),
    "10 classes, mixed codes": ((3, 600, 10, (2, 5, 16), 30), 7),
    "2 classes, mixed codes, all columns": ((4, 300, 2, (16, 3, 5), 13), 12),
    "3 classes, mixed codes": ((5, 600, 3, (2, 5, 16, 9), 22), 8),
}


@pytest.fixture(scope="module")
def encoded(tmp_path_factory):
    """A function that returns the code store of codes and a target, made once per name."""
    folder = tmp_path_factory.mktemp("baselines")
    made = {}

    def store(name, x, y, chunks=None):
        if name not in made:
            made[name] = hd.encode(x, y, folder / f"{name}.zarr", bins=None, chunks=chunks)
        return made[name]

    return store


@pytest.fixture(scope="module")
def stores(encoded):
    """A function that returns the code store of `interacting` data in chunks."""

    @cache
    def store(arguments, chunks=None):
        return encoded(f"{arguments[0]}-{chunks}", *interacting(*arguments), chunks)

    return store


def plain_arrays(codes: CodeStore):
    """Return the codes and labels of a store."""
    labels = read_labels(codes, slice(0, codes.n_samples))
    cells = read_codes(codes, slice(0, codes.n_features), slice(0, codes.n_samples)).T
    return cells.astype(int), labels.astype(int)


def assert_agrees(result: hd.Selection, wanted: oracle.Ranking) -> None:
    assert result.indices.tolist() == wanted.indices
    np.testing.assert_allclose(result.scores, wanted.scores, rtol=1e-9, atol=1e-9)


def assert_identical(
    first: hd.Selection, second: hd.Selection, *, names_of_classes: bool = True
) -> None:
    """Assert bit-identical results; `identical` alone would accept 0.0 for -0.0."""
    one, other = first.to_dataset(), second.to_dataset()
    if not names_of_classes:
        for each in (one, other):
            each.attrs["classes"] = [n for _, n in json.loads(each.attrs["classes"])]
    xr.testing.assert_identical(one, other)
    for name in one.variables:
        if one[name].dtype.kind in "fi":
            assert one[name].values.tobytes() == other[name].values.tobytes(), name


# Derived by hand. The samples are all eight values of three bits a, b, c, so every information is
# an integer multiple of L = log 2.

BITS = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)])
A, B, C = BITS.T

# x0 = a, x1 = b, x2 = a, x3 = c; y = (a, b xor c): H(y) = 2 L. I(x:y) is L for x0 and x2, else 0.
# I(x0:x2) = L, all other pairs are independent. Given y only b and c depend: I(x1:x3|y) = L, while
# a is known: I(x0:x2|y) = 0. I(x1,x3:y) = L, I(x0,anything:y) = I(x2,anything:y) = L,
# I(x1:y|x3) = I(x3:y|x1) = L, I(x0:y|x2) = 0. H(x0,x2,y) = 2 L, H of any other pair and y is 3 L.
PARITY = np.column_stack([A, B, A, C]), 2 * A + (B ^ C)
# x0 = a, x1 = a, x2 = (a, b), x3 = (b, c); y = (a, b): I(x:y) = L, L, 2 L, L;
# I(x0:x1) = I(x0:x2) = I(x1:x2) = I(x2:x3) = L, I(x0:x3) = I(x1:x3) = 0.
NESTED = np.column_stack([A, A, 2 * A + B, 2 * B + C]), 2 * A + B
# x0 = b, x1 = c; y = b xor c: alone each has none, I(x0,x1:y) = I(x1:y|x0) = I(x0:x1|y) = L
XOR = np.column_stack([B, C]), B ^ C
# x0 = a, x1 = b, x2 = (a, c); y = (a, b xor c): I(x:y) = L, 0, L; I(x0:x2) = L, which y explains;
# I(x1:x2) = 0, but L given y
MIXED = np.column_stack([A, B, 2 * A + C]), 2 * A + (B ^ C)

MODELS = {"parity": PARITY, "nested": NESTED, "xor": XOR, "mixed": MIXED}
BY_HAND = [
    ("mim", "parity", [0, 2, 1, 3], [L, L, 0, 0]),
    # second round: L - L for x2, 0 - 0 for the others; then L - L - 0 for x2, 0 for x3
    ("mifs", "parity", [0, 1, 2, 3], [L, 0, 0, 0]),
    # third round: L - (L + 0) / 2 for x2
    ("mrmr difference", "parity", [0, 1, 2, 3], [L, 0, L / 2, 0]),
    # all pairs have information L
    ("jmi", "parity", [0, 1, 2, 3], [L, L, 2 * L, 3 * L]),
    ("jmim", "parity", [0, 1, 2, 3], [L, L, L, L]),
    # x2 adds nothing to x0; x1 and x3 are informative only together
    ("cmim", "parity", [0, 1, 2, 3], [L, 0, 0, 0]),
    # second round: L + 0 for x2, then 0 for both, then 0 + 0 + 0 + I(x3:y|x1) for x3
    ("spec_cmi greedy", "parity", [0, 2, 1, 3], [L, L, 0, L]),
    # over L: 1 on the diagonal for x0 and x2; off it 1/2 for x0 or x2 with x1 or x3, 1 for x1 with
    # x3, 0 for x0 with x2. Every row sums to 2, so the dominant eigenvector is constant
    ("spec_cmi spectral", "parity", [0, 1, 2, 3], [0.5, 0.5, 0.5, 0.5]),
    # third round: L - L - 0 + 0 for x2, 0 - 0 + I(x3:x1|y) for x3
    ("cife", "parity", [0, 1, 3, 2], [L, 0, L, 0]),
    # as for CIFE, but without synergy of two features
    ("icap", "parity", [0, 1, 2, 3], [L, 0, 0, 0]),
    # second round: L / 2 L for x2, L / 3 L for the others
    ("disr", "parity", [0, 2, 1, 3], [L, 1 / 2, 2 / 3, 1]),
    # nothing adds to x0, nothing to x2, and x1 and x3 are independent within the classes' product
    ("vmi naive", "parity", [0, 2, 1, 3], [L, L, 0, 0]),
    # p(c|b,y) determines b xor c, so half of the classes remain
    ("vmi pairwise", "parity", [0, 2, 1, 3], [L, L, 0, L]),
    ("mim", "nested", [2, 0, 1, 3], [2 * L, L, L, L]),
    # second round: L - L for all; third: L - 2 L for x1, L - L - 0 for x3; last: L - 2 L - 0
    ("mifs", "nested", [2, 0, 3, 1], [2 * L, 0, 0, -L]),
    ("mrmr difference", "nested", [2, 0, 3, 1], [2 * L, 0, L / 2, L / 3]),
    ("mrmr quotient", "nested", [2, 0, 3, 1], [2 * L, 1, 2, 3 / 2]),
    # every pair with x2 has 2 L; x0 and x3 have 2 L, x0 and x1 only L, x1 and x3 2 L
    ("jmi", "nested", [2, 0, 3, 1], [2 * L, 2 * L, 4 * L, 5 * L]),
    ("jmim", "nested", [2, 0, 3, 1], [2 * L, 2 * L, 2 * L, L]),
    ("cmim", "nested", [2, 0, 1, 3], [2 * L, 0, 0, 0]),
    # third round: L + I(x3:y|x2) + I(x3:y|x0) = L + 0 + L for x3, L for x1; last: L + 0 + 0 + L
    ("spec_cmi greedy", "nested", [2, 0, 3, 1], [2 * L, L, 2 * L, 2 * L]),
    # y determines x0, x1, x2 and half of x3, so pairs share nothing given y; c is independent
    ("cife", "nested", [2, 0, 3, 1], [2 * L, 0, 0, -L]),
    ("icap", "nested", [2, 0, 3, 1], [2 * L, 0, 0, -L]),
    # H(x2,x0,y) = 2 L and with x3 3 L: 2/2 for x0; third: 2/3 + 2/3 for x3, 2/2 + 1/2 for x1;
    # last: 2/3 + 2/3 + 2/3 for x3
    ("disr", "nested", [2, 0, 1, 3], [2 * L, 1, 3 / 2, 2]),
    # x2 has all information; then x0, to which x1 adds nothing and x3 all the rest; then x1
    ("vmi naive", "nested", [2, 0, 3, 1], [2 * L, L, 2 * L, L]),
    ("vmi pairwise", "nested", [2, 0, 3, 1], [2 * L, L, 2 * L, L]),
    ("jmi", "xor", [0, 1], [0, L]),
    ("jmim", "xor", [0, 1], [0, L]),
    ("cmim", "xor", [0, 1], [0, 0]),
    ("spec_cmi greedy", "xor", [0, 1], [0, L]),
    ("cife", "xor", [0, 1], [0, L]),
    ("icap", "xor", [0, 1], [0, 0]),
    ("disr", "xor", [0, 1], [0, 1 / 2]),
    # I(x1:y|x0) = I(x0:y|x1) = I(x0:x1|y) = L and I(x0:x1) = 0
    ("cfr", "xor", [0, 1], [0, 2 * L]),
    ("dcsf", "xor", [0, 1], [0, 2 * L]),
    ("mri", "xor", [0, 1], [0, L]),
    ("njmim", "xor", [0, 1], [0, 1 / 2]),
    ("vmi naive", "xor", [0, 1], [0, 0]),
    ("vmi pairwise", "xor", [0, 1], [0, L]),
    # third round: every triple with x0 and one of x1, x3 has L, but {x0, x1, x3} has 2 L; then x2
    # with the pairs (x0,x1), (x0,x3), (x1,x3) has L, L, 2 L
    ("jmi3", "parity", [0, 1, 3, 2], [L, L, 2 * L, 4 * L]),
    # third round: L - (L + 0) / 2 + 0 - (0 + L) / 2 for x2, 0 - 0 + (0 + L) / 2 - 0 for x3; last:
    # L - L / 3 + 0 - (L + L) / 6, from I(x2:x0|x1) and I(x2:x0|x3)
    ("relax_mrmr", "parity", [0, 1, 3, 2], [L, 0, L / 2, L / 3]),
    # I(x3:y|x0,x1) = L, then I(x2:y|x0) = 0 and nothing changes it
    ("hocmim", "parity", [0, 1, 3, 2], [L, 0, L, 0]),
    # third round: h = x1 for x3: I(x3,x1:y|x0) = I(x3:y|x1) = L; last: g = x0 leaves nothing to x2
    ("cmicot", "parity", [0, 1, 3, 2], [L, 0, L, 0]),
    # last: L - L + L; L - max(0, L) - max(0, -L)
    ("cife", "mixed", [0, 1, 2], [L, 0, L]),
    ("icap", "mixed", [0, 1, 2], [L, 0, 0]),
]
EPOCHS_BY_HAND = [
    ("naive", "parity", [0, 1, 2, 3]),
    ("pairwise", "parity", [0, 1, 2, 2]),
    ("naive", "nested", [0, 1, 1, 2]),
    ("pairwise", "nested", [0, 1, 1, 2]),
    ("naive", "xor", [0, 1]),
    ("pairwise", "xor", [0, 0]),
]
by_hand = pytest.mark.parametrize(("method", "model", "indices", "scores"), BY_HAND)
epochs_by_hand = pytest.mark.parametrize(("form", "model", "epochs"), EPOCHS_BY_HAND)


@by_hand
def test_oracle__agrees_with_derivation_by_hand(method, model, indices, scores):
    found = oracle.select(*MODELS[model], len(indices), method)
    assert found.indices == indices
    np.testing.assert_allclose(found.scores, scores, rtol=0, atol=1e-12)


@epochs_by_hand
def test_oracle__restarts_as_derived_by_hand(form, model, epochs):
    assert oracle.select_vmi(*MODELS[model], len(epochs), form).epochs == epochs


def test_oracle__informations_are_those_of_the_parity_model():
    x, y = PARITY
    table = oracle.Table(x, y)
    assert oracle.entropy(y) == pytest.approx(2 * L)
    for found, wanted in [
        (table.relevance(0), L),
        (table.relevance(1), 0),
        (table.between(0, 2), L),
        (table.between(0, 1), 0),
        (table.between_in_class(0, 2), 0),
        (table.between_in_class(1, 3), L),
        (table.joint(1, 3), L),
        (table.joint(0, 2), L),
        (table.given(1, 3), L),
        (table.given(2, 0), 0),
        (table.joint_entropy(0, 2), 2 * L),
        (table.joint_entropy(1, 3), 3 * L),
    ]:
        assert found == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_oracle__informations_obey_the_chain_rule_and_another_library(seed):
    x, y = interacting(seed, 300, 3, (2, 5, 16), 12)
    table = oracle.Table(x, y)
    for i, j in [(0, 4), (1, 2), (7, 8), (9, 10), (0, 3)]:
        assert table.between(i, j) == pytest.approx(mutual_info_score(x[:, i], x[:, j]), abs=1e-12)
        chain = table.relevance(j) + table.given(i, j)
        assert table.joint(i, j) == pytest.approx(chain, abs=1e-12)
        interaction = table.given(i, j) - table.relevance(i)
        direct = table.between_in_class(i, j) - table.between(i, j)
        assert interaction == pytest.approx(direct, abs=1e-12)


def share(rows, x, y, column, value, given, c):
    """Return p(column = value | given, c), counted sample by sample."""
    alike = [r for r in rows if y[r] == c and all(x[r, j] == v for j, v in given.items())]
    return sum(x[r, column] == value for r in alike) / len(alike) if alike else 0.0


@pytest.mark.parametrize("form", ["naive", "pairwise"])
def test_oracle__bound_of_vmi_agrees_with_direct_counting(form):
    x, y = interacting(11, 70, 3, (2, 3), 12)
    found = oracle.select_vmi(x, y, 5, form, restart=-1.0)  # never restarts
    rows = range(len(y))
    classes = [np.mean(y == c) for c in range(3)]
    for rank in range(5):
        total = 0.0
        for r in rows:
            weights = list(classes)
            for c in range(3):
                for t, i in enumerate(found.indices[: rank + 1]):
                    before = [{j: x[r, j]} for j in found.indices[:t]] if form == "pairwise" else []
                    shares = [share(rows, x, y, i, x[r, i], g, c) for g in before or [{}]]
                    weights[c] *= np.prod(shares) ** (1 / len(shares))
            total += np.log(weights[y[r]] / sum(weights))
        wanted = total / len(y) - sum(p * np.log(p) for p in classes)
        assert found.scores[rank] == pytest.approx(wanted, abs=1e-12)
    assert found.epochs == [0] * 5


def test_oracle__a_tie_goes_to_the_lowest_column():
    x, y = interacting(1, 400, 3, (5,), 12)
    order = [6, 3, 0, *(i for i in range(12) if i not in (0, 3, 6))]
    for method in METHODS:
        ranks = oracle.select(x[:, order], y, 8, method).indices
        found = [rank for rank in ranks if rank < 3]  # x6, x3 and x0 have equal scores
        assert found == sorted(found), method


# The package against derivations by hand and the oracle


@by_hand
def test_select__agrees_with_derivation_by_hand(encoded, method, model, indices, scores):
    codes = encoded(model, *MODELS[model])
    result = hd.select(codes, None, len(indices), method=METHODS[method]())
    assert result.indices.tolist() == indices
    np.testing.assert_allclose(result.scores, scores, rtol=0, atol=1e-12)


@epochs_by_hand
def test_vmi__restarts_as_derived_by_hand(encoded, form, model, epochs):
    codes = encoded(model, *MODELS[model])
    result = hd.select(codes, None, len(epochs), method=hd.VMI(form=form))
    assert result.to_dataset().epoch.values.tolist() == epochs


def assert_figures(result: hd.Selection, x, y, information, gain=None) -> None:
    """Assert that the values of every pick and every feature equal those of the oracle."""
    found, indices = result.to_dataset(), result.indices.tolist()
    fresh = np.diff(found.epoch, prepend=-1) > 0
    before = np.where(fresh, 0.0, np.append(0.0, information[:-1]))
    for name, values in {
        "redundancy": oracle.redundancies(x, indices),
        "relevance": [oracle.information([column], [y]) for column in x.T],
        "information": information,
        "gain": information - before if gain is None else gain,
    }.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-9, atol=1e-9, err_msg=name)
    assert found.subset.values.tolist() == oracle.subsets(x, indices)
    assert found.usable.values.tolist() == [i != 5 for i in range(x.shape[1])]


@pytest.mark.parametrize("method", FROM_COUNTS)
@pytest.mark.parametrize("case", CASES)
def test_select__agrees_with_the_oracle(stores, case, method):
    arguments, n_features = CASES[case]
    x, y = interacting(*arguments)
    result = hd.select(stores(arguments), None, n_features, method=METHODS[method]())
    assert_agrees(result, oracle.select(x, y, n_features, method))
    assert not result.to_dataset().epoch.any()
    indices = result.indices.tolist()
    figures = oracle.informations(x, y, indices), oracle.gains(x, y, indices)
    assert_figures(result, x, y, *figures)


@pytest.mark.parametrize("form", ["naive", "pairwise"])
@pytest.mark.parametrize(
    ("case", "restart"),
    [
        *((case, 0.01) for case in CASES),
        ("3 classes, 5 codes", 0.08),
        ("3 classes, 5 codes", 0.001),
    ],
)
def test_vmi__agrees_with_the_oracle(stores, case, form, restart):
    arguments, n_features = CASES[case]
    x, y = interacting(*arguments)
    wanted = oracle.select_vmi(x, y, n_features, form, restart)
    method = hd.VMI(form=form, restart=restart)
    result = hd.select(stores(arguments), None, n_features, method=method)
    assert_agrees(result, wanted)
    assert result.to_dataset().epoch.values.tolist() == wanted.epochs
    assert_figures(result, x, y, wanted.scores)


@pytest.mark.parametrize("form", ["naive", "pairwise"])
@pytest.mark.parametrize("restart", [0.001, 0.01, 0.1])
def test_vmi__bound_rises_by_the_restart_gain_within_an_epoch(stores, form, restart):
    method = hd.VMI(form=form, restart=restart)
    found = hd.select(stores(CASES["3 classes, 5 codes"][0]), None, 12, method=method).to_dataset()
    rise, same = np.diff(found.information), np.diff(found.epoch) == 0
    assert same.any()
    assert not same.all()
    assert (rise[same] >= restart).all()


@pytest.mark.parametrize("method", ["mim", "jmi", "vmi naive"])
def test_subsets__follow_the_mean_signed_correlation_of_a_chain(encoded, method):
    # neighbours are close and the ends are not, so mean, maximum and minimum differ
    rng = np.random.default_rng(3)
    steps = rng.normal(size=(500, 14))
    for i in range(1, 14):
        steps[:, i] = (-1) ** (i == 7) * 0.6 * steps[:, i - 1] + 0.8 * steps[:, i]
    x = np.clip(np.round(1.5 * steps + 4), 0, 8).astype(int)
    y = (x[:, ::3].sum(axis=1) + rng.integers(0, 9, 500) > 24).astype(int)
    result = hd.select(encoded("chain", x, y), None, 14, method=METHODS[method]())
    subsets = result.to_dataset().subset.values.tolist()
    assert subsets == oracle.subsets(x, result.indices.tolist())
    assert 2 < len(set(subsets)) < 10


@pytest.mark.parametrize("beta", [0.0, 0.3, 2.5])
def test_mifs__beta_agrees_with_the_oracle(stores, beta):
    arguments, n_features = CASES["3 classes, mixed codes"]
    wanted = oracle.select(*interacting(*arguments), n_features, "mifs", beta=beta)
    method = hd.MIFS(beta=beta)
    assert_agrees(hd.select(stores(arguments), None, n_features, method=method), wanted)


@pytest.mark.parametrize("method", ["jmi", "spec_cmi spectral", "vmi pairwise"])
def test_select__of_arrays_of_codes_keeps_the_codes(stores, method):
    arguments, n_features = CASES["3 classes, 5 codes"]
    x, y = interacting(*arguments)
    direct = hd.select(x.astype(np.uint8), y, n_features, method=METHODS[method](), bins=None)
    stored = hd.select(stores(arguments), None, n_features, method=METHODS[method]())
    assert direct.indices.tolist() == stored.indices.tolist()
    assert direct.scores.tolist() == stored.scores.tolist()


# Default methods by the oracle's names; the others have their own names.
DEFAULTS = {"mrmr": "mrmr difference", "spec_cmi": "spec_cmi greedy", "vmi": "vmi naive"}


@pytest.mark.parametrize("name", [name for name in METHOD_NAMES if name != "hofs"])
def test_names__mean_default_options(stores, name):
    method = DEFAULTS.get(name, name)
    assert method in METHODS, "add its formula to oracles_pairwise.GREEDY"
    codes = stores(CASES["2 classes, 2 codes, all columns"][0])
    result = hd.select(codes, None, 5, method=name)
    assert_identical(result, hd.select(codes, None, 5, method=METHODS[method]()))
    assert result.to_dataset().attrs["method"] == name


@pytest.mark.parametrize("method", ["mrmr quotient", "spec_cmi spectral", "jmim", *VMI])
def test_n_features__fewer_picks_are_the_first_of_more(stores, method):
    codes = stores(CASES["10 classes, mixed codes"][0])
    few = hd.select(codes, None, 3, method=METHODS[method]())
    many = hd.select(codes, None, 6, method=METHODS[method]())
    assert few.indices.tolist() == many.indices[:3].tolist()
    assert few.scores.tolist() == many.scores[:3].tolist()


# Chunks and schedulers

CHUNKED = (6, 350, 3, (2, 5, 16), 12)
ONE_CHUNK, MANY_CHUNKS = (350, 12), (97, 5)
CHUNKS = [MANY_CHUNKS, (1000, 12), (350, 1)]


@pytest.fixture(scope="module")
def chunked(stores):
    """A cached function: select five features from a store in given chunks, with threads."""

    @cache
    def result(method, chunks):
        with dask.config.set(scheduler="threads", num_workers=3):
            return hd.select(stores(CHUNKED, chunks), None, 5, method=METHODS[method]())

    return result


@pytest.mark.parametrize("method", FROM_COUNTS)
@pytest.mark.parametrize("chunks", CHUNKS)
def test_chunks__give_bit_identical_results(chunked, method, chunks):
    assert_identical(chunked(method, chunks), chunked(method, ONE_CHUNK))


@pytest.mark.parametrize("method", VMI)
@pytest.mark.parametrize("chunks", CHUNKS)
def test_chunks__give_the_same_picks_of_vmi(chunked, method, chunks):
    found, wanted = chunked(method, chunks), chunked(method, ONE_CHUNK)
    assert found.indices.tolist() == wanted.indices.tolist()
    np.testing.assert_allclose(found.scores, wanted.scores, rtol=1e-9, atol=1e-9)


@pytest.fixture(scope="module")
def saturated():
    """Codes of which a few columns have all information, classes, and picks of VMI."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    x = np.where(rng.random((400, 30)) < 0.9, rng.integers(0, 12, (400, 30)), 4 * y[:, None])
    return x, y, oracle.select_vmi(x, y, 10, "pairwise", restart=-1.0)


@pytest.mark.parametrize("chunks", [(400, 30), (50, 30)])
@pytest.mark.parametrize(("restart", "min_gain"), [(0.0, None), (0.01, 0.0)])
def test_chunks__give_the_same_picks_if_vmi_gains_nothing(
    encoded, saturated, chunks, restart, min_gain
):
    # with all information known, the gain of a column is rounding error of either sign
    x, y, wanted = saturated
    codes = encoded(f"saturated-{chunks}", x, y, chunks)
    method = hd.VMI(form="pairwise", restart=restart)
    assert_agrees(hd.select(codes, None, 10, method=method, min_gain=min_gain), wanted)


@pytest.mark.parametrize("method", METHODS)
def test_schedulers__give_bit_identical_results(stores, chunked, method):
    # VMI included: the tree of its sums depends only on the chunks
    with dask.config.set(scheduler="synchronous"):
        result = hd.select(stores(CHUNKED, MANY_CHUNKS), None, 5, method=METHODS[method]())
    assert_identical(result, chunked(method, MANY_CHUNKS))


# Options of select


@pytest.mark.parametrize("method", METHODS)
def test_include_and_exclude__agree_with_the_oracle(stores, method):
    arguments, _ = CASES["3 classes, 5 codes"]
    # x11 is a copy of x9: VMI includes it and does not restart
    options = {"include": [8, 9, 11], "exclude": [0, 3, 12]}
    wanted = oracle.select(*interacting(*arguments), 7, method, **options)
    result = hd.select(stores(arguments), None, 7, method=METHODS[method](), **options)
    assert_agrees(result, wanted)
    assert result.to_dataset().forced.values.tolist() == [True] * 3 + [False] * 4


@pytest.mark.parametrize("method", METHODS)
def test_columns__that_are_constant_or_excluded_do_not_change_the_result(encoded, method):
    x, y = interacting(12, 400, 3, (5, 2, 9), 14)
    x[:, 13] = 0
    kept = [i for i in range(14) if i not in (0, 3, 5, 13)]
    some, every = encoded("some", x[:, kept], y), encoded("every", x, y)
    few = hd.select(some, None, 6, method=METHODS[method]())
    all_but = hd.select(every, None, 6, method=METHODS[method](), exclude=[0, 3])
    assert all_but.indices.tolist() == [kept[i] for i in few.indices]
    np.testing.assert_allclose(all_but.scores, few.scores, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_spectral__agrees_with_the_oracle_without_constant_columns(seed):
    x, y = interacting(20 + seed, 300, 2 + seed, (5, 2, 9), 16)
    x = np.delete(x, 5, axis=1)
    result = hd.select(x, y, 8, method=hd.SpecCMI(form="spectral"), bins=None)
    assert_agrees(result, oracle.select(x, y, 8, "spec_cmi spectral"))


@pytest.mark.parametrize("method", VMI)
def test_min_gain__stops_vmi_instead_of_restarting(stores, method):
    codes = stores(CASES["3 classes, 5 codes"][0])
    whole = hd.select(codes, None, 12, method=METHODS[method]()).to_dataset()
    result = hd.select(codes, None, 12, method=METHODS[method](), min_gain=0.01)
    n_first = int((whole.epoch == 0).sum())
    assert 0 < n_first < 12
    assert result.indices.tolist() == whole["index"].values[:n_first].tolist()


@pytest.mark.parametrize("method", FROM_COUNTS)
def test_min_gain__holds_for_every_pick_except_the_first(stores, method):
    codes = stores(CASES["3 classes, 5 codes"][0])
    whole = hd.select(codes, None, 10, method=METHODS[method]()).to_dataset()
    least = float(np.sort(whole.gain)[4])
    result = hd.select(codes, None, 10, method=METHODS[method](), min_gain=least)
    given = hd.information_matrix(codes, None, kind="conditional").values

    def is_significant(rank):
        """The largest p-value of G-tests given each earlier pick, times the candidates."""
        pick, earlier = whole["index"].values[rank], whole["index"].values[:rank]
        freedom = 2 * (codes.n_codes[pick] - 1) * codes.n_codes[earlier]
        p = stats.chi2.sf(2 * codes.n_samples * given[pick, earlier], freedom).max()
        return method == "mim" or p * (codes.n_features - rank) <= 0.05

    enough = [whole.gain.values[rank] >= least and is_significant(rank) for rank in range(1, 10)]
    n_kept = 1 + int(np.argmin([*enough, False]))
    assert result.indices.tolist() == whole["index"].values[:n_kept].tolist()


class CutError(Exception):
    """Interrupts a run."""


def cut_after(rank):
    def callback(event):
        if isinstance(event, hd.RoundEnded) and event.rank == rank:
            raise CutError

    return callback


@pytest.mark.parametrize("method", ["jmi", "cmim", "spec_cmi spectral", *oracle.HIGHER, *VMI])
def test_checkpoint__an_interrupted_run_resumes_to_the_same_result(
    stores, chunked, method, tmp_path
):
    codes = stores(CHUNKED, MANY_CHUNKS)
    options = {"method": METHODS[method](), "checkpoint": tmp_path / "run"}
    with pytest.raises(CutError):
        hd.select(codes, None, 5, callback=cut_after(3), **options)
    events = []
    result = hd.select(codes, None, 5, callback=events.append, **options)
    assert_identical(result, chunked(method, MANY_CHUNKS))
    ranks = [event.rank for event in events if isinstance(event, hd.RoundEnded)]
    assert ranks == [4, 5]


@pytest.mark.parametrize("method", METHODS)
def test_classes__with_other_names_give_bit_identical_results(encoded, method):
    x, y = interacting(7, 400, 3, (5, 3), 14)
    assert len(set(np.bincount(y))) == 3
    first, *others = [
        hd.select(encoded(f"labels-{i}", x, labels), None, 6, method=METHODS[method]())
        for i, labels in enumerate([y, np.array(["pear", "apple", "fig"])[y], 200 - 90 * y])
    ]
    for other in others:
        assert_identical(other, first, names_of_classes=False)


@pytest.mark.parametrize("method", ["mim", "jmi", "cmim", "spec_cmi spectral", *VMI])
def test_classes__of_equal_sizes_with_other_names_give_the_same_picks(encoded, method):
    x, y = interacting(8, 400, 4, (5, 3), 14)
    y = np.argsort(np.argsort(y, kind="stable")) // 100
    first, second = [
        hd.select(encoded(name, x, labels), None, 6, method=METHODS[method]())
        for name, labels in (("equal", y), ("reversed", 3 - y))
    ]
    assert first.indices.tolist() == second.indices.tolist()
    np.testing.assert_allclose(first.scores, second.scores, rtol=1e-9, atol=1e-9)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Measurements and a continuous target, both with missing values."""
    rng = np.random.default_rng(9)
    y = rng.normal(size=400)
    x = rng.normal(size=(400, 12))
    x[:, 0] += y
    x[:, 2] = np.sign(y) * x[:, 1] + 0.5 * x[:, 2]
    x[:, 3] += np.abs(y)
    x[:, 5] = x[:, 0]
    x[:, 7] = np.round(y + x[:, 7])
    x[rng.random(x.shape) < 0.05] = np.nan
    x[:, 6] = np.where(rng.random(400) < 0.3, np.nan, 4.0)  # constant where not missing
    y[rng.random(400) < 0.03] = np.nan
    path = tmp_path_factory.mktemp("measured") / "codes.zarr"
    return hd.encode(x, y, path, target_kind="continuous", bins=6, chunks=(150, 5))


@pytest.mark.parametrize("method", METHODS)
def test_continuous_target__and_missing_cells_agree_with_the_oracle(measured, method):
    x, y = plain_arrays(measured)
    assert len(np.unique(y)) == 8
    wanted = oracle.select(x, y, 6, method, exclude=[6], missing=measured.missing_code)
    result = hd.select(measured, None, 6, method=METHODS[method]())
    assert_agrees(result, wanted)


@pytest.fixture(scope="module")
def hidden(tmp_path_factory):
    """A store of codes with missing values, the codes with 7 for missing, and the classes."""
    x, y = interacting(10, 500, 3, (5, 2), 13)
    missing = np.random.default_rng(10).random(x.shape) < 0.1
    missing[:, 5] = False
    path = tmp_path_factory.mktemp("hidden") / "codes.zarr"
    return hd.encode(np.where(missing, np.nan, x), y, path, bins=8), np.where(missing, 7, x), y


@pytest.mark.parametrize("method", METHODS)
def test_missing_cells__have_their_own_code_as_in_the_oracle(hidden, method):
    codes, x, y = hidden
    wanted = oracle.select(x, y, 7, method, missing=[7] * x.shape[1])
    assert_agrees(hd.select(codes, None, 7, method=METHODS[method]()), wanted)


@pytest.mark.parametrize("method", ["jmi3", "cmicot"])
def test_triples__counted_in_several_scans_agree_with_one_scan(encoded, method):
    # with 200 classes, the counts of two pairs of picks take more than 32 MB for a wide tile
    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 2, (700, 1000)), rng.permutation(np.arange(700) % 200)
    x[:, :4] = rng.random((700, 4)) * 200 < y[:, None]
    found = []
    for name, chunks in (("wide", (700, 1000)), ("narrow", (700, 100))):
        events = []
        codes = encoded(name, x, y, chunks)
        found.append(hd.select(codes, None, 5, method=METHODS[method](), callback=events.append))
        scans = [event for event in events if isinstance(event, hd.ScanEnded)]
        n_scans = sum(event.reduction.startswith("triple-terms") for event in scans)
        assert n_scans == (4 if name == "wide" else 3)
        plan = hd.estimate(codes, None, 5, method=METHODS[method]())
        assert plan.searching.reductions["triple-terms"] == n_scans
    assert_identical(*found)


@pytest.mark.parametrize("method", oracle.HIGHER)
def test_triples__with_weights_agree_with_repeated_samples(method):
    x, y = interacting(21, 400, 2, (2,), 13)  # two codes are never merged
    weights = np.random.default_rng(1).integers(1, 4, 400)
    wanted = oracle.select(np.repeat(x, weights, axis=0), np.repeat(y, weights), 6, method)
    result = hd.select(x, y, 6, method=method, weights=weights, bins=None)
    assert_agrees(result, wanted)


def test_triples__in_resamples_and_with_other_methods_are_those_of_a_single_search(stores):
    codes = stores(CASES["3 classes, 5 codes"][0])
    together = hd.compare(codes, None, 5, methods=["jmi3", "hocmim", "jmi"], n_resamples=2)
    for name in ("jmi3", "hocmim"):
        assert_identical(together[name], hd.select(codes, None, 5, method=name))
