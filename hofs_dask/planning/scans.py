"""The reductions that a search asks for, at most: functions of sizes, with nothing run.

A search asks for one reduction after another, so that alone it takes as many scans. What it asks
for may depend on the data: these are the most. `include` and `min_gain` only make them fewer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hofs_dask.engine.counts import MARGINAL_COUNTS, PAIR_COUNTS, PAIR_TERMS
from hofs_dask.engine.posteriors import POSTERIOR_GAINS
from hofs_dask.engine.reduction import N_FOLDS
from hofs_dask.engine.rows import ROW_TERMS, ROW_VALUES
from hofs_dask.kernels.rows import MAX_STEPS
from hofs_dask.methods import joint, total
from hofs_dask.methods.base import Method, Sizes
from hofs_dask.methods.hofs import HOFS
from hofs_dask.methods.pairwise import PairwiseMethod
from hofs_dask.methods.vmi import VMI

#: Codes that a feature has at least that can be chosen.
LEAST_CODES = 2


@dataclass(frozen=True)
class SearchSizes:
    """What the number of reductions depends on.

    Attributes
    ----------
    n_samples, n_features, n_classes
        Of the store.
    n_codes
        Codes of the feature that has the most.
    n_rounds
        Features that are to be chosen.
    """

    n_samples: int
    n_features: int
    n_classes: int
    n_codes: int
    n_rounds: int

    @property
    def n_later(self) -> int:
        """Rounds after the first, in which the last pick is counted with every feature."""
        return self.n_rounds - 1


@dataclass(frozen=True)
class ReductionBound:
    """How many reductions a search asks for at most.

    Attributes
    ----------
    by_name
        Of each reduction.
    in_all
        Of all: fewer than the sum where a round needs either of two.
    """

    by_name: Mapping[str, int]
    in_all: int


def bound_reductions(method: Method, sizes: SearchSizes) -> ReductionBound:
    """The reductions of a search by a method, the counts of all features included.

    Examples
    --------
    >>> from hofs_dask import JMI
    >>> bound_reductions(JMI(), SearchSizes(10**6, 400, 2, 5, n_rounds=10)).by_name
    {'marginal-counts': 1, 'pair-terms': 9}
    """
    if isinstance(method, PairwiseMethod):
        found = bound_pairwise(method, sizes)
    elif isinstance(method, VMI):
        found = bound_vmi(method, sizes)
    elif isinstance(method, HOFS):
        found = bound_joint(sizes) if method.criterion == "joint" else bound_total(method, sizes)
    else:
        raise TypeError(f"the reductions of {type(method).__name__} are not known")
    by_name = {MARGINAL_COUNTS.name: 1, **{name: n for name, n in found.by_name.items() if n}}
    return ReductionBound(by_name, 1 + found.in_all)


def bound_pairwise(method: PairwiseMethod, sizes: SearchSizes) -> ReductionBound:
    """One reduction a pick but the last, and panels of columns where all pairs are needed."""
    n_reductions = sizes.n_later
    if method.all_pairs:
        largest = Sizes(sizes.n_features, sizes.n_classes, sizes.n_codes, sizes.n_later)
        (panel,) = method.largest_requests(largest)
        n_reductions += -(-sizes.n_features // len(panel.columns))
    return ReductionBound({PAIR_TERMS.name: n_reductions}, n_reductions)


def bound_joint(sizes: SearchSizes) -> ReductionBound:
    """One reduction to count a pick, and one to three to score the candidates of a round.

    Notes
    -----
    The gains of candidates are one reduction, two or three by the number of samples. With one
    pick in an epoch or none they are read off the counts where samples are many. A round in which
    the best gain is too small restarts, and scores again without a pick.

    Examples
    --------
    >>> bound_joint(SearchSizes(10**6, 400, 2, 5, n_rounds=10)).by_name
    {'pair-counts': 9, 'posterior-gains': 24}
    """
    staged = 1 + (sizes.n_samples >= joint.STAGED) + (sizes.n_samples >= joint.STAGED_TWICE)

    def to_score(n_cells: int) -> int:
        """The reductions that score candidates whose counts have so many cells."""
        return 0 if joint.CELL_SAMPLES * n_cells <= sizes.n_samples else staged

    table = N_FOLDS * sizes.n_classes * sizes.n_codes
    no_pick, one_pick = to_score(table), to_score(table * sizes.n_codes)
    # every round after the first may restart
    gains = no_pick * (1 + sizes.n_later)
    gains += one_pick * min(sizes.n_later, 1) + staged * max(sizes.n_later - 1, 0)
    by_name = {PAIR_COUNTS.name: sizes.n_later, POSTERIOR_GAINS.name: gains}
    return ReductionBound(by_name, sizes.n_later + gains)


def bound_total(method: HOFS, sizes: SearchSizes) -> ReductionBound:
    """One reduction to count a pick, and those that solve the rows of the subset it joined.

    Notes
    -----
    Rows of a subset of one are solved on the counts of the pick. Those of a larger one take a
    reduction where the codes of its members make few cells, and a reduction a Newton step
    otherwise. A subset holds all picks so far at most.

    Examples
    --------
    >>> bound_total(HOFS(criterion="sum"), SearchSizes(1000, 20, 2, 5, n_rounds=4)).by_name
    {'pair-counts': 3, 'row-values': 2, 'row-terms': 0}
    """
    by_name = {PAIR_COUNTS.name: sizes.n_later}
    if method.source == "gaussian":
        return ReductionBound(by_name, sizes.n_later)
    table = sizes.n_classes * sizes.n_codes
    few = min(max(sizes.n_samples // total.CELL_SAMPLES, total.FEW_CELLS), total.MOST_CELLS)
    values = terms = in_all = 0
    for n_members in range(2, sizes.n_rounds):
        on_counts = LEAST_CODES**2 * table <= few
        on_samples = sizes.n_codes**n_members * table > few
        values += on_counts
        terms += MAX_STEPS * on_samples
        in_all += MAX_STEPS if on_samples else 1
    by_name |= {ROW_VALUES.name: values, ROW_TERMS.name: terms}
    return ReductionBound(by_name, sizes.n_later + in_all)


def bound_vmi(method: VMI, sizes: SearchSizes) -> ReductionBound:
    """One reduction to count a pick, one to score candidates, and one more where VMI restarts.

    Examples
    --------
    >>> bound_vmi(VMI(), SearchSizes(1000, 20, 2, 5, n_rounds=4)).by_name
    {'pair-terms': 3, 'posterior-gains': 7}
    """
    counted = PAIR_TERMS if method.form == "naive" else PAIR_COUNTS
    gains = 1 + 2 * sizes.n_later
    by_name = {counted.name: sizes.n_later, POSTERIOR_GAINS.name: gains}
    return ReductionBound(by_name, sizes.n_later + gains)
