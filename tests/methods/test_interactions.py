import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import kstest, poisson

import hofs_dask as hd
from hofs_dask.engine import tuples
from hofs_dask.engine.reduction import ALL_HASHES, Block, Request, Tile, frozen
from hofs_dask.engine.tuples import TUPLES, TupleContext
from hofs_dask.kernels.tuples import (
    FIRST_LOG,
    LOG_STEP,
    N_MEANS,
    add_tables,
    deviance_moments,
    fit_tables,
    subsets_of,
)
from hofs_dask.methods import interactions
from hofs_dask.methods.base import Sizes
from hofs_dask.methods.interactions import (
    TupleSearch,
    codes_of_order,
    find_interactions,
    group_codes,
    merged_codes,
    p_values,
    planned_tuples,
    surely_found,
)
from hofs_dask.methods.problem import Problem
from tests import oracles_interactions as oracle


def problem_of(x, y, *, nominal=False, missing=-1):
    """The problem of codes (feature, sample)."""
    n_codes, n_classes = int(x.max()) + 1, int(y.max()) + 1
    counts = np.zeros((len(x), 4, n_classes, n_codes), np.int64)
    for i, row in enumerate(x):
        np.add.at(counts, (i, 0, y, row), 1)
    return Problem(
        n_codes=np.full(len(x), n_codes),
        missing_code=np.full(len(x), missing),
        nominal=np.full(len(x), nominal),
        values=np.zeros((len(x), n_codes)),
        counts=counts,
        label_kind="class",
        label_values=np.arange(n_classes),
    )


def found_by(x, y, order, top, tile=1000):
    """The tuples of codes (feature, sample), from the reductions alone, without a store."""
    problem = replace(problem_of(x, y), tile_width=tile)
    return answered(find_interactions(problem, order, top), x, y)


def answered(steps, x, y, weights=None):
    """The result of steps whose requests are computed from codes (feature, sample)."""
    total = None
    while True:
        try:
            request = steps.send(total)
        except StopIteration as stop:
            return stop.value
        total = None
        if isinstance(request, Request):
            reduction, whole = request.reduction, Tile.of(x)
            partial = reduction.identity(request.context, len(x))
            columns = whole.only(np.array(request.columns, int))
            block = Block(whole, columns, y, np.zeros(len(y), np.uint8))
            if weights is not None:
                block = replace(block, weights=weights)
            reduction.chunk(request.context, block, partial)
            total = reduction.finalize(request.context, partial)


def random_codes(seed, m, n, b, n_classes):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, b, (m, n)).astype(np.uint8)
    y = rng.integers(0, n_classes, n).astype(np.uint8)
    y[:n_classes] = np.arange(n_classes)
    return rng, x, y


def fitted_terms(tables):
    """The values of `fit_tables` for tables (table, code, ..., class)."""
    shape, n = tables.shape[1:], len(tables)
    subsets, signs, sizes = subsets_of(shape)
    flat, out = tables.reshape(n, -1).astype(np.int64), np.zeros((n, 5))
    moments, n_margin = deviance_moments(), int(subsets.max()) + 1
    fit_tables(flat, subsets, signs, sizes, n_margin, np.zeros(1), moments, 1.0, 0.0, out)
    return out


@pytest.mark.parametrize(
    ("order", "n_codes", "n_classes"),
    [(2, 2, 2), (2, 3, 4), (2, 7, 2), (2, 11, 2), (3, 2, 3), (3, 4, 2)],
)
def test_find_interactions__equals_the_oracle(order, n_codes, n_classes, monkeypatch):
    rng, x, y = random_codes(1, 6, 3001, n_codes, n_classes)
    x[0] = np.where(rng.random(3001) < 0.4, y % n_codes, x[0])  # relevant
    x[1] = np.where(rng.random(3001) < 0.5, x[0], x[1])  # correlated with a relevant one
    x[2] = np.where(rng.random(3001) < 0.3, (x[3] + x[4] + y) % n_codes, x[2])  # interactions
    monkeypatch.setattr(tuples, "HISTOGRAM_GROUPS", 11)
    found = found_by(x, y, order, 1000)
    expected = {
        columns: oracle.interaction(x, y, columns) for columns in combinations(range(6), order)
    }
    assert found.n_tuples == len(expected) == len(found.columns)
    assert (np.diff(found.synergy) <= 0).all()
    for t, columns in enumerate(map(tuple, found.columns.tolist())):
        synergy, information, added, df, p_value = expected[columns]
        assert found.synergy[t] == pytest.approx(synergy, abs=1e-9)
        assert found.information[t] == pytest.approx(information, abs=1e-12)
        assert found.added[t] == pytest.approx(added, abs=1e-12)
        assert found.df[t] == df
        # the correction is interpolated in a table
        logs = np.log(np.maximum([found.p_value[t], p_value], 1e-300))
        assert logs[0] == pytest.approx(logs[1], rel=1e-4, abs=2e-3)
        assert found.p_adjusted[t] == min(found.p_value[t] * len(expected), 1)


@pytest.mark.parametrize("order", [2, 3])
def test_find_interactions__top_is_the_start_of_the_full_list(order, monkeypatch):
    _, x, y = random_codes(2, 12, 700, 3, 2)
    full = found_by(x, y, order, 10**6)
    # counts of one column or one pair of columns at a time
    monkeypatch.setattr(interactions, "PANEL_BYTES", 1)
    for top in (1, 7):
        some = found_by(x, y, order, top, tile=5)
        np.testing.assert_array_equal(some.columns, full.columns[:top])
        np.testing.assert_array_equal(some.synergy, full.synergy[:top])


def test_fit_tables__zero_margins():
    """A combination of two variables that never occurs takes cells and parameters away."""
    rng = np.random.default_rng(0)
    table = rng.integers(5, 30, (3, 3, 2))
    table[0, 0] = 0  # one of nine combinations of both features
    out = fitted_terms(table[None])
    assert out[0, 0] == pytest.approx(oracle.synergy(table.astype(float)), abs=1e-9)
    assert out[0, 3] == 4 - 1


def test_fit_tables__duplicated_feature_has_no_synergy():
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 3, 500), rng.integers(0, 2, 500)
    table = oracle.table_of([x, x], y, (0, 1)).astype(np.int64)
    out = fitted_terms(table[None])
    assert out[0, 0] == pytest.approx(0.0, abs=1e-12)
    assert out[0, 3] == 0
    assert p_values(out[:, 0], 500, out[:, 3], out[:, 4]).tolist() == [1.0]


@pytest.mark.parametrize("shape", [(3, 3, 2), (2, 5, 3), (3, 3, 3, 2)])
def test_p_values__single_null_tuples_are_uniform(shape):
    """1000 tables with effects of single features on the class and on each other."""
    rng = np.random.default_rng(3)
    n = 20 * math.prod(shape)
    tables = np.zeros((1000, *shape), np.int64)
    for row in tables:
        p = np.ones(shape)
        for axes in combinations(range(len(shape)), 2):
            effect = rng.uniform(0.7, 1.3, [shape[a] for a in axes])
            p *= np.expand_dims(effect, [a for a in range(len(shape)) if a not in axes])
        row[:] = rng.multinomial(n, (p / p.sum()).ravel()).reshape(shape)
    out = fitted_terms(tables)
    assert set(out[:, 3]) == {math.prod(k - 1 for k in shape)}
    assert kstest(p_values(out[:, 0], n, out[:, 3], out[:, 4]), "uniform").pvalue > 0.01


def rare_genotypes(rng):
    """Three loci with minor allele frequency 0.3: one cell has about half a sample."""
    share = np.array([0.49, 0.42, 0.09])
    p = np.einsum("i,j,k,c->ijkc", share, share, share, [0.5, 0.5])
    return rng.multinomial(1600, p.ravel(), size=1000).reshape(1000, *p.shape)


def strong_effects(rng):
    """Two strong additive effects, and noise; half of the cells have less than two samples."""
    place = np.linspace(-2, 2, 6)
    odds = np.exp(1.5 * (place[:, None] + place))
    p = np.stack([odds / (1 + odds), 1 / (1 + odds)], axis=-1)[:, :, None].repeat(6, axis=2) / 216
    return rng.multinomial(4320, p.ravel(), size=300).reshape(300, *p.shape)


def rare_class(rng):
    """Ten codes each; 3 % of the samples are in one of the classes."""
    p = np.einsum("i,j,c->ijc", np.full(10, 0.1), np.full(10, 0.1), [0.97, 0.03])
    return rng.multinomial(2000, p.ravel(), size=1000).reshape(1000, *p.shape)


@pytest.mark.parametrize("draw", [rare_genotypes, strong_effects, rare_class])
def test_p_values__tables_with_few_samples_in_many_cells(draw):
    """The mean deviance is the expected one, so tests are neither wrong nor without power."""
    tables = draw(np.random.default_rng(0))
    terms = fitted_terms(tables)
    n = tables[0].sum()
    deviance, expected = 2 * n * terms[:, 0], np.maximum(terms[:, 3], 1) * terms[:, 4]
    assert expected.mean() == pytest.approx(deviance.mean(), rel=0.06)
    p = p_values(terms[:, 0], n, terms[:, 3], terms[:, 4])
    assert 0.01 < (p < 0.05).mean() < 0.07
    assert (p < 0.001).mean() < 0.01


def test_deviance_moments__expectations():
    """The values of counts have the expected deviance as their expectation."""
    moments = deviance_moments()
    counts = np.arange(200)
    for mean in (0.5, 1.0, 3.0, 10.0, 40.0):
        expected, second = oracle.deviance_of(mean)
        grid = FIRST_LOG + LOG_STEP * np.arange(N_MEANS)
        assert np.interp(np.log(mean), grid, moments[0]) == pytest.approx(expected, abs=2e-4)
        assert np.interp(np.log(mean), grid, moments[1]) == pytest.approx(
            mean**2 * second / 2, abs=5e-4
        )
        found = poisson.pmf(counts, mean) @ moments[2, :200]
        assert found == pytest.approx(expected, abs=0.1)


@pytest.mark.parametrize(("order", "m", "n_codes"), [(2, 25, 3), (3, 10, 3)])
def test_find_interactions__noise_is_not_significant(order, m, n_codes):
    n_significant = 0
    for seed in range(100):
        _, x, y = random_codes(seed, m, 600, n_codes, 2)
        n_significant += bool((found_by(x, y, order, 5).p_adjusted <= 0.05).any())
    assert n_significant <= 10


def test_find_interactions__additive_effects_are_not_significant():
    """Each feature shifts the log odds of the class on its own."""
    n_significant = 0
    for seed in range(100):
        rng, x, _ = random_codes(seed, 8, 2000, 3, 2)
        odds = 0.8 * (x[0] - 1.0) + 0.8 * (x[1] - 1.0) + 0.5 * (x[2] - 1.0)
        y = (rng.random(2000) < 1 / (1 + np.exp(-odds))).astype(np.uint8)
        n_significant += bool((found_by(x, y, 2, 5).p_adjusted <= 0.05).any())
    assert n_significant <= 10


def test_codes_of_order__is_the_largest():
    for order in (2, 3):
        for n in (50, 400, 5000, 100_000):
            b = codes_of_order(n, 3, order)
            assert 10 * 3 * (b + 1) ** order > n
            assert b == 2 or 10 * 3 * b**order <= n


def test_merged_codes__adjacent_codes_of_numbers():
    rng = np.random.default_rng(0)
    x = np.stack([rng.integers(0, 20, 999), rng.poisson(1.0, 999), np.arange(999) > 990])
    groups = merged_codes(problem_of(x, np.zeros(999, int)), 4)
    for row, group in zip(x, groups, strict=True):
        np.testing.assert_array_equal(group[row], oracle.merged(row, 4))


def test_merged_codes__rarest_categories_and_missing():
    x = np.repeat([[0, 1, 2, 3, 4]], [5, 30, 2, 40, 23], axis=1)
    nominal = merged_codes(problem_of(x, np.zeros(100, int), nominal=True), 3)
    assert nominal.tolist() == [[2, 0, 2, 1, 2]]
    missing = merged_codes(problem_of(x, np.zeros(100, int), missing=4), 3)
    assert missing.tolist() == [[0, 0, 0, 1, 2]]  # 36 of 77 samples up to the middle of code 2
    two = merged_codes(problem_of(x, np.zeros(100, int), missing=4), 2)
    assert two.tolist() == [[0, 0, 0, 1, 1]]


def parity(seed, n, m, causal, *, continuous):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, m)) if continuous else rng.integers(0, 2, (n, m))
    return x, (x[:, causal] > 0).sum(axis=1) % 2


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("causal", [[3, 17], [2, 9, 21]])
def test_interactions__parity_is_first(causal, continuous):
    x, y = parity(0, 5000, 30, causal, continuous=continuous)
    found = hd.interactions(x, y, order=len(causal), top=10)
    assert found.indices[0].tolist() == causal
    assert found.significant.tolist() == [True] + [False] * 9
    assert found.synergy[0] > 10 * found.synergy[1]


@pytest.mark.parametrize("order", [2, 3])
def test_interactions__same_answer_for_any_chunks_and_tiles(order, tmp_path):
    x, y = parity(1, 1500, 9, [0, 4, 7], continuous=True)
    x[::7, 2] = np.nan
    x[:, 5] = 1.0  # constant
    whole = hd.interactions(x, y, order=order, top=12)
    assert 5 not in whole.indices
    for number, chunks in enumerate([(64, 9), (1500, 1), (320, 4)]):
        codes = hd.encode(x, y, tmp_path / f"{number}.zarr", chunks=chunks)
        assert hd.interactions(codes, None, order=order, top=12) == whole


@pytest.mark.parametrize("order", [2, 3])
def test_interactions__same_answer_on_a_cluster(order, tmp_path):
    from distributed import Client

    x, y = parity(1, 1500, 9, [0, 4, 7], continuous=True)
    codes = hd.encode(x, y, tmp_path / "codes.zarr", chunks=(320, 4))
    alone = hd.interactions(codes, None, order=order, top=12)
    with Client(n_workers=2, processes=False, dashboard_address="127.0.0.1:0"):
        assert hd.interactions(codes, None, order=order, top=12) == alone


def screened(problem, order, top, x, y, share):
    grouped = answered(group_codes(problem, order, share=share), x, y)
    work = TupleSearch(problem, order, top, grouped, share, recount=True)
    return answered(work.run(work.start()), x, y)


@pytest.mark.parametrize(("order", "m"), [(2, 60), (3, 22)])
def test_tuple_search__screened_tuples_are_counted_on_all_samples(order, m, monkeypatch):
    monkeypatch.setattr(interactions, "KEPT", 100)
    rng, x, y = random_codes(5, m, 6000, 3, 2)
    for members, share in [((4, 11, 17), 0.5), ((2, 9, 21), 0.4)]:
        cause = sum(x[i] for i in members[:order]) % 2
        y = np.where(rng.random(6000) < share, cause, y).astype(np.uint8)
    full = found_by(x, y, order, 10**6)
    exact = {
        tuple(c): (s, p) for c, s, p in zip(full.columns, full.synergy, full.p_value, strict=True)
    }
    problem = replace(problem_of(x, y), tile_width=7)
    found = screened(problem, order, 10, x, y, 0.3)
    assert len(found.columns) == 10
    assert 1700 < found.n_screened < 1900
    assert found.n_tuples == full.n_tuples
    for columns, synergy, p in zip(found.columns, found.synergy, found.p_value, strict=True):
        assert (synergy, p) == pytest.approx(exact[tuple(columns)], rel=1e-9, abs=1e-12)
    sure = full.synergy >= found.smallest
    assert sure.any()
    np.testing.assert_array_equal(found.columns[: sure.sum()], full.columns[sure][:10])


def test_surely_found__share_of_misses():
    """Tables with synergy; a tenth of the estimates is below the threshold."""
    rng, n, miss, least = np.random.default_rng(0), 3000, 0.1, 0.004
    target = surely_found(n, 4, least, miss)
    u = np.array([-1.0, 0.0, 1.0])
    shape = np.stack([np.outer(u, u), -np.outer(u, u)], axis=-1)
    low, high = 0.0, 0.9
    for _ in range(50):  # the effect whose synergy is the target
        middle = (low + high) / 2
        p = (1 + middle * shape) / 18
        low, high = (middle, high) if oracle.synergy(p) < target else (low, middle)
    out = fitted_terms(rng.multinomial(n, p.ravel(), size=4000).reshape(4000, *p.shape))
    assert 0.075 < (out[:, 0] < least).mean() < 0.125


def test_surely_found__no_threshold():
    assert surely_found(1000, 4, 0.0) == 0.0


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("below", [ALL_HASHES, ALL_HASHES // 3])
def test_tuples__same_counts_sample_by_sample(weighted, below, monkeypatch):
    rng, x, y = random_codes(4, 7, 1001, 9, 3)
    weights = rng.integers(1, 300, 1001 if weighted else 0).astype(np.uint16)
    groups = rng.integers(0, 5, (7, 9)).astype(np.uint8)
    context = TupleContext(
        order=2,
        below=below,
        top=1,
        least=0.0,
        evidence=1.0,
        heads=np.array([[0], [2]]),
        columns=np.array([1, 2, 4]),
        column_groups=groups[[1, 2, 4]],
        column_counts=np.zeros((3, 3, 5), np.int64),
        position=np.arange(7),
        usable=np.ones(7, bool),
        groups=groups,
        counts=np.zeros((7, 3, 5), np.int64),
    )
    whole = Tile.of(x)
    columns = whole.only(context.columns)
    block = Block(whole, columns, y, np.zeros(1001, np.uint8), weights=weights, start=50)
    found = []
    for least in (0, 100):
        monkeypatch.setattr(tuples, "HISTOGRAM_GROUPS", least)
        found.append(TUPLES.identity(context, 7))
        for _ in range(2):  # counts are added to those of earlier blocks
            TUPLES.chunk(context, block, found[-1])
    of_first = found[0]["joint"][:, 1 * 4 :, 5 * 4 :]  # column 4 with features 5 and 6
    assert of_first.any()
    # sets also count some pairs that no head needs
    for h, first in enumerate(context.first):
        some = (slice(None), slice(4 * h, 4 * h + 4), slice(4 * first, None))
        np.testing.assert_array_equal(found[0]["joint"][some], found[1]["joint"][some])


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_add_tables__equals_counts_of_each_cell(order, weighted):
    rng = np.random.default_rng(0)
    x, features = (rng.integers(0, 5, (k, 300)).astype(np.uint8) for k in (3, 4))
    column_groups, groups = (rng.integers(0, 3, (k, 5)).astype(np.uint8) for k in (3, 4))
    y = rng.integers(0, 2, 300).astype(np.uint8)
    weights = rng.integers(1, 9, 300 if weighted else 0).astype(np.uint16)
    chosen = np.array([[0, 2, 3], [1, 2, 0]])[:, 3 - order :]
    tables = np.zeros((2, 3**order * 2), np.int64)
    given = frozen((x, features, chosen.copy(), column_groups, groups, y, weights))
    add_tables(*given, 3, 2, tables)
    for row, members in zip(tables, chosen, strict=True):
        expected = np.zeros((*[3] * order, 2), np.int64)
        codes = [column_groups[i][x[i]] for i in members[:-1]]
        codes.append(groups[members[-1]][features[members[-1]]])
        np.add.at(expected, (*codes, y), weights if weighted else 1)
        np.testing.assert_array_equal(row, expected.ravel())
    before = tables.copy()
    none = (x[:, :0], features[:, :0], chosen, column_groups, groups, y[:0], weights[:0])
    add_tables(*(np.ascontiguousarray(each) for each in none), 3, 2, tables)
    np.testing.assert_array_equal(tables, before)


def test_planned_tuples__as_the_run():
    sizes = Sizes(100_000, 20_000, 2, 3, 0, 1024)
    work = planned_tuples(sizes, 2, 100)
    assert work.n_tuples == 199_990_000
    assert work.n_drawn == 2**15
    assert work.recount
    assert 0.0005 < work.expected_smallest < 0.004
    assert planned_tuples(sizes, 2, 100, exhaustive=True).n_drawn == 100_000


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("order", [2, 3])
def test_interactions__resumes_from_a_checkpoint(order, tmp_path, monkeypatch):
    monkeypatch.setattr(interactions, "PANEL_BYTES", 2000)
    monkeypatch.setattr(interactions, "KEPT", 20)
    monkeypatch.setattr(interactions, "KEPT_SHARE", 2)
    monkeypatch.setattr(interactions, "SCREENED", 900)
    monkeypatch.setattr(interactions, "MOST_WORDS", 0)
    x, y = parity(1, 2000, 9, [0, 4, 7], continuous=True)
    codes = hd.encode(x, y, tmp_path / "codes.zarr", chunks=(320, 4))
    events = []
    whole = hd.interactions(codes, None, order=order, top=5, callback=events.append)
    panels = [event for event in events if isinstance(event, hd.PanelsAdvanced)]
    assert [event.n_ended for event in panels] == list(range(panels[0].n_panels + 1))
    assert panels[0].n_panels > 2
    assert panels[0].n_drawn < panels[0].n_samples == 2000
    assert whole.smallest_synergy > 0
    n_scans = [0]

    def interrupt(event):
        if isinstance(event, hd.ScanEnded):
            n_scans[0] += 1
            if n_scans[0] == allowed:
                raise StoppedError

    options = {"order": order, "top": 5, "checkpoint": tmp_path / "kept"}
    n_runs, allowed = 0, 4  # a resumed run counts the groups first
    while True:
        n_runs, n_scans[0] = n_runs + 1, 0
        try:
            resumed = hd.interactions(codes, None, callback=interrupt, **options)
        except StoppedError:
            continue
        break
    assert n_runs > 2
    assert resumed == whole
    with pytest.raises(ValueError, match=r"belongs to another run: top: 5 in the checkpoint, 6"):
        hd.interactions(codes, None, **options | {"top": 6})


def test_interactions__excluded_features_are_in_no_tuple():
    x, y = parity(0, 500, 5, [0, 1], continuous=False)
    found = hd.interactions(x, y, exclude=["x0"])
    assert not any("x0" in names for names in found)
    assert len(found) == 6


def test_interactions__too_few_features():
    x, y = parity(0, 500, 3, [0, 1], continuous=False)
    for call in (hd.interactions, hd.estimate):
        with pytest.raises(ValueError, match="order is 3 but there are only 2 features that are"):
            call(x, y, order=3, exclude=["x2"])
        with pytest.raises(ValueError, match="top is 0; give 1 or more"):
            call(x, y, order=2, top=0)


def test_estimate__of_interactions_or_of_a_selection():
    x, y = parity(0, 500, 3, [0, 1], continuous=False)
    with pytest.raises(ValueError, match="n_features is 2 and order is 2; give n_features for"):
        hd.estimate(x, y, 2, order=2)
    text = str(hd.estimate(x, y, order=3))
    assert text.startswith("triples of 3 features; 500 samples, 2 classes")
    assert "1 triple on 500 samples" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": 4}, "order is 4; give 2 for pairs or 3 for triples"),
        ({"order": 2.0}, "order is 2.0; give 2 for pairs or 3 for triples"),
        ({"top": 0}, "top is 0; give 1 or more"),
        ({"order": 3, "exclude": ["x0"]}, "order is 3 but only 2 of"),
    ],
)
def test_interactions__bad_options(options, message, tmp_path):
    x, y = parity(0, 500, 4, [0, 1], continuous=False)
    x[:, 3] = 1
    codes = hd.encode(x, y, tmp_path / "codes.zarr")
    with pytest.raises(ValueError, match=message):
        hd.interactions(codes, None, **options)


def test_groups__named_column_is_in_no_tuple():
    rng = np.random.default_rng(3)
    data = {f"x{i}": rng.normal(size=600) for i in range(4)}
    y = (data["x0"] > 0) ^ (data["x1"] > 0)
    data["subject"] = np.arange(600) // 30
    found = hd.interactions(data, y, groups="subject")
    alone = hd.interactions({name: data[name] for name in list(data)[:4]}, y)
    assert found.tuples == alone.tuples
    assert found.tuples[0] == ("x0", "x1")
