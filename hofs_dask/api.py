"""The public functions: `select`, `compare`, `interactions`, `information_matrix`, ..."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from hofs_dask.encoding.encode import encode_source, encode_together
from hofs_dask.encoding.here import encode_here
from hofs_dask.encoding.parts import take_samples
from hofs_dask.engine.budget import room
from hofs_dask.errors import AGAIN, advised, some_of, unknown
from hofs_dask.events import Event, Notify
from hofs_dask.io.kinds import Name
from hofs_dask.io.places import (
    Location,
    Place,
    StorageOptions,
    as_place,
    check_options,
    is_location,
)
from hofs_dask.io.reading import Reading, find_columns
from hofs_dask.methods.base import Method
from hofs_dask.methods.interactions import ORDERS
from hofs_dask.methods.registry import METHODS, as_method
from hofs_dask.planning.explain import Plan, plan_encoding, plan_interactions, plan_search
from hofs_dask.results.comparison import Comparison
from hofs_dask.results.datasets import feature_attrs, label_array
from hofs_dask.results.interactions import Interactions
from hofs_dask.results.selection import Selection
from hofs_dask.results.selections import Selections
from hofs_dask.scheduling.compute import is_here
from hofs_dask.search.checkpoint import Checkpoint, HeldRounds, open_checkpoint, open_part
from hofs_dask.search.picks import Ranking
from hofs_dask.search.progress import Listener, RoundProgress, ScanProgress
from hofs_dask.search.rounds import (
    Steps,
    all_pairs,
    all_tuples,
    attributes,
    drive,
    resampled,
    search,
)
from hofs_dask.search.screens import open_screen
from hofs_dask.search.stopping import ALPHA, Share, Stop
from hofs_dask.store.bins import check_bins
from hofs_dask.store.codes import CodeStore, is_codes, open_codes, temporary_store
from hofs_dask.store.labels import check_kind

if TYPE_CHECKING:
    import xarray as xr

    from hofs_dask.io.source import Source

MatrixKind = Literal["spectral", "conditional", "joint", "redundancy"]


@dataclass(frozen=True)
class _Request:
    """The opened data of a call, and the positions of the features to include and to exclude."""

    data: CodeStore | Source
    reading: Reading
    store: Place | None
    include: list[int]
    exclude: list[int]
    samples: np.ndarray | None = None  # bool (sample,), which samples of a code store to use

    @property
    def places(self) -> tuple[str, ...]:
        """The paths and URLs of the data and its code store; no checkpoint may be inside them."""
        if isinstance(self.data, CodeStore):
            return (self.data.path,)
        store = self.store
        return self.data.places if store is None else (*self.data.places, store.path)

    def encoded(
        self, stack: ExitStack, listeners: Sequence[Notify], *, to_file: bool = False
    ) -> CodeStore:
        """Return the code store of the data; closing the stack removes a temporary one.

        The code store of data in memory is in memory too, unless tasks run in other processes, or
        ``to_file`` is true, as for a checkpoint, which identifies the content of a store.
        """
        if isinstance(self.data, CodeStore) and self.samples is None:
            return self.data
        how, in_file = self.reading, to_file or self.store is not None
        if not in_file and not isinstance(self.data, CodeStore):
            memory = self.data.memory
            if memory is not None and is_here():
                codes = encode_here(
                    self.data,
                    memory,
                    bins=how.bins,
                    target_kind=how.target_kind,
                    room=room(),
                    listeners=listeners,
                )
                return self._described(codes)
        place = stack.enter_context(temporary_store()) if self.store is None else self.store
        if isinstance(self.data, CodeStore):
            assert self.samples is not None
            return take_samples(self.data, self.samples, place, room=room())
        codes = encode_source(
            self.data,
            place,
            bins=how.bins,
            target_kind=how.target_kind,
            room=room(),
            listeners=listeners,
        )
        return self._described(codes)

    @property
    def by(self) -> str:
        """The name of the labels of the parts of the data."""
        assert not isinstance(self.data, CodeStore)
        assert self.data.by is not None
        return self.data.by.name

    def encoded_parts(self, stack: ExitStack, listeners: Sequence[Notify]) -> dict[Name, CodeStore]:
        """Return temporary code stores of the parts of the data, by label."""
        from hofs_dask.encoding.split import split_source

        assert not isinstance(self.data, CodeStore)
        parts = split_source(self.data)
        how = self.reading
        stores = encode_together(
            {f"{self.by}={label}": part for label, part in parts.items()},
            [stack.enter_context(temporary_store()) for _ in parts],
            bins=how.bins,
            target_kind=how.target_kind,
            room=room(),
            listeners=listeners,
        )
        return {label: self._described(codes) for label, codes in zip(parts, stores, strict=True)}

    def positions_in(self, codes: CodeStore) -> tuple[list[int], list[int]]:
        """Return the positions in a code store of the features to include and to exclude.

        The code store does not have the features that were skipped because of their values.
        """
        names, place = self.data.names, {name: j for j, name in enumerate(codes.names)}
        forced, banned = ([names[j] for j in given] for given in (self.include, self.exclude))
        for name in forced:
            if name not in place:
                raise _cannot_include(name)
        return [place[name] for name in forced], [place[name] for name in banned if name in place]

    def _described(self, codes: CodeStore) -> CodeStore:
        """Return a code store with the units, coordinates and columns of the data."""
        assert not isinstance(self.data, CodeStore)
        # an earlier encoding may have had other units, coordinates or columns without features
        axis, columns = self.data.axis, self.data.columns
        if axis is not None and codes.names != self.data.names:  # some were skipped
            axis = axis.take([self.data.names.index(name) for name in codes.names])
        return replace(
            codes, axis=axis, columns=() if len(columns) == len(codes.names) else columns
        )


def select(
    data: Any,
    target: Any,
    n_features: int | Literal["auto"],
    *,
    method: str | Method = "hofs",
    feature_dim: Hashable | Sequence[Hashable] | None = None,
    feature_coord: Hashable | None = None,
    feature_names: Sequence[Hashable] | None = None,
    lags: Mapping[Hashable, Iterable[int]] | None = None,
    nominal: Iterable[Hashable] | bool | None = None,
    target_kind: str = "auto",
    bins: int | str | None = "auto",
    where: Any = None,
    ignore_label: Any = None,
    groups: Any = None,
    weights: Any = None,
    join: str = "exact",
    on_bad: str = "raise",
    include: Sequence[Hashable] = (),
    exclude: Sequence[Hashable] = (),
    min_gain: float | str | None = None,
    alpha: float | None = None,
    store: Location | None = None,
    checkpoint: Location | None = None,
    storage_options: StorageOptions | None = None,
    callback: Callable[[Event], None] | None = None,
    progress: bool | None = None,
) -> Selection:
    """Rank the features with the most information about a target, and group them into subsets.

    Features that depend on each other share a subset.

    Parameters
    ----------
    data
        A numpy or Dask array (sample, feature), a dict of arrays (sample,), a pandas or Dask data
        frame, an xarray DataArray or Dataset, a Zarr array or group, an Arrow table or dataset, a
        polars data frame or lazy frame, or a code store written by `encode`. A Zarr array, a Zarr
        group, a code store and Parquet or CSV files can also be given by path, as a folder or as a
        pattern such as ``"data/*.parquet"``; Zarr data and code stores also by URL, or by the Zarr
        store or icechunk session that contains them.
    target
        An array, or the name of a variable or column of `data`. For a code store, the name of one
        of its targets. None uses the target of a `CodeStore`, or the only target of a code store
        that is given by path.
    n_features
        Number of features to choose. ``"auto"`` chooses features as long as a remaining feature
        depends significantly on the target, given the features already chosen. It may choose no
        feature at all. There are then no restarts, and the result has p-values. The criteria
        ``"sum"`` and ``"mean"`` of `HOFS`, and `VMI`, have no test, so ``"auto"`` is not possible.
    method
        Name of a method, such as ``"jmi"``, or a method object with options, such as
        ``HOFS(criterion="sum")``. ``hofs-dask select --help`` lists all names.
    feature_dim
        Dimension of an xarray object along which the features lie, or a list of several. All other
        dimensions are samples. A variable of a Dataset without this dimension is one feature. If a
        Dataset has several variables, their features are named ``("T", 500)``, by variable and
        label.
    feature_coord
        A coordinate along the dimension of the features that names them, such as
        ``"wavelength"``.
    feature_names
        Names of the columns of an array, which are otherwise ``"x0"``, ``"x1"``, and so on.
    lags
        Lags along sample dimensions, such as ``{"time": [0, 1, 2]}``, as numbers of steps back. For
        each lag, a feature with this dimension becomes a separate feature, such as
        ``("t2m", "time-1")``. Samples whose lagged values are before the first step, or in another
        of the `groups`, are not used.
    nominal
        Names of features whose numbers are categories, or True for all features. Strings,
        categoricals and booleans are always treated as categories.
    target_kind
        ``"class"``, ``"ordinal"``, ``"continuous"`` or ``"auto"``. With ``"auto"``, booleans,
        strings, categoricals, integers with at most 254 distinct values and floats that are at
        most 20 different whole numbers are classes, and everything else is continuous.
    bins
        Number of bins of a numeric feature, from 2 to 254. The bins have about equal counts.
        ``"auto"`` uses 5 to 32 bins: the more samples, the more bins. ``"width"`` uses as many bins
        as ``"auto"``, but of equal width. If a feature has at most as many distinct values as there
        are bins, each value gets its own code. With None, the data must be integers from 0 to 253,
        which are used as codes.
    where
        The samples to use: an array of booleans or of the positions of samples, or the name of a
        column, variable or coordinate of `data`. A DataArray is broadcast along the sample dims
        that it does not have. All other samples are ignored. For a code store, give booleans or
        positions of its samples; its bins do not change.
    ignore_label
        A class whose samples are not used, such as 0 for pixels without a label.
    groups
        The group of each sample, if samples are not independent: for example, the subject of each
        measurement. Give an array of ids, or the name of a column, variable or coordinate of
        `data`. For xarray data, the groups can also be blocks of coordinates, such as ``{"time":
        "1YE", "lat": 10}``: a pandas frequency for dates, or a width for numbers. A DataArray is
        broadcast along the sample dims that it does not have. All samples of a group are in the
        same fold of cross-fitting, and `compare` draws whole groups for its resamples. Methods
        without cross-fitting rank features as if there were no groups. At least two groups are
        needed, and eight or more are advisable. A code store that was encoded with groups keeps
        them.
    weights
        The weight of each sample, if samples do not count equally: for example, the area of each
        grid cell. Give an array of numbers >= 0, or the name of a column, variable or coordinate of
        `data`. A DataArray is broadcast along the sample dims that it does not have. Only ratios
        of weights matter, and samples of weight 0 are not used. Weights are rounded to 65535 levels
        unless they are small multiples of a common unit. Counts, bins and means are weighted.
        Penalties, tests and ``bins="auto"`` use the effective number of samples, ``(sum w)^2 /
        sum w^2``. A code store that was encoded with weights keeps them.
    join
        How samples of data, target and other arrays are matched by their labels, which are the
        index of pandas or the coordinates of xarray. ``"exact"`` raises an error if labels differ.
        ``"inner"`` uses the labels that all arrays have, and adds a note to the result.
        ``"override"`` ignores labels and matches by position.
    on_bad
        What to do with features that cannot be used, such as dates or a text column whose values
        are all different: ``"raise"`` an error that names all of them, or ``"skip"`` them with a
        note in the result that says why.
    include, exclude
        Features that are chosen first, in this order, and features that are never chosen. Give
        names, or integer positions, unless a feature has a name that is not a string. Positions do
        not count the columns of `data` that are used as target, groups, weights or where.
    min_gain
        Stop when the gain of the feature with the best score is below this. Give a number of nats,
        such as 0.01, or a percentage of H(y), such as ``"1%"``. There are then no restarts. The
        first feature is always chosen. The gains of pairwise methods are not estimated out of
        sample, so these methods also stop if this feature is not significant at the level 0.05.
    alpha
        For ``n_features="auto"``: the probability that a round chooses a feature if no remaining
        feature depends on the target, 0.05 by default.
    store
        Path, URL or Zarr store in which to keep the code store, so that later calls do not encode
        the data again. None uses a temporary code store on the local disk.
    checkpoint
        Directory, URL or Zarr store in which the search is saved after every round. After an
        interruption, the same call resumes from the checkpoint and returns the same result as an
        uninterrupted run. A call with a larger `n_features` also resumes from it. The checkpoint of
        a run with other data or options is refused. Only one run at a time can use a checkpoint.
    storage_options
        Options of fsspec for all URLs of this call, such as ``{"anon": True}`` for ``s3://``. They
        are not saved.
    callback
        Function that is called with every event: `EncodeStarted`, `EncodeEnded`, `RoundStarted`,
        `CompileStarted`, `ScanStarted`, `Advanced`, `ScanEnded` and `RoundEnded`. An exception
        that it raises ends the run; the checkpoint then contains all completed rounds.
    progress
        Whether to show progress: one line per read of the data and per round, and a bar with the
        time left. In a notebook, progress is shown in the output of the cell. Otherwise, it is
        written to standard error, as plain lines if this is not a terminal. None means to show
        progress only in a notebook or on a terminal.

    Returns
    -------
    Selection
        The ranked features with their subsets, scores and gains.

    Examples
    --------
    >>> import numpy as np
    >>> import hofs_dask as hd
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 1000)
    >>> x = rng.normal(size=(1000, 5))
    >>> x[:, 3] += 2 * y
    >>> hd.select(x, y, n_features=1).features
    ['x3']
    """
    chosen = as_method(method)
    count, stop = _numbers(n_features, min_gain, alpha, [chosen])
    _check_listening(callback, progress)
    data, store, checkpoint = _located((data, store, checkpoint), storage_options)
    with ExitStack() as stack:
        reading = Reading(
            feature_dim=feature_dim,
            feature_coord=feature_coord,
            feature_names=feature_names,
            lags=lags,
            nominal=nominal,
            target_kind=target_kind,
            bins=bins,
            where=where,
            ignore_label=ignore_label,
            groups=groups,
            weights=weights,
            join=join,
            on_bad=on_bad,
        )
        request = _open(data, target, count or 1, reading, store, include, exclude)
        # opened before the data is read, so that a long encoding does not fail at a lock
        kept = None
        if checkpoint is not None:
            kept = stack.enter_context(open_checkpoint(checkpoint, sources=request.places))
        listeners = _listeners(stack, callback, RoundProgress, progress)
        codes = request.encoded(stack, listeners, to_file=kept is not None)
        return _selected(request, codes, chosen, count, stop, kept, listeners)


def select_by(
    data: Any,
    target: Any,
    n_features: int | Literal["auto"],
    by: Any,
    *,
    method: str | Method = "hofs",
    feature_dim: Hashable | Sequence[Hashable] | None = None,
    feature_coord: Hashable | None = None,
    feature_names: Sequence[Hashable] | None = None,
    lags: Mapping[Hashable, Iterable[int]] | None = None,
    nominal: Iterable[Hashable] | bool | None = None,
    target_kind: str = "auto",
    bins: int | str | None = "auto",
    where: Any = None,
    ignore_label: Any = None,
    groups: Any = None,
    weights: Any = None,
    join: str = "exact",
    on_bad: str = "raise",
    include: Sequence[Hashable] = (),
    exclude: Sequence[Hashable] = (),
    min_gain: float | str | None = None,
    alpha: float | None = None,
    storage_options: StorageOptions | None = None,
    callback: Callable[[Event], None] | None = None,
    progress: bool | None = None,
) -> Selections:
    """Select features for each part of the data: each season, station or region.

    The result of a part is the same as that of `select` with only the samples of this part in
    ``where``. Each part has its own bins, categories and ranges of a continuous target. With common
    bins, all values of a part that differs from the others, such as cold winters, could fall into a
    few bins. The data is read twice for all parts together. After that, only the codes of each part
    are read.

    Parameters
    ----------
    data, target, n_features, method
        As for `select`. The data must not be encoded yet.
    by
        The part that each sample is in: an array of labels, the name of a column, variable or
        coordinate of `data`, or a part of its dates, such as ``"time.season"``. A DataArray is
        broadcast along the sample dims that it does not have. Samples without a label are not used.
        At most 1000 labels are possible.
    feature_dim, feature_coord, feature_names, nominal, target_kind, bins, where, ignore_label
        As for `select`.
    lags
        As for `select`. A lagged value may be from another part: the day before the first winter
        day is an autumn day.
    groups, weights, join, on_bad, include, exclude, min_gain, alpha
        As for `select`.
    storage_options, callback, progress
        As for `select`.

    Returns
    -------
    Selections
        A mapping from the label of each part to its selection.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import xarray as xr
    >>> import hofs_dask as hd
    >>> rng, time = np.random.default_rng(0), pd.date_range("2001", periods=1000, freq="D")
    >>> data = xr.Dataset({name: ("time", rng.normal(size=1000)) for name in "abc"}, {"time": time})
    >>> winter = data["time.season"] == "DJF"
    >>> data["rain"] = xr.where(winter, data["a"], data["c"]) > 0.5
    >>> hd.select_by(data, "rain", 1, by="time.season").features
    {'DJF': ['a'], 'JJA': ['c'], 'MAM': ['c'], 'SON': ['c']}
    """
    chosen = as_method(method)
    count, stop = _numbers(n_features, min_gain, alpha, [chosen])
    _check_listening(callback, progress)
    if by is None:
        raise ValueError("by is None; give labels of the parts of the data, such as 'time.season'")
    (data,) = _located((data,), storage_options)
    if isinstance(data, CodeStore) or (isinstance(data, Place) and is_codes(data)):
        raise ValueError(
            "data is a code store, whose bins are those of all samples, but each part has bins of "
            "its own; give the data that was encoded"
        )
    with ExitStack() as stack:
        reading = Reading(
            feature_dim=feature_dim,
            feature_coord=feature_coord,
            feature_names=feature_names,
            lags=lags,
            nominal=nominal,
            target_kind=target_kind,
            bins=bins,
            where=where,
            ignore_label=ignore_label,
            groups=groups,
            weights=weights,
            join=join,
            on_bad=on_bad,
            by=by,
        )
        request = _open(data, target, count or 1, reading, None, include, exclude)
        listeners = _listeners(stack, callback, RoundProgress, progress)
        stores = request.encoded_parts(stack, listeners)
        found: dict[Name, Selection] = {}
        for label, codes in stores.items():
            try:
                found[label] = _selected(request, codes, chosen, count, stop, None, listeners)
            except ValueError as error:
                raise ValueError(f"{request.by}={label}: {error}") from error
    return Selections(found, request.by)


def compare(
    data: Any,
    target: Any,
    n_features: int | Literal["auto"],
    *,
    methods: Iterable[str | Method] = METHODS,
    n_resamples: int = 0,
    feature_dim: Hashable | Sequence[Hashable] | None = None,
    feature_coord: Hashable | None = None,
    feature_names: Sequence[Hashable] | None = None,
    lags: Mapping[Hashable, Iterable[int]] | None = None,
    nominal: Iterable[Hashable] | bool | None = None,
    target_kind: str = "auto",
    bins: int | str | None = "auto",
    where: Any = None,
    ignore_label: Any = None,
    groups: Any = None,
    weights: Any = None,
    join: str = "exact",
    on_bad: str = "raise",
    include: Sequence[Hashable] = (),
    exclude: Sequence[Hashable] = (),
    min_gain: float | str | None = None,
    alpha: float | None = None,
    store: Location | None = None,
    checkpoint: Location | None = None,
    storage_options: StorageOptions | None = None,
    callback: Callable[[Event], None] | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Select features by several methods, and compare the results.

    The methods run together and share their scans: one scan reads the samples once and computes
    what all methods need next. Counts that several methods need are computed once.

    Parameters
    ----------
    data, target, n_features, feature_dim, feature_coord, feature_names, lags, nominal, target_kind,
    bins
        As for `select`.
    where, ignore_label, groups, weights, join, on_bad
        As for `select`.
    methods
        Names of methods, or method objects with options, such as ``MIFS(beta=0.5)``.
    n_resamples
        Number of bootstrap resamples. Every method also selects features from each resample, which
        shows how stable its choice is. A resample consists of randomly drawn blocks of neighbouring
        rows; the blocks do not depend on the chunks. If there are `groups`, a resample instead
        consists of whole groups, drawn with replacement, as many as the data has. Give 0 for no
        resamples, or 2 or more.
    include, exclude, min_gain, alpha, store, storage_options, callback, progress
        As for `select`.
    checkpoint
        Directory, URL or Zarr store in which all searches are saved after every round, each in its
        own subdirectory. See `select`.

    Returns
    -------
    Comparison
        The ranked features of every method, the agreement of the methods, and the stability of
        each method if there are resamples.

    Examples
    --------
    >>> import numpy as np
    >>> import hofs_dask as hd
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 1000)
    >>> x = rng.normal(size=(1000, 5))
    >>> x[:, 3] += 2 * y
    >>> hd.compare(x, y, n_features=1, methods=["mim", "jmi"]).features
    {'mim': ['x3'], 'jmi': ['x3']}
    """
    chosen = _methods(methods)
    count, stop = _numbers(n_features, min_gain, alpha, list(chosen.values()))
    _check_count("n_resamples", n_resamples, 0)
    if count is None and n_resamples:
        raise ValueError(
            f"n_resamples is {n_resamples} and n_features is 'auto', but resamples repeat samples, "
            "which makes its tests invalid; give n_features as a number"
        )
    if n_resamples == 1:
        raise ValueError("n_resamples is 1, but stability needs at least 2; give 2 or more, or 0")
    _check_listening(callback, progress)
    numbers = [None, *range(n_resamples)]
    data, store, checkpoint = _located((data, store, checkpoint), storage_options)
    with ExitStack() as stack:
        reading = Reading(
            feature_dim=feature_dim,
            feature_coord=feature_coord,
            feature_names=feature_names,
            lags=lags,
            nominal=nominal,
            target_kind=target_kind,
            bins=bins,
            where=where,
            ignore_label=ignore_label,
            groups=groups,
            weights=weights,
            join=join,
            on_bad=on_bad,
        )
        request = _open(data, target, count or 1, reading, store, include, exclude)
        kept: dict[Hashable, Checkpoint | None] = {
            (label, number): None
            if checkpoint is None
            else stack.enter_context(
                open_part(
                    checkpoint,
                    label if number is None else f"{label} {number}",
                    request.places,
                )
            )
            for number in numbers
            for label in chosen
        }
        listeners = _listeners(stack, callback, ScanProgress, progress)
        codes = request.encoded(stack, listeners, to_file=checkpoint is not None)
        forced, banned = request.positions_in(codes)
        searches: dict[Hashable, Steps[Ranking]] = {}
        for number in numbers:
            for label, method in chosen.items():
                steps = search(
                    codes,
                    method,
                    count,
                    include=forced,
                    exclude=banned,
                    stop=stop,
                    checkpoint=kept[label, number],
                    of_resample=number is not None,
                )
                searches[label, number] = steps if number is None else resampled(steps, number)
        results, cost = drive(codes, searches, listeners)
    return Comparison.from_selections(
        {label: Selection.from_ranking(results[label, None]) for label in chosen},
        resamples={
            label: [
                np.array([pick.index for pick in results[label, number].picks], dtype=np.int64)
                for number in range(n_resamples)
            ]
            for label in chosen
        }
        if n_resamples
        else None,
        attrs={"n_scans": cost.n_scans, "n_reductions": cost.n_reductions},
    ).with_cost(cost)


def information_matrix(
    data: Any,
    target: Any,
    *,
    kind: str = "spectral",
    feature_dim: Hashable | Sequence[Hashable] | None = None,
    feature_coord: Hashable | None = None,
    feature_names: Sequence[Hashable] | None = None,
    lags: Mapping[Hashable, Iterable[int]] | None = None,
    nominal: Iterable[Hashable] | bool | None = None,
    target_kind: str = "auto",
    bins: int | str | None = "auto",
    where: Any = None,
    ignore_label: Any = None,
    groups: Any = None,
    weights: Any = None,
    join: str = "exact",
    on_bad: str = "raise",
    store: Location | None = None,
    storage_options: StorageOptions | None = None,
    callback: Callable[[Event], None] | None = None,
    progress: bool | None = None,
) -> xr.DataArray:
    """Return a matrix of the information in all pairs of features, in nats.

    Parameters
    ----------
    data, target, feature_dim, feature_coord, feature_names, lags, nominal, target_kind, bins
        As for `select`.
    where, ignore_label, weights, join, on_bad, store
        As for `select`.
    storage_options, callback, progress
        As for `select`.
    groups
        As for `select`. Groups do not change the matrix, but they are kept in `store`. A column of
        `data` that is named here is not used as a feature.
    kind
        Value of the matrix for the features x_i and x_j and the target y. ``"spectral"``: the mean
        of I(x_i : y | x_j) and I(x_j : y | x_i), with I(x_i : y) on the diagonal, as in `SpecCMI`.
        ``"conditional"``: I(x_i : y | x_j). ``"joint"``: I(x_i, x_j : y). ``"redundancy"``:
        I(x_i : x_j), with H(x_i) on the diagonal.

    Returns
    -------
    xarray.DataArray
        The matrix in nats. The dimensions ``feature`` (x_i) and ``other`` (x_j) have the names of
        the features as coordinates.

    Examples
    --------
    >>> import numpy as np
    >>> import hofs_dask as hd
    >>> x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 5)
    >>> y = x[:, 0] ^ x[:, 1]
    >>> hd.information_matrix(x, y, kind="joint").sel(feature="x0", other="x1").item().__round__(4)
    0.6931
    """
    import xarray as xr

    kinds = get_args(MatrixKind)
    if kind not in kinds:
        raise unknown("kind of information_matrix", kind, kinds)
    _check_listening(callback, progress)
    data, store = _located((data, store), storage_options)
    with ExitStack() as stack:
        reading = Reading(
            feature_dim=feature_dim,
            feature_coord=feature_coord,
            feature_names=feature_names,
            lags=lags,
            nominal=nominal,
            target_kind=target_kind,
            bins=bins,
            where=where,
            ignore_label=ignore_label,
            groups=groups,
            weights=weights,
            join=join,
            on_bad=on_bad,
        )
        request = _open(data, target, 1, reading, store)
        listeners = _listeners(stack, callback, ScanProgress, progress)
        codes = request.encoded(stack, listeners)
        (matrices,) = drive(codes, {kind: all_pairs(codes)}, listeners)[0].values()
    names = label_array(codes.names)
    meaning = {
        "spectral": "mean of I(x_i : y | x_j) and I(x_j : y | x_i), I(x_i : y) on the diagonal",
        "conditional": "I(x_i : y | x_j), the other feature given",
        "joint": "I(x_i, x_j : y)",
        "redundancy": "I(x_i : x_j), entropies on the diagonal",
    }
    return xr.DataArray(
        getattr(matrices, kind),
        coords={
            "feature": ("feature", names, feature_attrs(codes.axis)),
            "other": ("other", names, feature_attrs(codes.axis)),
        },
        dims=("feature", "other"),
        name=f"{kind}_information",
        attrs={
            "long_name": meaning[kind],
            "units": "nats",
            "target": codes.labels.name,
            "n_samples": codes.n_samples,
        },
    )


def interactions(
    data: Any,
    target: Any,
    *,
    order: int = 2,
    top: int = 100,
    exhaustive: bool = False,
    feature_dim: Hashable | Sequence[Hashable] | None = None,
    feature_coord: Hashable | None = None,
    feature_names: Sequence[Hashable] | None = None,
    lags: Mapping[Hashable, Iterable[int]] | None = None,
    nominal: Iterable[Hashable] | bool | None = None,
    target_kind: str = "auto",
    bins: int | str | None = "auto",
    where: Any = None,
    ignore_label: Any = None,
    groups: Any = None,
    weights: Any = None,
    join: str = "exact",
    on_bad: str = "raise",
    exclude: Sequence[Hashable] = (),
    store: Location | None = None,
    checkpoint: Location | None = None,
    storage_options: StorageOptions | None = None,
    callback: Callable[[Event], None] | None = None,
    progress: bool | None = None,
) -> Interactions:
    """Return the pairs or triples of features with the most synergy about a target.

    Synergy is the information that the features have only together. All tuples are compared. The
    memory grows with the number of features, but not with the number of tuples.

    Parameters
    ----------
    data, target, feature_dim, feature_coord, feature_names, lags, nominal, target_kind, bins
        As for `select`.
    where, ignore_label, weights, join, on_bad, store
        As for `select`.
    storage_options, callback, progress
        As for `select`.
    checkpoint
        Path or URL of a directory, as for `select`. The tuples found so far are saved after every
        scan.
    groups
        As for `select`. Groups do not change the tuples: all samples are counted, and the p-values
        assume that samples are independent, even within a group. A column of `data` that is named
        here is not used as a feature.
    order
        Number of features in a tuple: 2 or 3.
    top
        Maximum number of tuples to return.
    exhaustive
        Compare all tuples on all samples. By default, large data is screened, see Notes.
    exclude
        Features that no tuple may contain, as for `select`.

    Returns
    -------
    Interactions
        The tuples, ranked by synergy.

    Notes
    -----
    Synergy is the part of the dependence among the features and the target that effects of fewer
    of these variables cannot explain. A log-linear model with
    all terms except the term of the highest order is fitted to the counts of the tuple and the
    target. The synergy is the deviance of the counts from this model per sample, ``G / 2N``. Two
    features with additive effects have no synergy, nor do a strong feature and a noise feature.
    The variable ``added`` of the result is the information of the tuple minus that of its best
    proper subset.

    A feature may have at most b codes, where b is the largest number with ``10 C b**order <= N``
    for N samples and C classes, but at least 2. If a feature has more codes, adjacent codes (of a
    numeric feature) or the rarest categories (of a nominal feature) are merged.

    The p-value is from a chi-square test. For two features of which b_1 and b_2 codes occur, there
    are (b_1 - 1) (b_2 - 1) (C - 1) degrees of freedom, or fewer if some combinations of two
    variables do not occur. If cells have few samples, the mean of G without synergy differs from
    this number, and G is divided by their ratio first. The adjusted p-value is the p-value times
    the number of all tuples (Bonferroni).

    Screening: with 65,536 samples or more, if comparing all tuples on all samples would take more
    than about ten seconds, all tuples are compared on about 32,768 samples, drawn by a hash of the
    row number. The best of them (1000, or ten times ``top``) are then counted again on all samples.
    The result has the attribute ``smallest_synergy``: a tuple with at least this synergy is counted
    again with a probability of at least 1 - 1e-6. Weaker tuples may be missing. `estimate` shows
    the cost and the expected smallest synergy before the run.

    Examples
    --------
    >>> import numpy as np
    >>> import hofs_dask as hd
    >>> x = np.random.default_rng(0).normal(size=(2000, 10))
    >>> y = (x[:, 3] > 0) ^ (x[:, 7] > 0)
    >>> hd.interactions(x, y, top=5).tuples[0]
    ('x3', 'x7')
    """
    _check_order(order)
    _check_count("top", top, 1)
    _check_listening(callback, progress)
    data, store, checkpoint = _located((data, store, checkpoint), storage_options)
    with ExitStack() as stack:
        reading = Reading(
            feature_dim=feature_dim,
            feature_coord=feature_coord,
            feature_names=feature_names,
            lags=lags,
            nominal=nominal,
            target_kind=target_kind,
            bins=bins,
            where=where,
            ignore_label=ignore_label,
            groups=groups,
            weights=weights,
            join=join,
            on_bad=on_bad,
        )
        request = _open(data, target, 1, reading, store, (), exclude)
        _check_tuples(order, request)
        kept = None
        if checkpoint is not None:
            kept = stack.enter_context(open_checkpoint(checkpoint, sources=request.places))
        listeners = _listeners(stack, callback, ScanProgress, progress)
        codes = request.encoded(stack, listeners, to_file=kept is not None)
        _, banned = request.positions_in(codes)
        steps = all_tuples(codes, order, top, banned, exhaustive=exhaustive, checkpoint=kept)
        results, cost = drive(codes, {"interactions": steps}, listeners)
    found, problem = results["interactions"]
    return Interactions.from_tuples(
        found,
        names=codes.names,
        relevance=problem.relevance,
        usable=problem.usable,
        attrs=attributes(codes, problem),
        columns=codes.positions,
    ).with_cost(cost)


def encode(
    data: Any,
    target: Any,
    store: Location,
    *,
    feature_dim: Hashable | Sequence[Hashable] | None = None,
    feature_coord: Hashable | None = None,
    feature_names: Sequence[Hashable] | None = None,
    lags: Mapping[Hashable, Iterable[int]] | None = None,
    nominal: Iterable[Hashable] | bool | None = None,
    target_kind: str = "auto",
    bins: int | str | None = "auto",
    where: Any = None,
    ignore_label: Any = None,
    groups: Any = None,
    weights: Any = None,
    join: str = "exact",
    on_bad: str = "raise",
    exclude: Sequence[Hashable] = (),
    chunks: tuple[int, int] | None = None,
    storage_options: StorageOptions | None = None,
    callback: Callable[[Event], None] | None = None,
    progress: bool | None = None,
) -> CodeStore:
    """Encode data and a target as a code store, and return the store.

    A code store contains every value as a small integer code. It is written chunk by chunk.

    Parameters
    ----------
    data, target, feature_dim, feature_coord, feature_names, lags, nominal, target_kind, bins
        As for `select`.
    where, ignore_label, groups, weights, join, on_bad
        As for `select`.
    store
        Path or URL of the store, or a Zarr store that can be written to. An existing code store of
        the same data and options is reused, and a new target is added to it. An existing code store
        of other data, or with other options, is replaced.
    exclude
        Features to leave out of the store. They can also be features that cannot be encoded, such
        as dates and identifiers.
    chunks
        Number of samples and of features in a chunk. By default, a chunk has about 8 million
        values, or fewer if the workers have little memory. If possible, its number of samples is a
        multiple of the number of samples in a chunk of `data`. `estimate` shows the reasons.
    storage_options, callback, progress
        As for `select`.

    Returns
    -------
    CodeStore
        The store. Pass it, or its path, to `select` as `data`.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import hofs_dask as hd
    >>> x = np.random.default_rng(0).normal(size=(1000, 5))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     codes = hd.encode(x, x[:, 0] > 0, folder + "/codes.zarr")
    ...     hd.select(codes, None, n_features=1).features
    ['x0']
    """
    _check_listening(callback, progress)
    data, store = _located((data, store), storage_options)
    source = _open_source(
        data,
        target,
        Reading(
            feature_dim=feature_dim,
            feature_coord=feature_coord,
            feature_names=feature_names,
            lags=lags,
            nominal=nominal,
            target_kind=target_kind,
            bins=bins,
            where=where,
            ignore_label=ignore_label,
            groups=groups,
            weights=weights,
            join=join,
            on_bad=on_bad,
        ),
        exclude,
    )
    banned = _find_excluded(source, exclude)
    if len(banned) == source.n_features:
        raise ValueError("exclude names all features that can be used; keep at least one")
    source = source.without(banned) if banned else source
    with ExitStack() as stack:
        return encode_source(
            source,
            store,
            bins=bins,
            target_kind=target_kind,
            chunks=chunks,
            room=room(),
            listeners=_listeners(stack, callback, ScanProgress, progress),
        )


def select_again(
    codes: CodeStore,
    n_features: int | float | Literal["auto"],
    *,
    method: Method,
    include: Sequence[Hashable],
    exclude: Sequence[Hashable],
    min_gain: float | str | None,
    held: HeldRounds,
) -> Selection:
    """Return what `select` returns for a code store; continue from the rounds that are held.

    Examples
    --------
    >>> import numpy as np
    >>> from hofs_dask import JMI
    >>> codes = encode_in_memory(np.eye(4), [0, 0, 1, 1], Reading())
    >>> how = {"method": JMI(), "include": (), "exclude": (), "min_gain": None}
    >>> held = HeldRounds()
    >>> [select_again(codes, n, held=held, **how).features for n in (1, 2)]
    [['x0'], ['x0', 'x1']]
    """
    count, stop = _numbers(n_features, min_gain, None, [method])
    request = _open(codes, None, count or 1, Reading(), None, include, exclude)
    return _selected(request, codes, method, count, stop, held, ())


def encode_in_memory(data: Any, target: Any, reading: Reading) -> CodeStore | None:
    """Return the code store of data in memory, which is in memory too.

    It is None if the data is not in memory, or if tasks run in other processes.

    Examples
    --------
    >>> import numpy as np
    >>> codes = encode_in_memory(np.eye(4), [0, 0, 1, 1], Reading())
    >>> codes.n_samples, codes.held is None
    (4, False)
    """
    request = _open(data, target, 1, reading, None)
    if isinstance(request.data, CodeStore) or request.data.memory is None or not is_here():
        return None
    with ExitStack() as stack:
        return request.encoded(stack, ())


def estimate(
    data: Any,
    target: Any = None,
    n_features: int | None = None,
    *,
    method: str | Method | Iterable[str | Method] = "hofs",
    n_resamples: int = 0,
    order: int | None = None,
    top: int = 100,
    exhaustive: bool = False,
    feature_dim: Hashable | Sequence[Hashable] | None = None,
    feature_coord: Hashable | None = None,
    feature_names: Sequence[Hashable] | None = None,
    lags: Mapping[Hashable, Iterable[int]] | None = None,
    nominal: Iterable[Hashable] | bool | None = None,
    target_kind: str = "auto",
    bins: int | str | None = "auto",
    where: Any = None,
    ignore_label: Any = None,
    groups: Any = None,
    weights: Any = None,
    join: str = "exact",
    on_bad: str = "raise",
    include: Sequence[Hashable] = (),
    exclude: Sequence[Hashable] = (),
    chunks: tuple[int, int] | None = None,
    storage_options: StorageOptions | None = None,
) -> Plan:
    """Return the estimated cost of a run: chunks, reductions, scans, bytes and memory.

    Nothing is run: the workers report their memory limits, but they read no data and
    compile no kernels.

    Parameters
    ----------
    data
        As for `select`. If the data is not encoded yet, it is not read; the plan then assumes the
        numbers of codes and classes, and states these assumptions.
    target
        As for `select`. Optional for a code store with one target.
    n_features
        Number of features to choose. None plans only the encoding.
    method
        One method as for `select`, or several as for `compare`.
    n_resamples
        As for `compare`.
    order, top, exhaustive
        Plan `interactions` with these parameters instead of a selection, if `order` is given.
    feature_dim, feature_coord, feature_names, lags, nominal, target_kind, bins, ignore_label,
    groups, join
        As for `select`.
    on_bad, include, exclude
        As for `select`.
    where, weights
        As for `select`. They are not read, so the plan assumes that all samples are used.
    chunks
        As for `encode`.
    storage_options
        As for `select`.

    Returns
    -------
    Plan
        The plan; printing it gives one page of text. The numbers of reductions and scans are upper
        bounds. ``memory`` is the estimated memory of the worker with the least free memory. A run
        raises a MemoryError before it starts a reduction that does not fit.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import hofs_dask as hd
    >>> x = np.random.default_rng(0).normal(size=(1000, 5))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     codes = hd.encode(x, x[:, 0] > 0, folder + "/codes.zarr")
    ...     plan = hd.estimate(codes, n_features=3)
    >>> plan.memory.needed < plan.memory.limit
    True
    """
    single = isinstance(method, (str, Method))
    chosen = list(_methods([method] if single else method).values())  # type: ignore[list-item,arg-type]
    _check_count("n_resamples", n_resamples, 0)
    if n_features is not None:
        _check_count("n_features", n_features, 1)
    if order is not None:
        _check_order(order)
        _check_count("top", top, 1)
        if n_features is not None:
            raise ValueError(
                f"n_features is {n_features} and order is {order}; give n_features for the plan of "
                "a selection or order for the plan of interactions"
            )
    (data,) = _located((data,), storage_options)
    reading = Reading(
        feature_dim=feature_dim,
        feature_coord=feature_coord,
        feature_names=feature_names,
        lags=lags,
        nominal=nominal,
        target_kind=target_kind,
        bins=bins,
        where=where,
        ignore_label=ignore_label,
        groups=groups,
        weights=weights,
        join=join,
        on_bad=on_bad,
    )
    request = _open(data, target, n_features or 1, reading, None, include, exclude)
    opened = request.data
    if order is not None:
        _check_tuples(order, request)

    def plan_tuples(codes: CodeStore, order: int) -> Plan:
        return plan_interactions(codes, order, top, request.exclude, exhaustive=exhaustive)

    if isinstance(opened, CodeStore):
        if order is not None:
            return plan_tuples(opened, order)
        if n_features is None:
            raise ValueError(
                "data is a code store, which is encoded already; give n_features for the plan of a "
                "selection from it (hofs-dask select --explain), or order for interactions"
            )
        return plan_search(opened, chosen, n_features, n_resamples)
    made, plan = plan_encoding(opened, check_bins(bins), check_kind(target_kind), chunks)
    if order is not None:
        return plan.followed_by(plan_tuples(made, order))
    if n_features is None:
        return plan
    return plan.followed_by(plan_search(made, chosen, n_features, n_resamples))


def _selected(
    request: _Request,
    codes: CodeStore,
    method: Method,
    n_features: int | Share | None,
    stop: Stop,
    kept: Checkpoint | HeldRounds | None,
    listeners: Sequence[Notify],
) -> Selection:
    """Return the selection of one method on a code store."""
    forced, banned = request.positions_in(codes)
    steps = search(
        codes,
        method,
        n_features,
        include=forced,
        exclude=banned,
        stop=stop,
        checkpoint=kept,
    )
    results, cost = drive(codes, {method.label: steps}, listeners)
    return Selection.from_ranking(results[method.label]).with_cost(cost)


def _check_order(order: Any) -> None:
    if order not in ORDERS or isinstance(order, (bool, float)):
        raise ValueError(f"order is {order!r}; give 2 for pairs or 3 for triples")


def _check_tuples(order: int, request: _Request) -> None:
    n_usable = len(request.data.names) - len(request.exclude)
    if n_usable < order:
        raise ValueError(
            f"order is {order} but there {'is' if n_usable == 1 else 'are'} only {n_usable} "
            f"feature{'s' * (n_usable != 1)} that {'is' if n_usable == 1 else 'are'} not excluded"
        )


def _located(given: Sequence[Any], options: StorageOptions | None) -> list[Any]:
    """Return paths, URLs and Zarr stores as places, and all other data and None unchanged."""
    check_options(options, given)
    return [as_place(each, options) if is_location(each) else each for each in given]


def _open_source(
    data: Any, target: Any, reading: Reading, exclude: Sequence[Hashable] = ()
) -> Source:
    # Imported here because the readers are slow to import, and code stores do not need them.
    from hofs_dask.io.source import open_source

    where = [repr(each.path) for each in (data, target) if isinstance(each, Place)]
    what = f"the data at {some_of(where)}" if where else "the data"
    with advised(f"{what} could not be read: {AGAIN}"):
        return open_source(data, target, reading, exclude)


def _find_excluded(source: Source, exclude: Sequence[Hashable]) -> list[int]:
    """Return the positions of the excluded features that have not been left out when opening."""
    names, columns = source.names, source.columns
    found = [columns[i] for i in find_columns(columns, exclude, "exclude")]
    return [names.index(name) for name in found if name in names]


def _open(
    data: Any,
    target: Any,
    n_features: int | Share,
    reading: Reading,
    store: Place | None,
    include: Sequence[Hashable] = (),
    exclude: Sequence[Hashable] = (),
) -> _Request:
    """Open the data, find the included and excluded features, and check the request."""
    samples = None
    if isinstance(data, CodeStore) or (isinstance(data, Place) and is_codes(data)):
        reading.refuse()
        if store is not None:
            raise ValueError(
                f"store is {store.path!r}, but the data is a code store already; leave store out"
            )
        codes = _labelled(data, target)
        opened: CodeStore | Source = codes
        if reading.where is not None:
            samples = _mask_of(codes, reading.where)
    else:
        opened = _open_source(data, target, reading, exclude)
    names = opened.names
    columns = names if isinstance(opened, CodeStore) else opened.columns
    # features that were left out when the data was opened have no position in the names
    forced, banned = (
        [names.index(columns[i]) for i in find_columns(columns, given, what) if columns[i] in names]
        for given, what in ((include, "include"), (exclude, "exclude"))
    )
    if len(forced) < len(include):
        lost = [columns[i] for i in find_columns(columns, include, "include")]
        (first, *_) = (name for name in lost if name not in names)
        raise _cannot_include(first)
    both = [names[i] for i in forced if i in banned]
    if both:
        raise ValueError(f"{both[0]!r} is both in include and in exclude; keep it in one")
    if n_features > len(names) - len(banned):
        raise ValueError(
            f"n_features is {n_features} but only {len(names) - len(banned)} features can be "
            f"chosen: {len(names)} features, {len(banned)} of them excluded"
        )
    if banned and store is None and not isinstance(opened, CodeStore):
        # A temporary code store does not need the excluded features, and some of them, such as an
        # identifier, cannot be encoded.
        opened = opened.without(banned)
        forced, banned = [opened.names.index(names[i]) for i in forced], []
    return _Request(opened, reading, store, forced, banned, samples)


def _cannot_include(name: Name) -> ValueError:
    return ValueError(f"{name!r} is in include, but it cannot be used and was skipped")


def _mask_of(codes: CodeStore, where: Any) -> np.ndarray | None:
    """Return whether each sample of a code store is used, bool (sample,), or None if all are."""
    from hofs_dask.io.masks import mask_of_store

    flags = mask_of_store(where, codes.n_samples, codes.n_source)
    return None if flags.all() else flags


def _methods(methods: Iterable[str | Method]) -> dict[str, Method]:
    """Return the method objects by label."""
    if isinstance(methods, (str, Method)) or not isinstance(methods, Iterable):
        raise TypeError(f"methods is {methods!r}; give a list, such as ['hofs', 'jmi']")
    chosen: dict[str, Method] = {}
    for method in methods:
        made = as_method(method)
        if made.label in chosen:
            raise ValueError(f"{made.label!r} is twice in methods; give it once")
        chosen[made.label] = made
    if not chosen:
        raise ValueError("methods is empty; give some, such as ['hofs', 'jmi']")
    return chosen


def _listeners(
    stack: ExitStack,
    callback: Callable[[Event], None] | None,
    kind: type[Listener],
    progress: bool | None,
) -> list[Notify]:
    """Return the listeners: progress if it is wanted, and the callback of the user."""
    listeners: list[Notify] = [] if callback is None else [callback]
    screen = open_screen(progress)
    if screen is not None:
        listeners.insert(0, stack.enter_context(kind(screen)))
    return listeners


def _check_count(name: str, given: object, least: int) -> None:
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)):
        raise TypeError(f"{name} is {given!r}; give a whole number such as 10")
    if given < least:
        raise ValueError(f"{name} is {given}; give {least} or more")


def _numbers(
    n_features: object, min_gain: object, alpha: object, methods: Sequence[Method]
) -> tuple[int | Share | None, Stop]:
    """Return the number of features (None for ``"auto"``), and the rule for an early end."""
    if isinstance(n_features, Share):  # from `HOFSSelector`
        return n_features, Stop.parse(min_gain, None)
    if isinstance(n_features, str):
        if n_features != "auto":
            raise TypeError(
                f"n_features is {n_features!r}; give a whole number such as 10, or 'auto'"
            )
        without = [method.label for method in methods if not method.has_test]
        if without:
            raise ValueError(
                f"n_features is 'auto', but {without[0]} has no test of significance; give "
                "n_features as a number, or a method such as 'hofs' or 'jmi'"
            )
        return None, Stop.parse(min_gain, ALPHA if alpha is None else alpha)
    _check_count("n_features", n_features, 1)
    if alpha is not None:
        raise ValueError(
            f"alpha is {alpha!r}, but n_features is {n_features}: every one of them is chosen; "
            "leave alpha out, or give n_features='auto'"
        )
    assert isinstance(n_features, int | np.integer)
    return int(n_features), Stop.parse(min_gain, None)


def _check_listening(callback: object, progress: object) -> None:
    if callback is not None and not callable(callback):
        raise TypeError(
            f"callback is a {type(callback).__name__}; give a function of one event, such as print"
        )
    if progress is not None and not isinstance(progress, bool):
        raise TypeError(f"progress is {progress!r}; give True, False or None")


def _labelled(data: CodeStore | Place, target: Any) -> CodeStore:
    if target is not None and not isinstance(target, str):
        raise TypeError(
            f"target is a {type(target).__name__}, but a code store keeps its labels by name: "
            "give target=None or a name, or add it with hofs_dask.encode(data, target, store)"
        )
    if isinstance(data, CodeStore) and target in (None, data.labels.name):
        return data
    return open_codes(data.root if isinstance(data, CodeStore) else data, target)
