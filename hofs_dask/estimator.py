"""`HOFSSelector`: the selection as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
import pandas as pd
from dask.base import tokenize
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from hofs_dask.api import encode, encode_in_memory, select, select_again
from hofs_dask.io.columns import is_dask_frame, plain
from hofs_dask.io.files import digest
from hofs_dask.io.reading import Reading
from hofs_dask.io.temporary import HeldFolder
from hofs_dask.methods.base import Method
from hofs_dask.methods.registry import as_method
from hofs_dask.results.selection import Selection
from hofs_dask.scheduling.session import keep
from hofs_dask.search.checkpoint import HeldRounds
from hofs_dask.search.stopping import Share
from hofs_dask.store.codes import CodeStore


class HOFSSelector(SelectorMixin, BaseEstimator):  # type: ignore[misc]
    """A scikit-learn estimator that selects features with `hofs_dask.select`.

    Parameters
    ----------
    n_features_to_select
        Number of features to select. A float above 0 and at most 1 is a fraction of the eligible
        features: those that are neither excluded nor constant nor entirely missing. None selects
        half of them. ``"auto"`` continues as long as some remaining feature depends significantly
        on the target, given those already selected; it may select none.
    method, nominal, target_kind, bins, include, exclude, min_gain
        As for `hofs_dask.select`. Give features by name; the columns of an array are named
        ``"x0"``, ``"x1"``, and so on. Integer positions are also accepted, unless a column of the
        data frame has a name that is not a string.

    Attributes
    ----------
    selection_ : Selection
        The result of `hofs_dask.select`.
    support_ : ndarray of bool (feature)
        Whether each feature is selected.
    ranking_ : ndarray of int (feature)
        The rank of each selected feature, from 1. All other features have the same rank, the one
        after the last selected feature.
    scores_ : ndarray of float (feature)
        The score of each selected feature when it was chosen; NaN for all other features.
    subsets_ : list of list of str
        The selected features, grouped into subsets. Subsets are in the order in which they were
        created, and features in the order in which they were chosen.
    n_features_in_ : int
        Number of features of the data that was given to `fit`.
    feature_names_in_ : ndarray of str (feature)
        Names of these features. This attribute exists only if all names are strings.

    Notes
    -----
    The first k selected features do not depend on `n_features_to_select`. For data in memory,
    `fit` therefore keeps the codes and the rounds of its last twelve runs: in memory, where a code
    takes a few bits, or in temporary files if there is a Dask client. If `fit` is called again with
    the same data in the same process, even on a clone of this estimator, it continues from them. A
    grid search over numbers of features thus encodes the data of each split once, and searches it
    once per method. With ``n_jobs`` above 1, each process repeats this work for the splits that it
    receives.

    Numpy arrays and data frames are used without conversion. Dask arrays and Dask data frames stay
    lazy in `fit` and in `transform`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from hofs_dask import HOFSSelector
    >>> x, y = load_iris(return_X_y=True, as_frame=True)
    >>> selector = HOFSSelector(2, method="jmi").set_output(transform="pandas").fit(x, y)
    >>> selector.get_feature_names_out().tolist()
    ['petal length (cm)', 'petal width (cm)']
    >>> selector.transform(x).shape
    (150, 2)
    """

    def __init__(
        self,
        n_features_to_select: int | float | str | None = None,
        *,
        method: str | Method = "hofs",
        nominal: Iterable[Hashable] | bool | None = None,
        target_kind: str = "auto",
        bins: int | str | None = "auto",
        include: Sequence[Hashable] = (),
        exclude: Sequence[Hashable] = (),
        min_gain: float | str | None = None,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.method = method
        self.nominal = nominal
        self.target_kind = target_kind
        self.bins = bins
        self.include = include
        self.exclude = exclude
        self.min_gain = min_gain

    def __sklearn_tags__(self) -> Any:
        """Return the scikit-learn tags: a target is needed, and missing values are accepted."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> HOFSSelector:
        """Select features.

        Parameters
        ----------
        X : array or data frame (sample, feature)
            The features, from numpy, pandas, polars, Dask, or anything that scikit-learn accepts.
        y : array (sample,)
            The target. Its values are matched with the rows of X by position.
        sample_weight : array (sample,), optional
            The weight of each sample, as `weights` of `hofs_dask.select`.
        groups : array (sample,), optional
            The group of each sample, as for `hofs_dask.select`. To pass groups or weights through
            a pipeline or a grid search, enable metadata routing with
            ``sklearn.set_config(enable_metadata_routing=True)`` and call
            ``set_fit_request(groups=True)`` or ``set_fit_request(sample_weight=True)``.

        Returns
        -------
        HOFSSelector
            This object.
        """
        X, y = self._checked(X, y)
        n_features = self._number()
        options: dict[str, Any] = {
            "nominal": self.nominal,
            "target_kind": self.target_kind,
            "bins": self.bins,
            "groups": groups,
            "weights": self._checked_weights(sample_weight, X),
        }
        chosen: dict[str, Any] = {
            "method": as_method(self.method),
            "include": self.include,
            "exclude": self.exclude,
            "min_gain": self.min_gain,
        }
        try:
            if _is_lazy(X) or _is_lazy(y):
                self.selection_ = select(X, y, n_features, progress=False, **options, **chosen)
            else:
                self.selection_ = _continued(X, y, n_features, options, chosen)
        except ValueError as error:
            text = str(error)
            if not text.startswith("n_features is "):
                raise
            own_name = text.replace("n_features", "n_features_to_select", 1)
            raise ValueError(own_name) from None
        named = [plain(name) for name in X.columns] if hasattr(X, "columns") else None
        self._describe(self.selection_, named or [f"x{j}" for j in range(X.shape[1])])
        return self

    def transform(self, X: Any) -> Any:
        """Return the selected features of X, in the column order of X. Lazy data stays lazy.

        Parameters
        ----------
        X : array or data frame (sample, feature)
            Data with the features that were given to `fit`.
        """
        _refuse_tables(X)
        if not _is_lazy(X):
            return super().transform(X)
        check_is_fitted(self)
        self._check_lazy(X, reset=False)
        positions = np.flatnonzero(self.support_).tolist()
        if hasattr(X, "columns"):
            return X[[X.columns[j] for j in positions]]
        return X[:, positions]

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self)
        return self.support_

    def _checked(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return X and y after the checks of scikit-learn. Data frames and lazy data are kept."""
        _refuse_tables(X)
        if _is_lazy(X):
            if y is None:
                validate_data(self, X, y, skip_check_array=True)  # raises
            self._check_lazy(X, reset=True)
            return X, y
        if hasattr(X, "columns"):
            frame, y = validate_data(self, X, y, skip_check_array=True)
            if len(frame) < 2:
                raise ValueError(
                    f"X has {len(frame)} sample(s) and {frame.shape[1]} features; give 2 samples "
                    "or more"
                )
            y = column_or_1d(y, warn=True)
        else:
            frame, y = validate_data(
                self, X, y, dtype="numeric", ensure_all_finite="allow-nan", ensure_min_samples=2
            )
        if y.dtype == object:
            known = y[~pd.isna(y)]  # `select` drops the samples without a target
            type_of_target(known, input_name="y", raise_unknown=True)
        return frame, y

    def _checked_weights(self, weights: Any, X: Any) -> Any:
        """Return the weights as an array after the checks of scikit-learn. Lazy ones are kept."""
        if weights is None or _is_lazy(X) or _is_lazy(weights):
            return weights
        return _check_sample_weight(weights, X, dtype=np.float64)

    def _check_lazy(self, X: Any, *, reset: bool) -> None:
        """Check the names and the number of features of lazy data, which is not computed."""
        n_features = int(X.shape[1])
        names = [*X.columns] if hasattr(X, "columns") else []
        if reset:
            self.n_features_in_ = n_features
            if names and all(isinstance(name, str) for name in names):
                self.feature_names_in_ = np.array(names, dtype=object)
            elif hasattr(self, "feature_names_in_"):  # of an earlier fit
                del self.feature_names_in_
        elif n_features != self.n_features_in_:
            raise ValueError(
                f"X has {n_features} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        elif names and names != [*getattr(self, "feature_names_in_", names)]:
            raise ValueError(
                "The feature names should match those that were passed during fit; give the same "
                "columns in the same order"
            )

    def _number(self) -> Any:
        """Return the number of features to select: an integer, a `Share` or ``"auto"``."""
        given = self.n_features_to_select
        if isinstance(given, str) and given == "auto":
            return "auto"
        if given is None:
            return Share(0.5)
        is_number = isinstance(given, int | float | np.number) and not isinstance(given, bool)
        if is_number and isinstance(given, float | np.floating) and 0 < given <= 1:
            return Share(given)
        if is_number and given >= 1 and given == int(given):  # type: ignore[operator]
            return int(given)
        raise ValueError(
            f"n_features_to_select is {given!r}; give a number such as 10, a share of the features "
            "such as 0.5, 'auto', or None for half of them"
        )

    def _describe(self, selection: Selection, names: Sequence[Hashable]) -> None:
        """Set the fitted attributes; ``names`` are all features in the order of the data."""
        place = {name: j for j, name in enumerate(names)}
        positions = np.array([place[name] for name in selection.features], dtype=int)
        self.support_ = np.zeros(self.n_features_in_, dtype=bool)
        self.support_[positions] = True
        self.ranking_ = np.full(self.n_features_in_, len(positions) + 1)
        self.ranking_[positions] = np.arange(1, len(positions) + 1)
        self.scores_ = np.full(self.n_features_in_, np.nan)
        self.scores_[positions] = selection.scores
        self.subsets_ = selection.subsets


#: What to give instead of tables that scikit-learn cannot use.
_INSTEAD = {
    "LazyFrame": "X.collect()",
    "Table": "X.to_pandas()",
    "RecordBatch": "X.to_pandas()",
    "RecordBatchReader": "X.read_pandas()",
    "InMemoryDataset": "X.to_table().to_pandas()",
    "FileSystemDataset": "X.to_table().to_pandas()",
}


def _refuse_tables(data: Any) -> None:
    """Raise a TypeError for an Arrow table or a lazy frame of polars."""
    module, kind = type(data).__module__.partition(".")[0], type(data).__name__
    if module in ("pyarrow", "polars") and kind in _INSTEAD:
        raise TypeError(
            f"X is a {module} {kind}, but HOFSSelector reads numpy arrays and data frames of "
            f"pandas, polars and Dask; give {_INSTEAD[kind]}, or call hofs_dask.select"
        )


def _is_lazy(data: Any) -> bool:
    """Return whether data is a Dask array or a Dask data frame, without importing Dask."""
    return is_dask_frame(data) or type(data).__module__.startswith("dask.array")


@dataclass
class _Run:
    """What `HOFSSelector` keeps of the last calls of `fit` with the same data."""

    lock: Lock = field(default_factory=Lock)  # held by the thread that uses the run
    codes: CodeStore | None = None  # if they are in memory
    folder: HeldFolder | None = None  # of the codes and checkpoints, if the codes are in files
    rounds: dict[str, HeldRounds] = field(default_factory=dict)  # of codes in memory


def _continued(
    X: Any,
    y: Any,
    n_features: Any,
    options: dict[str, Any],
    chosen: dict[str, Any],
) -> Selection:
    """Return a selection that continues from earlier calls with the same data and options."""
    # the content is part of the key, so that changed data has another run
    run = keep(tokenize(X, y, options), _Run)
    # searches for a number of features share a checkpoint; "auto" has another rule to stop
    name = digest([tokenize(chosen, n_features == "auto")])
    with run.lock:
        if run.codes is None and run.folder is None:
            run.codes = encode_in_memory(X, y, Reading(**options))
        if run.codes is not None:
            held = run.rounds.setdefault(name, HeldRounds())
            return select_again(run.codes, n_features, held=held, **chosen)
        if run.folder is None:
            run.folder = HeldFolder()
        path = run.folder.path
        codes = encode(X, y, path / "codes.zarr", progress=False, **options)
        return select(codes, None, n_features, checkpoint=path / name, progress=False, **chosen)
