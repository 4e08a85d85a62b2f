"""HOFS with the criteria `sum` and `mean`: the paper's forward search over ICA rows."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hofs_dask.engine.counts import PAIR_COUNTS, PairContext
from hofs_dask.engine.reduction import Partial, Request, placeholder
from hofs_dask.engine.rows import ROW_TERMS, ROW_VALUES, RowTermsContext, RowValuesContext
from hofs_dask.kernels.entropy import information
from hofs_dask.kernels.rows import (
    MAX_STEPS,
    Chain,
    gaussian_entropy,
    least_squares,
    logistic_start,
)
from hofs_dask.methods.affinity import correlation, gram_row, within_classes
from hofs_dask.methods.base import ReductionBound, Scores, Search, Sizes, State
from hofs_dask.methods.fields import Floats, checked
from hofs_dask.methods.problem import Problem, count_pairs, to_unit_scale

if TYPE_CHECKING:
    from hofs_dask.methods.hofs import HOFS

#: A cell is a combination of a class and codes. ICA rows are fitted to the counts of cells if there
#: are at least `CELL_SAMPLES` samples per cell or at most `FEW_CELLS` cells. They are fitted to the
#: samples otherwise, and if there are more than `MOST_CELLS` cells, to limit memory.
CELL_SAMPLES, FEW_CELLS, MOST_CELLS = 32, 2**12, 2**15
#: Minimum number of codes of a feature that can be chosen.
LEAST_CODES = 2


@dataclass(frozen=True, kw_only=True)
class TotalState(State):
    """The state of a search with the criterion `sum` or `mean` after some rounds.

    ``information`` is the sum of ``known``.
    """

    # (rank, feature, class) sums of products of the values of a pick and a feature
    gram: np.ndarray = checked(Floats(("learned", "feature", "class")))
    alone: np.ndarray = checked(Floats(("feature",), or_empty=True))  # (feature,) h(y | x_i)
    terms: np.ndarray = checked(Floats(("subset", "feature")))  # I(X_j : y | x_i), X_j: a subset
    known: np.ndarray = checked(Floats(("subset",)))  # I(X_j : y)


@dataclass(frozen=True)
class Total(Search[TotalState, Scores]):
    """The search with the HOFS criteria `sum` and `mean`, computed by ICA.

    `sum` is ``I(x_i:y) + sum_j I(X_j:y|x_i)`` over the subsets ``X_j``. `mean` divides the sum over
    subsets by the number of chosen features. For the ICA rows, see `kernels.rows.Chain`.
    """

    problem: Problem
    options: HOFS

    def start(self) -> TotalState:
        """Return the state before the first round."""
        n_features, n_classes = self.problem.n_features, self.problem.n_classes
        return TotalState(
            chosen=(),
            subsets=(),
            affinity=np.zeros((0, n_features)),
            redundancy=np.zeros((0, n_features)),
            gram=np.zeros((0, n_features, n_classes)),
            alone=np.zeros(0),
            terms=np.zeros((0, n_features)),
            known=np.zeros(0),
            information=0.0,
            epoch=0,
        )

    @staticmethod
    def largest_requests(sizes: Sizes) -> tuple[Request, ...]:
        """Return the requests of a search that need the most memory; their arrays hold zeros."""
        m, c, b, k = sizes.n_features, sizes.n_classes, sizes.n_codes, sizes.n_picks
        rows, values = placeholder(m, c - 1, k + c + 1), placeholder(m, b)
        n_cells = max(MOST_CELLS // (c * b), 1)
        counted = RowValuesContext(
            placeholder(k, b), (n_cells,), placeholder(c, c - 1), 0, values, rows
        )
        wanted = np.broadcast_to(np.True_, (m, c - 1))
        stepped = RowTermsContext(placeholder(k, b), c, 0, values, rows, wanted)
        return (
            Request(PAIR_COUNTS, PairContext(c, b, by_fold=False), (0,)),
            Request(ROW_VALUES, counted, tuple(range(k))),
            Request(ROW_TERMS, stepped, tuple(range(k))),
        )

    @staticmethod
    def bound_reductions(sizes: Sizes, *, on_samples: bool) -> ReductionBound:
        """Return the maximum number of reductions of a search, besides the marginal counts.

        Parameters
        ----------
        sizes
            Sizes of the problem and the search.
        on_samples
            Whether rows are fitted iteratively, to samples or counts. If False, they are computed
            from moments.

        Notes
        -----
        Counting a pick with every feature takes one reduction. If the pick is alone in its subset,
        the rows of the subset are fitted to these counts. The rows of a larger subset take one more
        reduction if the codes of its members form few cells, and otherwise one more reduction per
        Newton step. No subset is larger than the number of picks.

        Examples
        --------
        >>> Total.bound_reductions(Sizes(1000, 20, 2, 5, n_picks=3), on_samples=True).by_name
        {'pair-counts': 3, 'row-values': 2, 'row-terms': 0}
        """
        by_name = {PAIR_COUNTS.name: sizes.n_picks}
        if not on_samples:
            return ReductionBound(by_name, sizes.n_picks)
        table, most = sizes.n_classes * sizes.n_codes, largest_table(sizes.n_samples)
        values = terms = in_all = 0
        for n_members in range(2, sizes.n_picks + 1):
            few = LEAST_CODES**2 * table <= most
            many = sizes.n_codes**n_members * table > most
            values += few
            terms += MAX_STEPS * many
            in_all += MAX_STEPS if many else 1
        by_name |= {ROW_VALUES.name: values, ROW_TERMS.name: terms}
        return ReductionBound(by_name, sizes.n_picks + in_all)

    def score(self, state: TotalState) -> Generator[Request, Partial, tuple[TotalState, Scores]]:
        """Yield the requests of a round; return the updated state and the scores of features."""
        problem = self.problem
        if state.chosen and not len(state.alone):
            state = replace(state, alone=(yield from self._label_entropy(state, ())))
        if len(state.affinity) < len(state.chosen):
            pair_counts = (yield count_pairs(problem, state.chosen[-1], by_fold=False))["counts"]
            state = self._learned(state, pair_counts)
            changed = state.subsets[-1]
            members = tuple(rank for rank, subset in enumerate(state.subsets) if subset == changed)
            joint = yield from self._label_entropy(state, members, pair_counts[:, 0])
            terms = _set(state.terms, changed, np.maximum(state.alone - joint, 0.0))
            # a member of the subset X_j adds nothing as a candidate, so its value is h(y | X_j)
            alone = max(self._bare_entropy() - float(joint[state.chosen[-1]]), 0.0)
            known = _set(state.known, changed, alone)
            state = replace(state, terms=terms, known=known, information=float(known.sum()))
        sums = state.terms.sum(axis=0)
        known = problem.relevance + sums
        score = known
        if self.options.criterion == "mean" and state.chosen:
            score = problem.relevance + sums / len(state.chosen)
        return state, Scores(score, known, known - state.information)

    def add(
        self,
        state: TotalState,
        scores: Scores,  # noqa: ARG002
        pick: int,
        subset: int,
    ) -> TotalState:
        """Return the state after a feature has been chosen."""
        return replace(
            state,
            chosen=(*state.chosen, pick),
            subsets=(*state.subsets, subset),
        )

    def _learned(self, state: TotalState, counts: np.ndarray) -> TotalState:
        """Return the state after the last pick has been counted with every feature."""
        problem, pick = self.problem, state.chosen[-1]
        measure = within_classes if self.options.affinity == "within" else correlation
        numbers = problem.filled
        gram = gram_row(counts, numbers[pick], numbers)[:, 0]
        affinity = measure(problem, counts, pick)
        return replace(
            state,
            affinity=np.vstack([state.affinity, affinity]),
            redundancy=np.vstack([state.redundancy, information(counts.sum(axis=(1, 3)))]),
            gram=np.concatenate([state.gram, gram[None]]),
        )

    def _label_entropy(
        self, state: TotalState, members: tuple[int, ...], pair_counts: np.ndarray | None = None
    ) -> Generator[Request, Partial, np.ndarray]:
        """Yield requests; return h(y | members, x_i) of every feature x_i, (feature,).

        It is computed from the ICA rows of the label columns. If there is only one member,
        ``pair_counts`` (feature, member code, class, code) are used instead of a request.
        """
        moments = self._moments(state, members)
        if self.options.source == "gaussian":
            variances = np.stack([least_squares(matrix)[1] for matrix in moments])
            total: np.ndarray = gaussian_entropy(variances).sum(axis=0)
            return total
        problem, numbers = self.problem, self.problem.filled
        theta = [logistic_start(matrix) for matrix in moments]
        chosen = tuple(state.chosen[rank] for rank in members)
        sizes = tuple(problem.n_codes[list(chosen)].tolist())
        chain = Chain.start(theta, self._label_columns)
        if not members:
            counts = problem.counts.sum(axis=1)[..., None]
            return chain.solve(counts, np.zeros((0, 1)), numbers).value
        if len(members) == 1 and pair_counts is not None:
            counts = np.ascontiguousarray(pair_counts.transpose(0, 2, 3, 1))
            return chain.solve(counts, numbers[list(chosen)], numbers).value
        given = numbers[list(chosen)]
        n_cells = math.prod(sizes) * problem.n_classes * problem.table_width
        if n_cells <= largest_table(problem.n_samples):
            starts = np.zeros((problem.n_features, len(theta), theta[-1].shape[1]))
            for r, rows in enumerate(theta):
                starts[:, r, : rows.shape[1]] = rows
            context = RowValuesContext(
                given, sizes, self._label_columns, problem.total, numbers, starts
            )
            value: np.ndarray = (yield Request(ROW_VALUES, context, chosen))["value"]
            return value
        for _ in range(MAX_STEPS):
            step = RowTermsContext(
                given, problem.n_classes, problem.total, numbers, chain.trial, chain.wanted
            )
            means = yield Request(ROW_TERMS, step, chosen)
            chain = chain.advance(means["value"], means["gradient"], means["hessian"])
            # When the steps are done, the remaining error is below the rounding error. Chunking may
            # therefore change the number of steps, but not the result.
            if chain.done:
                break
        return chain.value

    def _bare_entropy(self) -> float:
        """Return h(y), computed from the rows of the label columns without any feature."""
        labels, sizes = self._label_columns, self.problem.class_counts.sum(axis=0)
        shares, total = sizes / self.problem.total, 0.0
        theta = []
        for r in range(labels.shape[1]):
            columns = np.column_stack([labels[:, r], -np.ones(len(labels)), -labels[:, :r]])
            moments = np.einsum("c,cu,cv->uv", shares, columns, columns)[None]
            if self.options.source == "gaussian":
                total += gaussian_entropy(least_squares(moments)[1])[0]
                continue
            theta.append(np.append(logistic_start(moments), np.zeros((1, 1)), axis=1))
        if theta:
            # the kernel needs a candidate; one that is always 0 has no effect
            counts, none = sizes[None, :, None, None], np.zeros((1, 1))
            total = Chain.start(theta, labels).solve(counts, none[:0], none).value[0]
        return float(total)

    @cached_property
    def _label_columns(self) -> np.ndarray:
        """The label as standardized numeric columns, with one value per class, (class, column)."""
        problem = self.problem
        coding = self.options.label_coding
        if coding == "auto":
            coding = "indicator" if problem.label_kind == "class" else "ordinal"
        shares = problem.class_counts.sum(axis=0) / problem.total
        columns = (
            np.eye(problem.n_classes)[:, self._class_order[:-1]]
            if coding == "indicator"
            else to_unit_scale(problem.label_values)[:, None]
        )
        columns = columns - shares @ columns
        spread = np.sqrt(shares @ columns**2)
        result: np.ndarray = columns / np.where(spread > 0, spread, 1.0)
        return result

    @cached_property
    def _class_order(self) -> list[int]:
        """The classes by decreasing frequency; ties are ordered by the counts of all features.

        The order does not depend on the names of the classes.
        """
        counts = self.problem.counts.sum(axis=1)
        # big-endian bytes sort like the counts
        tables = [counts[:, c].astype(">i8").tobytes() for c in range(self.problem.n_classes)]
        sizes = self.problem.class_counts.sum(axis=0)
        return sorted(range(len(tables)), key=lambda c: (-sizes[c], tables[c]))

    def _moments(self, state: TotalState, members: tuple[int, ...]) -> list[np.ndarray]:
        """Return the second moments of the columns of each row (see `Chain`), one array per row.

        An array has the axes (feature, column, column). The moments of ``p = [1, members, x_i]``
        within each class are computed from counts and Gram rows. The columns of a row are linear in
        p, with coefficients that depend only on the class.
        """
        problem = self.problem
        numbers = problem.filled
        marginal = problem.counts.sum(axis=1)
        first = np.einsum("icb,ib->ic", marginal, numbers)
        second = np.einsum("icb,ib->ic", marginal, numbers**2)
        picks = [state.chosen[rank] for rank in members]
        k = len(members)
        inner = np.zeros((problem.n_features, problem.n_classes, k + 2, k + 2))
        inner[:, :, 0, 0] = problem.class_counts.sum(axis=0)
        inner[:, :, 0, k + 1] = inner[:, :, k + 1, 0] = first
        inner[:, :, k + 1, k + 1] = second
        for a, rank in enumerate(members):
            inner[:, :, 0, a + 1] = inner[:, :, a + 1, 0] = first[picks[a]]
            own = state.gram[rank].copy()
            inner[:, :, a + 1, k + 1] = inner[:, :, k + 1, a + 1] = own
            for b, other in enumerate(picks):
                inner[:, :, a + 1, b + 1] = state.gram[rank][other]
        inner /= problem.total
        labels = self._label_columns
        moments = []
        for r in range(labels.shape[1]):
            width = 3 + k + r
            mix = np.zeros((problem.n_classes, width, k + 2))
            mix[:, 0, 0] = labels[:, r]
            mix[:, 1 : k + 2, : k + 1] = -np.eye(k + 1)
            mix[:, k + 2 : width - 1, 0] = -labels[:, :r]
            mix[:, width - 1, k + 1] = -1.0
            # mix @ inner @ mix.T summed over classes, as matrix products, which are faster than
            # einsum
            left = np.matmul(mix, inner).swapaxes(1, 2).reshape(problem.n_features, width, -1)
            moments.append(left @ mix.swapaxes(1, 2).reshape(-1, width))
        return moments


def largest_table(n_samples: int) -> int:
    """Return the maximum number of cells for which ICA rows are fitted to counts of the cells.

    A cell is a combination of a class and codes. With more cells, the rows are fitted to samples.
    """
    return min(max(n_samples // CELL_SAMPLES, FEW_CELLS), MOST_CELLS)


def _set(array: np.ndarray, place: int, value: float | np.ndarray) -> np.ndarray:
    """Return a copy of an array with ``array[place] = value``, extended by zeros if necessary."""
    result = np.zeros((max(len(array), place + 1), *array.shape[1:]))
    result[: len(array)] = array
    result[place] = value
    return result
