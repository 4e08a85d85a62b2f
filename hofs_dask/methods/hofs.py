"""The HOFS method: its options, and the choice between its two searches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from hofs_dask.engine.reduction import Request
from hofs_dask.methods.base import THRESHOLD, Method, ReductionBound, Search, Sizes, State
from hofs_dask.methods.joint import Joint, JointState
from hofs_dask.methods.lookahead import default_order
from hofs_dask.methods.problem import Problem
from hofs_dask.methods.total import Total, TotalState

Criterion = Literal["joint", "sum", "mean"]
SignalSource = Literal["logistic", "gaussian"]
Affinity = Literal["within", "correlation"]
Slopes = Literal["auto", "shared", "class"]
LabelCoding = Literal["auto", "indicator", "ordinal"]
Order = Literal[1, 2, 3]


@dataclass(frozen=True)
class HOFS(Method):
    """Method: Higher Order Feature Selection (Wu, Gupta & Bajaj 2016).

    Parameters
    ----------
    criterion
        ``"joint"`` scores a candidate by the information that the chosen features and the candidate
        together have about the label. The information is estimated by a class-conditional model,
        out of sample if the samples are independent. ``"sum"`` is the criterion of the paper.
        ``"mean"`` is the criterion of the authors' program.
    source
        Density that linear models assume for their residuals: ``"logistic"`` or ``"gaussian"``.
    threshold
        A chosen feature joins the subset with the largest mean affinity if this affinity exceeds
        the threshold. Otherwise it opens a new subset.
    affinity
        Measure of the dependence of two features. ``"within"`` measures the dependence within
        classes. ``"correlation"`` is the signed Pearson correlation. The default is ``"within"``
        for ``joint`` and ``"correlation"`` for the other criteria.
    slopes
        Linear models that ``joint`` tries: with slopes ``"shared"`` by all classes, with separate
        slopes for each ``"class"``, or both (``"auto"``).
    label_coding
        How ``sum`` and ``mean`` code the label: one ``"indicator"`` column for each class except
        one, or one ``"ordinal"`` column. ``"auto"`` uses indicators for targets that are classes,
        and the ordinal column for all other targets.
    order
        The largest number of features that ``joint`` may choose together because they have synergy:
        information about the label that none of them has alone, such as the two inputs of an
        exclusive or. With 2, all pairs of features are compared at the start of the search, on at
        most about 33,000 samples; with 3, all triples as well. With 1, every feature is chosen
        alone. The default is 2, or 1 if there are so many features that comparing all pairs would
        take much longer than the search. This default depends only on the numbers of features,
        samples, codes and classes.

    Examples
    --------
    >>> HOFS(criterion="sum").criterion
    'sum'
    >>> HOFS(criterion="som")
    Traceback (most recent call last):
    ...
    ValueError: unknown criterion of HOFS 'som'; valid: 'sum', 'mean', 'joint'
    """

    name: ClassVar[str] = "hofs"
    in_paper: ClassVar[bool] = True

    criterion: Criterion = "joint"
    source: SignalSource = "logistic"
    threshold: float = THRESHOLD
    affinity: Affinity | None = None
    slopes: Slopes = "auto"
    label_coding: LabelCoding = "auto"
    order: Order | None = None

    def __post_init__(self) -> None:
        """Check all options."""
        self._check("criterion", get_args(Criterion))
        self._check("source", get_args(SignalSource))
        self._check("affinity", (None, *get_args(Affinity)))
        self._check("slopes", get_args(Slopes))
        self._check("label_coding", get_args(LabelCoding))
        self._check_number("threshold")
        self._check("order", (None, *get_args(Order)))
        if self.criterion != "joint" and self.order not in (None, 1):
            raise ValueError(
                f"order of HOFS is {self.order} and criterion is {self.criterion!r}; only the "
                "criterion 'joint' chooses several features together: leave order out"
            )

    @property
    def subset_threshold(self) -> float:
        """A feature joins a subset only if its mean affinity to the members exceeds this number."""
        return self.threshold

    @property
    def cross_fitted(self) -> bool:
        """Whether scores are cross-fitted, and therefore depend on the option ``groups``."""
        return self.criterion == "joint"

    @property
    def has_test(self) -> bool:
        """Whether the search can test features for significance."""
        return self.criterion == "joint"

    @property
    def state_type(self) -> type[State]:
        """The type of the state that the search keeps between rounds."""
        return JointState if self.criterion == "joint" else TotalState

    def search(self, problem: Problem) -> Search[Any, Any]:
        """Return the object that computes the scores of this method for an encoded data set."""
        return Joint(problem, self) if self.criterion == "joint" else Total(problem, self)

    def order_for(self, sizes: Sizes) -> int:
        """Return the option ``order``, or its default for data of these sizes.

        Examples
        --------
        >>> [HOFS().order_for(Sizes(10_000, m, 2, 5, n_picks=9)) for m in (100, 50_000)]
        [2, 1]
        """
        if self.order is not None:
            return self.order
        return default_order(sizes.n_samples, sizes.n_features, sizes.n_classes, sizes.n_codes)

    def largest_requests(self, sizes: Sizes) -> tuple[Request, ...]:
        """Return the requests of a search that need the most memory; their arrays hold zeros."""
        if self.criterion == "joint":
            return Joint.largest_requests(sizes, self.order_for(sizes))
        return Total.largest_requests(sizes)

    def bound_reductions(self, sizes: Sizes) -> ReductionBound:
        """Return the maximum number of reductions of a search, besides the marginal counts."""
        if self.criterion == "joint":
            return Joint.bound_reductions(sizes, self.order_for(sizes))
        return Total.bound_reductions(sizes, on_samples=self.source == "logistic")
