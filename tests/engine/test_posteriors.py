"""Gains of posterior rows against direct formulas in logarithms, moderate and extreme."""

import numpy as np
import pytest
from scipy.special import logsumexp

from hofs_dask.engine import posteriors
from hofs_dask.engine.posteriors import (
    GROUPS,
    KINDS,
    POSTERIOR_GAINS,
    CandidateRows,
    CoarseRow,
    GainsContext,
    LinearTerm,
    PosteriorRow,
)
from hofs_dask.engine.reduction import N_PARTS, Block, Tile

N, M, B, K = 300, 4, 5, 2


def log_density(row, fold, values, codes, numbers, logistic):
    """Return log densities (sample, class), zero for missing codes."""
    parents, slopes, shifts, scales = row
    used = parents[parents >= 0]
    mean = np.einsum("scp,ps->sc", slopes[fold][:, :, : len(used)], numbers[used])
    signal = scales[fold] * (values[codes][:, None] - shifts[fold] - mean)
    size = np.abs(signal)
    logs = -size - 2 * np.log1p(np.exp(-size)) if logistic else -(signal**2) / 2
    return np.where(np.isnan(values[codes])[:, None], 0.0, logs)


@pytest.mark.parametrize("logistic", [True, False])
@pytest.mark.parametrize("n_folds", [1, 4])
@pytest.mark.parametrize("extreme", [1.0, 100.0])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("few_cells", [True, False])
def test_posterior_gains__agree_with_direct_formulas(
    monkeypatch, logistic, n_folds, extreme, n_classes, few_cells
):
    monkeypatch.setattr(posteriors, "BLOCK", 64)  # several pieces
    if not few_cells:
        monkeypatch.setattr(
            posteriors,
            "_few_cells",
            lambda asked: np.zeros(len(asked.candidates.parents), bool),
        )
    rng = np.random.default_rng(0)

    def draw(high, *shape):
        return rng.integers(0, high, shape).astype(np.uint8)

    block = Block(
        Tile.of(draw(B, M, N)), Tile.of(draw(B, K, N)), draw(n_classes, N), draw(N_PARTS, N)
    )
    fold = block.folds if n_folds == 4 else np.zeros(N, int)
    labels, (first, second) = block.labels, block.columns.codes
    tables = rng.uniform(0.1, 1.0, (M, 2, n_folds, n_classes, B))
    pairs = rng.uniform(0.1, 1.0, (M, 1, n_folds, n_classes, B, B)) ** extreme
    values = rng.normal(size=(M, B)) * extreme
    values[:, 0] = np.nan
    slopes, shifts = (
        rng.normal(size=(2, M, 2, n_folds, n_classes, 2)),
        rng.normal(size=(M, 2, n_folds, n_classes)),
    )
    slopes, scales = slopes[0], slopes[1, ..., 0] ** 2
    parents, numbers = np.array([[0, 1], [1, -1], [-1, -1], [0, -1]]), rng.normal(size=(K, B))
    fit = (np.array([0]), slopes[1, 1, ..., :1].copy(), shifts[1, 1], scales[1, 1])
    rows = (
        PosteriorRow("table", 0, np.zeros(0, int), np.log(tables[0, :1])),
        PosteriorRow("class", 1, fit[0], np.log(tables[1, :1]), LinearTerm(values[1], *fit[1:])),
    )
    number = np.stack([numbers[0][first], numbers[1][second]])
    prior = np.log(np.full(n_classes, 1 / n_classes))
    before = prior + np.log(tables[0, 0])[fold, :, first] + np.log(tables[1, 0])[fold, :, second]
    before += log_density(fit, fold, values[1], second, number, logistic)

    def truth(logs):
        return (logs[np.arange(N), labels] - logsumexp(logs, axis=1)).mean()

    def by_fold(logs):
        true = logs[np.arange(N), labels]
        return np.array([true[fold == each].sum() / N for each in range(n_folds)])

    coarse = {
        i: CoarseRow(
            np.array(columns),
            draw(GROUPS, len(columns), B),
            rng.uniform(0.1, 1.0, (n_folds, n_classes, GROUPS ** len(columns) * B)) ** extreme,
        )
        for i, columns in ((1, [1]), (2, [1, 0]))
    }
    expected, of_tables = np.zeros((M, len(KINDS))), np.zeros((M, len(KINDS), n_folds))
    for i, codes in enumerate(block.codes):
        added = {"table": np.log(tables[i, 0])[fold, :, codes]}
        of_tables[i, 0] = by_fold(added["table"])
        if parents[i, 0] >= 0:
            for place, kind in enumerate(("shared", "class")):
                row = (parents[i], slopes[i, place], shifts[i, place], scales[i, place])
                table = np.log(tables[i, place])[fold, :, codes]
                of_tables[i, 1 + place] = by_fold(table)
                added[kind] = table + log_density(row, fold, values[i], codes, number, logistic)
            added["pair"] = np.log(pairs[i, 0])[fold, :, second, codes]
            of_tables[i, 3] = by_fold(added["pair"])
        if i in coarse:
            cells = np.zeros(N, int)
            for parent, group in zip(coarse[i].parents, coarse[i].groups, strict=True):
                cells = GROUPS * cells + group[block.columns.codes[parent]]
            added["coarse"] = np.log(coarse[i].table[fold, :, cells * B + codes])
            of_tables[i, 4] = by_fold(added["coarse"])
        for kind, logs in added.items():
            expected[i, KINDS.index(kind)] = truth(before + logs) - truth(before)
    rows_of = CandidateRows(
        linear=("shared", "class"),
        table=tables[:, 0].copy(),
        values=values,
        parents=parents,
        linear_table=tables,
        slopes=slopes,
        shifts=shifts,
        scales=scales,
        pair_parents=np.array([[2], [2], [-1], [2]]),
        pair_table=pairs.reshape(M, 1, n_folds, n_classes, B * B),
        coarse=tuple(coarse.values()),
        coarse_place=np.array([-1, 0, 1, -1]),
        truth=of_tables,
    )

    def gains(parts, *, squares, wanted=np.ones(M, bool), narrow=False):  # noqa: B008
        context = GainsContext(
            prior=prior,
            rows=rows,
            numbers=numbers,
            logistic=logistic,
            total=N,
            parts=parts,
            squares=squares,
            candidates=rows_of,
            wanted=wanted,
        )
        if narrow:  # as it is sent to tasks
            context = POSTERIOR_GAINS.narrow(context)
            assert len(context.candidates.table) == len(context.wanted) == wanted.sum()
        total = POSTERIOR_GAINS.identity(context, M)
        POSTERIOR_GAINS.chunk(POSTERIOR_GAINS.prepare(context), block, total)
        return POSTERIOR_GAINS.finalize(context, total)["gain"]

    everything = tuple(range(N_PARTS))
    if n_folds == 4:  # the parts of one fold, and the rest
        found = gains((1, 5), squares=True) + gains((9,), squares=True)
        found += gains(tuple(set(everything) - {1, 5, 9}), squares=True)
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)
    found = gains(everything, squares=True)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)
    found = gains(everything, squares=False)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)
    for wanted in np.array([[1, 0, 1, 0], [0, 0, 0, 1], [1, 1, 1, 1]], bool):
        for squares in (False, True):
            found = gains(everything, squares=squares, wanted=wanted, narrow=True)
            some = np.where(wanted[:, None], expected, 0.0)
            np.testing.assert_allclose(found, some, rtol=1e-11, atol=1e-11)
