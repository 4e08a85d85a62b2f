"""VMI on arrays, with reductions over one block: no store, no cluster."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp

from hofs_dask.engine.budget import size_of
from hofs_dask.engine.reduction import Block, Tile
from hofs_dask.methods.base import Sizes
from hofs_dask.methods.problem import Problem
from hofs_dask.methods.vmi import VMI, VariationalInformation

LOG_2 = np.log(2.0)
FORMS = pytest.mark.parametrize("form", ["naive", "pairwise"])


def work_on(x, y, form, restart=0.01):
    """Return the search on columns of codes, and the samples as a block."""
    n_codes, n_classes = x.max() + 1, y.max() + 1
    folds = np.arange(len(y)) % 4
    counts = np.zeros((x.shape[1], 4, n_classes, n_codes), np.int64)
    for i, column in enumerate(x.T):
        np.add.at(counts[i], (folds, y, column), 1)
    problem = Problem(
        n_codes=np.full(x.shape[1], n_codes),
        missing_code=np.full(x.shape[1], -1),
        nominal=np.zeros(x.shape[1], bool),
        values=np.tile(np.arange(n_codes, dtype=float), (x.shape[1], 1)),
        counts=counts,
        label_kind="class",
        label_values=np.arange(n_classes, dtype=float),
    )
    codes = np.ascontiguousarray(x.T, dtype=np.uint8)
    block = Block(Tile.of(codes), Tile.of(codes[:0]), y.astype(np.uint8), folds.astype(np.uint8))
    return VariationalInformation(problem, VMI(form=form, restart=restart)), block


def driven(steps, block):
    """Return the result of a generator of requests, and the requests."""
    total, asked = None, []
    while True:
        try:
            request = steps.send(total)
        except StopIteration as stop:
            return stop.value, asked
        asked.append(request)
        reduction, context = request.reduction, request.context
        part = reduction.identity(context, len(block.codes))
        samples = replace(block, columns=Tile.of(block.codes[list(request.columns)]))
        reduction.chunk(reduction.prepare(context), samples, part)
        total = reduction.finalize(context, part)


def after(work, block, picks):
    """Return the state after these picks, and the scores of the next round."""
    state = work.start()
    for pick in picks:
        (state, scores), _ = driven(work.score(state), block)
        state = work.add(state, scores, pick, 0)
    (state, scores), _ = driven(work.score(state), block)
    return state, scores.score


def bound(x, y, picks, form):
    """Return H(y) + the mean log posterior of the true class, computed directly."""
    classes, sizes = np.unique(y, return_counts=True)
    logs = np.tile(np.log(sizes / len(y)), (len(y), 1))
    entropy = -(sizes / len(y) * np.log(sizes / len(y))).sum()

    def log_share(target, given):
        """Return log p(x_target | x_given, c) of every sample and class."""
        shares = np.zeros((len(y), len(classes)))
        for s, c in np.ndindex(shares.shape):
            alike = (y == c) & (x[:, given] == x[s, given]).all(axis=1)
            if alike.any():
                shares[s, c] = np.mean(x[alike, target] == x[s, target])
        with np.errstate(divide="ignore"):
            return np.log(shares)

    for t, pick in enumerate(picks):
        parents = [[earlier] for earlier in picks[:t]] if form == "pairwise" and t else [[]]
        logs += np.mean([log_share(pick, given) for given in parents], axis=0)
    truth = logs[np.arange(len(y)), y] - logsumexp(logs, axis=1)
    return entropy + truth.mean()


def random_data(seed, n_classes):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, 90)
    x = rng.integers(0, 3, (90, 4))
    x[:, 1] = np.where(rng.random(90) < 0.7, y % 3, x[:, 1])
    x[:, 2] = (x[:, 0] + y + (rng.random(90) < 0.2)) % 3
    x[:, 3] = np.minimum(x[:, 1], 1)
    return x, y


@FORMS
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("picks", [[], [1], [0, 1], [2, 0, 1]])
def test_score__is_the_bound_with_the_feature_added(form, n_classes, picks):
    x, y = random_data(n_classes, n_classes)
    state, scores = after(*work_on(x, y, form), picks)
    for i in range(4):
        assert scores[i] == pytest.approx(bound(x, y, [*picks, i], form), abs=1e-12), i
    assert state.information == pytest.approx(bound(x, y, picks, form), abs=1e-12)


@FORMS
def test_copy_of_the_label__has_all_information_despite_zeros_in_its_tables(form):
    x, y = random_data(0, 2)
    x[:, 0] = y
    state, scores = after(*work_on(x, y, form), [0, 1])
    entropy = -sum(p * np.log(p) for p in (np.mean(y), 1 - np.mean(y)))
    assert state.information == pytest.approx(entropy, abs=1e-12)
    np.testing.assert_allclose(scores, entropy, atol=1e-12)


def test_xor__is_found_only_by_the_pairwise_form():
    x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 5)
    y = x[:, 0] ^ x[:, 1]
    for form, expected in (("naive", 0.0), ("pairwise", LOG_2)):
        _, scores = after(*work_on(x, y, form), [0])
        assert scores[1] == pytest.approx(expected, abs=1e-12)


def test_posterior_of_many_copies__is_correct_despite_underflow():
    """The last sample has class 1 and looks like class 0 in every copy; x_250 excludes class 0."""
    n, n_copies = 200, 250
    y = np.repeat([0, 1], n // 2)
    copied, last = y.copy(), np.zeros(n, int)
    copied[[0, -1]] = 1, 0
    last[-1] = 1
    x = np.column_stack([np.tile(copied[:, None], n_copies), last])
    work, block = work_on(x, y, "naive")
    (state, scores), _ = driven(work.score(work.start()), block)
    for copy in range(n_copies):
        state = work.add(state, scores, copy, 0)
    learned = np.zeros((n_copies, n_copies + 1))
    state = replace(state, affinity=learned, redundancy=learned, information=0.0)
    (_, scores), _ = driven(work.score(state), block)
    logs = n_copies * np.log(np.where(copied[:, None] == [0, 1], 0.99, 0.01))
    before = logs[np.arange(n), y] - logsumexp(logs, axis=1)
    assert before[-1] < np.log(1e-308)
    with np.errstate(divide="ignore"):
        logs += np.log(np.where(last[:, None] == 0, [1.0, 0.99], [0.0, 0.01]))
    now = logs[np.arange(n), y] - logsumexp(logs, axis=1)
    assert now[-1] == 0
    assert scores.score[-1] == pytest.approx((now - before).mean(), rel=1e-12)


@FORMS
def test_restart__resets_the_posterior_and_keeps_pair_statistics(form):
    x, y = random_data(3, 2)
    work, block = work_on(x, y, form, restart=0.5)
    state, _ = after(work, block, [1, 0])
    scores = driven(work.score(state), block)[0][1]
    candidates = np.ones(x.shape[1], bool)
    for gain, exhausted in ((0.4, True), (0.5, False), (0.6, False)):
        found = replace(scores, gain=np.full(x.shape[1], gain))
        assert work.is_exhausted(found, 0, candidates) is exhausted
    fresh = work.restart(state, scores)
    assert (fresh.epoch, fresh.information, fresh.rows, fresh.picks) == (1, 0.0, (), ())
    assert fresh.chosen == (1, 0)
    np.testing.assert_array_equal(fresh.affinity, state.affinity)
    np.testing.assert_array_equal(fresh.redundancy, state.redundancy)
    (_, scores), asked = driven(work.score(fresh), block)
    assert [request.columns for request in asked] == [()]
    np.testing.assert_allclose(scores.score, work.problem.relevance, atol=1e-12)


@FORMS
def test_pair_statistics__are_correlations_and_informations(form):
    x, y = random_data(4, 3)
    work, block = work_on(x, y, form)
    state, _ = after(work, block, [2])
    np.testing.assert_allclose(state.affinity[0], np.corrcoef(x.T)[2], atol=1e-12)

    def entropy(*columns):
        shares = np.unique(np.column_stack(columns), axis=0, return_counts=True)[1] / len(y)
        return -(shares * np.log(shares)).sum()

    pairs = [entropy(x[:, i]) + entropy(x[:, 2]) - entropy(x[:, i], x[:, 2]) for i in range(4)]
    np.testing.assert_allclose(state.redundancy[0], pairs, atol=1e-12)


@FORMS
def test_largest_requests__have_the_sizes_of_the_last_round(form):
    x, y = random_data(5, 3)
    work, block = work_on(x, y, form)
    state, _ = after(work, block, [0])
    (state, scores), _ = driven(work.score(state), block)
    state = work.add(state, scores, 1, 0)
    _, asked = driven(work.score(state), block)
    planned = work.options.largest_requests(Sizes(60, 4, 3, 3, n_picks=2))
    assert [p.reduction for p in planned] == [request.reduction for request in asked]
    assert [len(p.columns) for p in planned] == [len(request.columns) for request in asked]
    for plan, request in zip(planned, asked, strict=True):
        assert size_of(plan.context) >= size_of(request.context)
