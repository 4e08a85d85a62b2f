import collections
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hofs_dask.kernels.hashing import row_hash
from hofs_dask.kernels.planes import WORD, unpacked
from hofs_dask.store import bins as bins_module
from hofs_dask.store import summary as summary_module
from hofs_dask.store.bins import (
    MAX_CODES,
    Feature,
    bin_means,
    check_bins,
    count_bins,
    count_edges,
    encode_block,
    encode_planes,
    make_tables,
    quantile_edges,
    width_edges,
)
from hofs_dask.store.summary import merge_summaries, sampled_rows, summarise

finite = st.floats(allow_nan=False, allow_infinity=False)
few = st.sampled_from([-3.0, -0.0, 0.0, 0.5, 1.0, 7.0])
columns = st.one_of(
    hnp.arrays(np.float64, st.integers(1, 200), elements=finite),
    hnp.arrays(np.float64, st.integers(1, 200), elements=few),
    hnp.arrays(np.float64, st.integers(1, 200), elements=st.one_of(few, finite, st.just(np.nan))),
    hnp.arrays(np.float32, st.integers(1, 200), elements=st.floats(-10, 10, width=32)),
    hnp.arrays(np.int16, st.integers(1, 200), elements=st.integers(-50, 50)),
)


def code(column, bins, n_bins=None, nominal=False, splits=()):
    """Return the feature and codes of one column, read in blocks that end at ``splits``."""
    column = np.asarray(column)
    n = len(column)
    n_bins = n_bins or (bins if isinstance(bins, int) else 5)
    limit = max(n_bins, 2) + 1
    bounds = [0, *splits, n]
    flags = np.array([nominal or column.dtype.kind in "bO"])
    summaries = [
        summarise(column[a:b, None], a, n, flags, limit) for a, b in itertools.pairwise(bounds)
    ]
    features, problems = make_tables(merge_summaries(summaries), 0, bins, n_bins)
    if problems:
        return problems[0], None
    codes = encode_block(column[:, None], features)
    planes = np.zeros((1, 8, -(-n // WORD)), np.uint64)
    encode_planes(column[:, None], features, planes)
    assert np.array_equal(unpacked(planes, n), codes)
    return features[0], codes[0]


# Options


@pytest.mark.parametrize("wrong", [1, 255, 0, True, 2.5, "deciles", (5,)])
def test_check_bins__error_lists_the_valid_values(wrong):
    with pytest.raises(ValueError, match='give "auto", "width", None or an integer from 2 to 254'):
        check_bins(wrong)


def test_check_bins__returns_valid_values():
    assert [check_bins(b) for b in ("auto", "width", None, 2, np.int64(254))] == [
        "auto", "width", None, 2, 254,
    ]  # fmt: skip


def test_count_bins__gives_ten_samples_per_cell():
    # floor(sqrt(4000 / (10 * 3))) = floor(11.5)
    assert count_bins("auto", 4000, 3) == 11
    assert count_bins("width", 4000, 3) == 11
    assert count_bins("auto", 32, 2) == 5
    assert count_bins("auto", 10**9, 2) == 32


# Sampled rows


def test_row_hash__is_splitmix64():
    # The first outputs of the published generator for the seeds 0 and 1234567.
    seeds = np.array([0, 1234567], np.uint64)
    assert row_hash(seeds).tolist() == [16294208416658607535, 6457827717110365317]


def test_sampled_rows__are_all_rows_of_small_data():
    assert sampled_rows(5, 100, summary_module.SAMPLE_ROWS).tolist() == list(range(100))


def test_sampled_rows__do_not_depend_on_the_blocks():
    n = 10 * summary_module.SAMPLE_ROWS
    whole = sampled_rows(0, 50_000, n)
    pieces = [sampled_rows(a, 970, n) + a for a in range(0, 50_000 - 970, 970)]
    joined = np.concatenate(pieces)
    assert np.array_equal(joined, whole[: len(joined)])
    assert 4500 < len(whole) < 5500


# Numeric features


@settings(max_examples=300, deadline=None)
@given(columns, st.integers(2, 12), st.sampled_from(["quantile", "width"]))
def test_numeric__codes_are_monotonic_and_values_match_bins(column, n_bins, form):
    feature, codes = code(column, "width" if form == "width" else n_bins, n_bins)
    missing = np.isnan(column) if column.dtype.kind == "f" else np.zeros(len(column), bool)
    values = column[~missing].astype(float)
    known = codes[~missing]
    assert np.all(feature.edges[1:] > feature.edges[:-1])
    assert codes.max() < feature.n_codes <= n_bins + missing.any()
    assert np.all(codes[missing] == feature.n_codes - 1)
    order = np.argsort(values, kind="stable")
    assert np.all(np.diff(known[order].astype(int)) >= 0)
    n_distinct = len(np.unique(values))
    if n_distinct > 1:
        assert len(np.unique(known)) > 1
    if n_distinct <= n_bins:
        assert len(np.unique(known)) == n_distinct == feature.n_codes - missing.any()
        assert np.array_equal(feature.values[known], values)
    table = feature.values[: feature.n_codes - missing.any()]
    assert np.all(np.isfinite(table))
    assert np.all(table[1:] >= table[:-1])


@settings(max_examples=150, deadline=None)
@given(columns, st.integers(2, 8), st.data())
def test_numeric__does_not_depend_on_the_blocks(column, n_bins, data):
    splits = sorted(data.draw(st.lists(st.integers(0, len(column)), max_size=6)))
    one, codes = code(column, n_bins)
    many, codes_of_many = code(column, n_bins, splits=splits)
    assert one.edges.tobytes() == many.edges.tobytes()
    assert one.values.tobytes() == many.values.tobytes()
    assert np.array_equal(codes, codes_of_many)


@given(columns, hnp.arrays(np.float64, st.integers(0, 20), elements=finite, unique=True))
def test_count_edges__agrees_with_a_binary_search(column, edges):
    column = column[~np.isnan(column)]
    edges = np.sort(edges)
    with np.errstate(over="ignore"):  # edges above the largest float32
        codes = count_edges(column, edges)
    assert np.array_equal(codes, np.searchsorted(edges, column.astype(float), side="right"))


@settings(max_examples=100, deadline=None)
@given(columns, st.sampled_from([2, 5, 12, 40, "width", None]), st.integers(0, 200))
def test_numeric__kernel_for_large_blocks_agrees_with_numpy(column, bins, split):
    splits = [min(split, len(column))]
    small, small_codes = code(column, bins, splits=splits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summary_module, "MANY_CELLS", 1)
        patch.setattr(bins_module, "MANY_CELLS", 1)
        large, large_codes = code(column, bins, splits=splits)
    if small_codes is None:
        assert large == small
        return
    assert small.edges.tobytes() == large.edges.tobytes()
    assert small.values.tobytes() == large.values.tobytes()
    assert np.array_equal(small_codes, large_codes)


@given(st.lists(st.integers(-9, 9) | st.integers(-(2**62), 2**62), min_size=1))
def test_count_values__counts_integers_of_any_range(values):
    counts = summary_module.count_values(np.array(values))
    assert counts == dict(sorted(collections.Counter(values).items()))


def test_numeric__quantile_bins_have_nearly_equal_counts():
    column = np.random.default_rng(0).normal(size=1003)
    _, codes = code(column, 10)
    counts = np.bincount(codes)
    assert counts.min() >= 100
    assert counts.max() <= 101


def test_numeric__atom_gets_a_separate_bin():
    # Like the word frequencies of Spambase: 70 % zeros, then a long tail.
    rng = np.random.default_rng(1)
    column = np.where(rng.random(4000) < 0.7, 0.0, rng.exponential(size=4000))
    feature, codes = code(column, 5)
    assert feature.n_codes == 5
    assert np.array_equal(codes == 0, column == 0)
    assert feature.values[0] == 0
    assert np.ptp(np.bincount(codes)[1:]) <= 1


def test_numeric__atom_in_the_middle_has_bins_on_both_sides():
    rng = np.random.default_rng(2)
    column = np.where(rng.random(4000) < 0.5, 2.0, rng.normal(2, 1, size=4000))
    feature, codes = code(column, 5)
    own = np.unique(codes[column == 2])
    assert own.tolist() == [2]
    assert np.array_equal(codes == 2, column == 2)
    assert feature.n_codes == 5


def test_numeric__unsampled_value_next_to_an_atom_is_in_another_bin():
    edges = quantile_edges(np.array([0.0] * 50 + list(range(1, 51))), 5, 0.0, 50.0)
    assert np.searchsorted(edges, [0.0, 1e-9], side="right").tolist() == [0, 1]


def test_numeric__two_bins_with_an_atom_in_the_middle_are_both_used():
    column = np.array([-1.0] * 2 + [-2.0] + [0.0] * 6 + [1.0, 2.0, 3.0])
    _, codes = code(column, 2)
    assert np.unique(codes).tolist() == [0, 1]


def test_quantile_edges__constant_sample_of_a_varying_column_has_edges():
    constant = np.full(100, 3.0)
    assert np.searchsorted(
        quantile_edges(constant, 5, 1.0, 9.0), [1, 3, 9], side="right"
    ).tolist() == [0, 1, 2]
    assert len(quantile_edges(constant, 2, 1.0, 9.0)) == 1
    assert len(quantile_edges(np.empty(0), 5, 1.0, 9.0)) == 1


def test_numeric__distinct_values_are_counted_in_all_rows(monkeypatch):
    # The rare value is not among the 64 sampled rows of 2000, but it has a code.
    monkeypatch.setattr(summary_module, "SAMPLE_ROWS", 64)
    column = np.zeros(2000)
    rare = next(r for r in range(2000) if r not in set(sampled_rows(0, 2000, 2000)))
    column[rare] = 1.0
    feature, codes = code(column, 5)
    assert feature.values.tolist() == [0, 1]
    assert np.flatnonzero(codes).tolist() == [rare]


def test_numeric__sampled_tables_do_not_depend_on_the_blocks(monkeypatch):
    monkeypatch.setattr(summary_module, "SAMPLE_ROWS", 500)
    column = np.random.default_rng(0).normal(size=5000).astype(np.float32)
    one, _ = code(column, 7)
    many, _ = code(column, 7, splits=range(97, 5000, 97))
    assert one.values.tobytes() == many.values.tobytes()
    assert one.edges.tobytes() == many.edges.tobytes()


def test_numeric__distinct_values_after_a_constant_prefix_are_found():
    column = np.concatenate([np.zeros(3000), np.arange(100.0)])
    feature, _ = code(column, 5)
    assert feature.n_codes == 5


def test_numeric__missing_code_is_the_last_and_at_most_254_codes():
    column = np.append(np.arange(10_000.0), np.nan)
    feature, codes = code(column, 254)
    assert feature.n_codes == MAX_CODES
    assert codes[-1] == MAX_CODES - 1
    assert np.isnan(feature.values[-1])
    assert code(np.arange(10_000.0), 254)[0].n_codes == MAX_CODES


def test_numeric__constant_and_all_missing_have_one_code():
    assert code(np.full(9, 4.0), 5)[0].values.tolist() == [4]
    feature, codes = code(np.full(9, np.nan), 5)
    assert (feature.n_codes, feature.has_missing, codes.max()) == (1, True, 0)


def test_bin_means__are_exact_and_within_their_bin():
    assert bin_means(np.full(7, 0.1), np.empty(0), 0.1, 0.1)[0] == 0.1
    huge = np.array([1.6e308, 1.7e308, 1.7e308])
    assert 1.6e308 < bin_means(huge, np.empty(0), 1.6e308, 1.7e308)[0] < 1.7e308


def test_width__bins_have_equal_widths_over_the_exact_range():
    column = np.append(np.linspace(0, 1, 500), 10.0)
    feature, codes = code(column, "width", 5)
    assert feature.edges.tolist() == [2, 4, 6, 8]
    assert np.bincount(codes).tolist() == [500, 0, 0, 0, 1]
    # The value of an empty bin is the midpoint of its edges.
    assert feature.values[1:].tolist() == [3, 5, 7, 10]


def test_width_edges__tiny_range_has_an_edge():
    high = np.nextafter(1.0, 2)
    assert width_edges(1.0, high, 8).tolist() == [high]


# bins=None


def test_bins_none__integers_are_codes():
    feature, codes = code(np.array([0, 3, 253, 7]), None)
    assert codes.tolist() == [0, 3, 253, 7]
    assert feature.n_codes == 254
    assert feature.values.tolist() == list(range(254))


def test_bins_none__nominal_integers_are_codes():
    feature, codes = code(np.array([0, 3, 1]), None, nominal=True)
    assert codes.tolist() == [0, 3, 1]
    assert feature.categories == (0, 1, 2, 3)


@pytest.mark.parametrize("column", [[-1, 2], [0, 254], [0.0, 1.0]])
def test_bins_none__other_numbers_are_refused_with_their_range(column):
    problem, _ = code(np.array(column), None)
    assert problem.error is ValueError
    assert f"from {min(column):g} to {max(column):g}" in problem.text


# Nominal features


def test_nominal__codes_are_in_the_order_of_the_categories():
    feature, codes = code(np.array(["b", "a", None, "c", "b"], dtype=object), 5)
    assert feature.categories == ("a", "b", "c")
    assert codes.tolist() == [1, 0, 3, 2, 1]
    assert feature.values[:3].tolist() == [0, 1, 2]
    assert np.isnan(feature.values[3])


def test_nominal__feature_of_missing_values_is_constant():
    feature, codes = code(np.full(5, np.nan), 2, nominal=True)
    assert (feature.n_codes, feature.categories) == (1, ())
    assert codes.tolist() == [0] * 5


def test_nominal__numbers_are_sorted_by_value():
    feature, codes = code(np.array([10.0, 9.0, np.nan, 100.0]), 2, nominal=True)
    assert feature.categories == (9.0, 10.0, 100.0)
    assert codes.tolist() == [1, 0, 3, 2]


def test_nominal__booleans_are_categories():
    feature, codes = code(np.array([True, False, True]), 5)
    assert feature.categories == (False, True)
    assert codes.tolist() == [1, 0, 1]


@pytest.mark.parametrize("text", [True, False])
def test_nominal__rare_categories_are_merged_into_other(text):
    # Category k of 300 has k + 1 rows, so the categories with the lowest numbers are the rarest.
    column = np.repeat(np.arange(300), np.arange(1, 301))
    if text:
        column = np.array([f"{k:03d}" for k in column], dtype=object)
    feature, codes = code(column, 5, nominal=True)
    assert feature.n_codes == MAX_CODES
    assert feature.n_folded == 300 - 253
    assert feature.categories[-1] == "other"
    assert np.array_equal(codes == 253, np.arange(len(column)) < 47 * 48 // 2)
    with_missing, _ = code(np.append(column.astype(object), None), 5) if text else (None, None)
    if text:
        assert (with_missing.n_codes, with_missing.n_folded) == (MAX_CODES, 300 - 252)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "c", None, True]), min_size=1, max_size=20), st.data())
def test_nominal__does_not_depend_on_the_blocks(values, data):
    column = np.array(values, dtype=object)
    splits = sorted(data.draw(st.lists(st.integers(0, len(column)), max_size=4)))
    one, codes = code(column, 5)
    many, codes_of_many = code(column, 5, splits=splits)
    assert one.categories == many.categories
    assert np.array_equal(codes, codes_of_many)


def test_nominal__identifier_is_refused():
    problem, _ = code(np.array([f"id{k}" for k in range(21)], dtype=object), 5)
    assert problem.error is ValueError
    assert "distinct value in each of its 21 rows" in problem.text
    # Twenty rows are too few for an identifier, and nominal numbers are never identifiers.
    assert code(np.array([f"id{k}" for k in range(20)], dtype=object), 5)[0].n_codes == 20
    assert code(np.arange(100), 5, nominal=True)[0].n_codes == 100


def test_nominal__too_many_categories_are_refused(monkeypatch):
    for module in (bins_module, summary_module):
        monkeypatch.setattr(module, "MAX_DISTINCT", 50)
    for column in (np.arange(60), np.array([str(k // 2) for k in range(120)], dtype=object)):
        problem, _ = code(column, 5, nominal=True, splits=(30,))
        assert "more than 50 distinct" in problem.text


def test_nominal__unsupported_objects_are_refused_by_type():
    problem, _ = code(np.array(["a", 3, None, (1,)], dtype=object), 5)
    assert problem.error is TypeError
    assert "int, tuple" in problem.text


# Problems


def test_infinite_values__are_counted_over_all_blocks():
    column = np.array([1.0, np.inf, 2.0, -np.inf, 3.0, np.inf])
    problem, _ = code(column, 5, splits=(2, 4))
    assert problem.error is ValueError
    assert "3 infinite values" in problem.text


def test_encode_block__refuses_values_that_the_first_read_did_not_find():
    numeric = Feature(np.array([1.0]), np.array([0.0, 1.0]), False)
    with pytest.raises(ValueError, match="changed"):
        encode_block(np.array([[np.nan]]), [numeric])
    nominal = Feature(np.empty(0), np.array([0.0]), False, ("a",))
    with pytest.raises(ValueError, match="changed"):
        encode_block(np.array([["b"]], dtype=object), [nominal])
    number = Feature(np.empty(0), np.array([0.0]), False, (4,))
    with pytest.raises(ValueError, match="changed"):
        encode_block(np.array([[5]]), [number])


def test_summarise__accepts_zero_rows_and_read_only_input():
    empty = summarise(np.empty((0, 2)), 0, 4, np.array([False, True]), 6)
    block = np.array([[1.0, 2.0], [3.0, 2.0], [1.0, 4.0], [5.0, 2.0]])
    block.flags.writeable = False
    whole = summarise(block, 0, 4, np.array([False, True]), 6)
    features, _ = make_tables(merge_summaries([empty, whole]), 0, 5, 5)
    assert [feature.n_codes for feature in features] == [3, 2]
    assert encode_block(block, features).tolist() == [[0, 1, 0, 2], [0, 0, 1, 0]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize(("n", "n_bins"), [(5, 5), (40, 7), (1000, 7), (32_768, 5), (40_000, 32)])
def test_make_tables__of_many_columns_are_those_of_each(dtype, n, n_bins):
    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, 12)) * 1000
    x[:, 1] = x[:, 1].round(-3)  # ties
    x[:, 2], x[:, 3] = rng.integers(0, 3, n), 0
    x[: n // 2, 4] = x[:, 4].max()
    x = x.astype(dtype)
    if np.dtype(dtype).kind == "f":
        x[0, 5], x[:2, 6], x[:, 7] = -0.0, np.nan, np.nan
    flags = np.arange(12) == 8 if dtype is np.int64 else np.zeros(12, bool)
    summary = summarise(x, 0, n, flags, n_bins + 1)
    features, problems = make_tables(summary, 0, n_bins, n_bins)
    assert not problems
    for j, feature in enumerate(features):
        expected = bins_module._make_feature(summary, j, n_bins, n_bins)
        np.testing.assert_array_equal(feature.edges, expected.edges, strict=True)
        np.testing.assert_array_equal(feature.values, expected.values, strict=True)
        assert feature.has_missing == expected.has_missing
        assert feature.categories == expected.categories
