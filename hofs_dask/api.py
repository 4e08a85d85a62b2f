"""The public functions: `select`, `compare`, `information_matrix`, `encode` and `estimate`."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from hofs_dask.encoding.encode import encode_source
from hofs_dask.engine.budget import room
from hofs_dask.errors import unknown
from hofs_dask.io.paths import as_path
from hofs_dask.methods.base import Method
from hofs_dask.methods.registry import METHODS, as_method
from hofs_dask.planning.explain import Plan, plan_encoding, plan_search
from hofs_dask.results.comparison import Comparison
from hofs_dask.results.datasets import label_array
from hofs_dask.results.selection import Selection
from hofs_dask.search.checkpoint import Checkpoint, open_checkpoint, open_part
from hofs_dask.search.events import Event, Notify, Progress, ScanProgress, progress_stream
from hofs_dask.search.picks import Ranking
from hofs_dask.search.rounds import Steps, all_pairs, drive, resampled, search
from hofs_dask.store.bins import check_bins
from hofs_dask.store.codes import CodeStore, is_codes, open_codes, temporary_store
from hofs_dask.store.labels import check_kind

if TYPE_CHECKING:
    import xarray as xr

    from hofs_dask.io.source import Source

MatrixKind = Literal["spectral", "conditional", "joint", "redundancy"]


@dataclass(frozen=True)
class _Reading:
    """How data is to become codes, with the defaults of all functions."""

    feature_dim: Hashable | None = None
    nominal: Iterable[Hashable] | bool | None = None
    target_kind: str = "auto"
    bins: int | str | None = "auto"
    store: str | os.PathLike[str] | None = None

    def refuse(self) -> None:
        """Raise a ValueError where something is asked for that codes cannot be given any more."""
        for field in fields(self):
            given, default = getattr(self, field.name), field.default
            if given is not None if default is None else given != default:
                raise ValueError(
                    f"{field.name} is {given!r}, but the data is a code store, encoded with "
                    f"options of its own; leave {field.name} out, or encode the data again with it"
                )


@dataclass(frozen=True)
class _Request:
    """Data that has been opened, and the columns that were asked for by name."""

    data: CodeStore | Source
    reading: _Reading
    include: list[int]
    exclude: list[int]

    @property
    def places(self) -> tuple[str, ...]:
        """Paths and addresses of the data and its code store: what a checkpoint is apart from."""
        if isinstance(self.data, CodeStore):
            return (self.data.path,)
        store = self.reading.store
        return self.data.places if store is None else (*self.data.places, as_path(store))

    def encoded(self, stack: ExitStack) -> CodeStore:
        """The code store of the data; a temporary one lives as long as the stack."""
        if isinstance(self.data, CodeStore):
            return self.data
        how = self.reading
        place = stack.enter_context(temporary_store()) if how.store is None else how.store
        return encode_source(
            self.data, place, bins=how.bins, target_kind=how.target_kind, room=room()
        )


def select(
    data: Any,
    target: Any,
    n_features: int,
    *,
    method: str | Method = "hofs",
    feature_dim: Hashable | None = None,
    nominal: Iterable[Hashable] | bool | None = None,
    target_kind: str = "auto",
    bins: int | str | None = "auto",
    include: Sequence[Hashable] = (),
    exclude: Sequence[Hashable] = (),
    min_gain: float | None = None,
    store: str | os.PathLike[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    callback: Callable[[Event], None] | None = None,
    progress: bool | None = None,
) -> Selection:
    """The features that together say most about a target, ranked, in subsets that work together.

    Parameters
    ----------
    data
        A numpy or dask array (sample, feature), a pandas data frame, an xarray DataArray or
        Dataset, a Zarr array or group or its path, or a code store (or its path) that `encode`
        made.
    target
        An array, or the name of a variable or column of `data`; None for a code store's own.
    n_features
        How many features to choose.
    method
        The name of a method, such as ``"jmi"``, or a method object with options, such as
        ``HOFS(criterion="sum")``. All names: ``hofs-dask select --help``.
    feature_dim
        The dimension of an xarray object that holds the features; all others are samples.
    nominal
        Names of features whose numbers are categories, or True for all of them. Strings,
        categoricals and booleans are nominal anyway.
    target_kind
        ``"class"``, ``"ordinal"`` or ``"continuous"``. ``"auto"`` takes booleans, strings,
        categoricals and integers of at most 254 values as classes, anything else as continuous.
    bins
        The number of codes of a feature with more distinct values: ``"auto"`` grows with the
        number of samples, a number up to 254, ``"width"`` for bins of equal width, None for
        integers 0..253 that are codes already.
    include, exclude
        Features that come first, in this order, and features that are never chosen: names, or
        positions where the names are strings.
    min_gain
        Stop when the feature with the best score gains less than this many nats, instead of
        a restart. The first feature is always chosen.
    store
        Where to keep the code store, so that the next call need not encode again. None for a
        temporary one.
    checkpoint
        A directory that the search is saved in after every round, one run at a time. The same call
        after an interruption resumes from there, to the same result; so does one that asks for
        more features. A directory of another run is refused.
    callback
        Called with every event: `RoundStarted`, `CompileStarted`, `ScanStarted`, `ScanEnded`,
        `RoundEnded`. What it raises ends the run; the checkpoint holds all rounds that have ended.
    progress
        Whether to write a line a round to the standard error. None for where that is a terminal.

    Returns
    -------
    Selection
        The ranked features, their subsets, and what each brought.

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
    _check_numbers(n_features, min_gain)
    _check_listening(callback, progress)
    with ExitStack() as stack:
        reading = _Reading(feature_dim, nominal, target_kind, bins, store)
        request = _open(data, target, n_features, reading, include, exclude)
        # before the data is read: a long encoding should not end at a lock
        kept = None
        if checkpoint is not None:
            kept = stack.enter_context(open_checkpoint(checkpoint, sources=request.places))
        codes = request.encoded(stack)
        listeners = _listeners(stack, callback, Progress, progress)
        steps = search(
            codes,
            chosen,
            n_features,
            include=request.include,
            exclude=request.exclude,
            min_gain=min_gain,
            checkpoint=kept,
        )
        (found,) = drive(codes, {chosen.label: steps}, listeners)[0].values()
        return Selection.from_ranking(found)


def compare(
    data: Any,
    target: Any,
    n_features: int,
    *,
    methods: Iterable[str | Method] = METHODS,
    n_resamples: int = 0,
    feature_dim: Hashable | None = None,
    nominal: Iterable[Hashable] | bool | None = None,
    target_kind: str = "auto",
    bins: int | str | None = "auto",
    include: Sequence[Hashable] = (),
    exclude: Sequence[Hashable] = (),
    min_gain: float | None = None,
    store: str | os.PathLike[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    callback: Callable[[Event], None] | None = None,
    progress: bool | None = None,
) -> Comparison:
    """What several methods select, side by side, in the scans over the data that one needs.

    All methods go on at once: the samples are read once for all that the methods want to know
    next, and the counts of a feature that several have chosen are made once.

    Parameters
    ----------
    data, target, n_features, feature_dim, nominal, target_kind, bins, include, exclude, min_gain
        As for `select`.
    methods
        Names, or method objects with options such as ``MIFS(beta=0.5)``.
    n_resamples
        How many bootstrap resamples of the samples every method also selects from, to see how
        stable its choice is. Blocks of neighbouring rows are drawn, the same for any chunking.
    store, callback, progress
        As for `select`.
    checkpoint
        A directory that every search is kept in after every round, each in a directory of its own.

    Returns
    -------
    Comparison
        The ranked features of every method, how much the methods agree, and how stable they are.

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
    _check_numbers(n_features, min_gain)
    _check_count("n_resamples", n_resamples, 0)
    if n_resamples == 1:
        raise ValueError("n_resamples is 1, and one cannot be compared; give 2 or more, or 0")
    _check_listening(callback, progress)
    numbers = [None, *range(n_resamples)]
    with ExitStack() as stack:
        reading = _Reading(feature_dim, nominal, target_kind, bins, store)
        request = _open(data, target, n_features, reading, include, exclude)
        kept: dict[Hashable, Checkpoint | None] = {
            (label, number): None
            if checkpoint is None
            else stack.enter_context(
                open_part(
                    checkpoint, label if number is None else f"{label} {number}", request.places
                )
            )
            for number in numbers
            for label in chosen
        }
        codes = request.encoded(stack)
        listeners = _listeners(stack, callback, ScanProgress, progress)
        searches: dict[Hashable, Steps[Ranking]] = {}
        for number in numbers:
            for label, method in chosen.items():
                steps = search(
                    codes,
                    method,
                    n_features,
                    include=request.include,
                    exclude=request.exclude,
                    min_gain=min_gain,
                    checkpoint=kept[label, number],
                    of_resample=number is not None,
                )
                searches[label, number] = steps if number is None else resampled(steps, number)
        results, n_scans, n_reductions = drive(codes, searches, listeners)
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
        attrs={"n_scans": n_scans, "n_reductions": n_reductions},
    )


def information_matrix(
    data: Any,
    target: Any,
    *,
    kind: str = "spectral",
    feature_dim: Hashable | None = None,
    nominal: Iterable[Hashable] | bool | None = None,
    target_kind: str = "auto",
    bins: int | str | None = "auto",
    store: str | os.PathLike[str] | None = None,
    callback: Callable[[Event], None] | None = None,
    progress: bool | None = None,
) -> xr.DataArray:
    """The information of all pairs of features, with and without the target, in nats.

    Parameters
    ----------
    data, target, feature_dim, nominal, target_kind, bins, store, callback, progress
        As for `select`.
    kind
        ``"spectral"``, the matrix of `SpecCMI`: the mean of I(x_i : y | x_j) and I(x_j : y | x_i),
        and I(x_i : y) on the diagonal. ``"conditional"``: I(x_i : y | x_j), the second feature
        given. ``"joint"``: I(x_i, x_j : y). ``"redundancy"``: I(x_i : x_j), entropies on the
        diagonal.

    Returns
    -------
    xarray.DataArray
        Over ``feature`` and ``other``, with the names of the features.

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
    with ExitStack() as stack:
        reading = _Reading(feature_dim, nominal, target_kind, bins, store)
        request = _open(data, target, 1, reading, (), ())
        codes = request.encoded(stack)
        listeners = _listeners(stack, callback, ScanProgress, progress)
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
        coords={"feature": names, "other": names},
        dims=("feature", "other"),
        name=f"{kind}_information",
        attrs={
            "long_name": meaning[kind],
            "units": "nats",
            "target": codes.labels.name,
            "n_samples": codes.n_samples,
        },
    )


def encode(
    data: Any,
    target: Any,
    store: str | os.PathLike[str],
    *,
    feature_dim: Hashable | None = None,
    nominal: Iterable[Hashable] | bool | None = None,
    target_kind: str = "auto",
    bins: int | str | None = "auto",
    chunks: tuple[int, int] | None = None,
) -> CodeStore:
    """The code store of some data and a target, written chunk by chunk, or reused if it is there.

    Parameters
    ----------
    data, target, feature_dim, nominal, target_kind, bins
        As for `select`.
    store
        The path of the store. A store of the same data and options is reused, with new labels
        where the target is new; a store of other data or options is written anew.
    chunks
        Samples and features a chunk. By default a chunk is about 8 MiB as bytes, in step with the
        chunks of the data, and smaller where the workers have little memory: `estimate` says why.

    Returns
    -------
    CodeStore
        The store; it, or its path, is `data` for `select`.

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
    source = _open_source(data, target, feature_dim, nominal)
    return encode_source(
        source, store, bins=bins, target_kind=target_kind, chunks=chunks, room=room()
    )


def estimate(
    data: Any,
    target: Any = None,
    n_features: int | None = None,
    *,
    method: str | Method | Iterable[str | Method] = "hofs",
    n_resamples: int = 0,
    feature_dim: Hashable | None = None,
    nominal: Iterable[Hashable] | bool | None = None,
    target_kind: str = "auto",
    bins: int | str | None = "auto",
    include: Sequence[Hashable] = (),
    exclude: Sequence[Hashable] = (),
    chunks: tuple[int, int] | None = None,
) -> Plan:
    """What a run will do, before anything of it runs: chunks, reductions, scans, bytes, memory.

    Workers are asked for their memory and compile nothing.

    Parameters
    ----------
    data
        As for `select`. Of data that is not encoded yet nothing is read: the numbers of codes and
        classes are assumed, and the plan says so.
    target
        As for `select`; may be left out for a code store that has one alone.
    n_features
        How many features are to be chosen; None for what encoding takes alone.
    method
        As for `select`, or several, as for `compare`.
    n_resamples
        As for `compare`.
    feature_dim, nominal, target_kind, bins, include, exclude
        As for `select`.
    chunks
        As for `encode`.

    Returns
    -------
    Plan
        Prints as a page. Numbers of reductions and scans are the most that the method may need.
        Its ``memory`` is that of the worker with the least room: a reduction that does not fit is
        refused with a MemoryError before it starts.

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
        _check_numbers(n_features, None)
    reading = _Reading(feature_dim, nominal, target_kind, bins)
    opened = _open(data, target, n_features or 1, reading, include, exclude).data
    if isinstance(opened, CodeStore):
        if n_features is None:
            raise ValueError(
                "data is a code store, which is encoded already; give n_features for the plan of a "
                "selection from it (hofs-dask select --explain)"
            )
        return plan_search(opened, chosen, n_features, n_resamples)
    made, plan = plan_encoding(opened, check_bins(bins), check_kind(target_kind), chunks)
    if n_features is None:
        return plan
    return plan.followed_by(plan_search(made, chosen, n_features, n_resamples))


def _open_source(
    data: Any,
    target: Any,
    feature_dim: Hashable | None,
    nominal: Iterable[Hashable] | bool | None,
) -> Source:
    # Imported here: to know all kinds of data takes longer than all the rest, and codes need none.
    from hofs_dask.io.source import open_source

    return open_source(data, target, feature_dim=feature_dim, nominal=nominal)


def _open(
    data: Any,
    target: Any,
    n_features: int,
    reading: _Reading,
    include: Sequence[Hashable],
    exclude: Sequence[Hashable],
) -> _Request:
    """The data, and the columns that were asked for: a wrong name shows before anything is read."""
    if isinstance(data, CodeStore) or _is_code_path(data):
        reading.refuse()
        opened: CodeStore | Source = _labelled(data, target)
    else:
        opened = _open_source(data, target, reading.feature_dim, reading.nominal)
    names = opened.names
    forced, banned = _columns(names, include, "include"), _columns(names, exclude, "exclude")
    both = [names[i] for i in forced if i in banned]
    if both:
        raise ValueError(f"{both[0]!r} is both in include and in exclude; keep it in one")
    if n_features > len(names) - len(banned):
        raise ValueError(
            f"n_features is {n_features} but only {len(names) - len(banned)} features can be "
            f"chosen: {len(names)} features, {len(banned)} of them excluded"
        )
    if banned and reading.store is None and not isinstance(opened, CodeStore):
        # for this run alone: what is never chosen, such as an identifier, need not have codes
        opened = opened.without(banned)
        forced, banned = [opened.names.index(names[i]) for i in forced], []
    return _Request(opened, reading, forced, banned)


def _methods(methods: Iterable[str | Method]) -> dict[str, Method]:
    """The method objects by their labels."""
    if isinstance(methods, (str, Method)) or not isinstance(methods, Iterable):
        raise TypeError(f"methods is {methods!r}; give a list, such as ['hofs', 'jmi']")
    chosen: dict[str, Method] = {}
    for method in methods:
        made = as_method(method)
        if made.label in chosen:
            raise ValueError(f"{made.label!r} is twice in methods; name it once")
        chosen[made.label] = made
    if not chosen:
        raise ValueError("methods is empty; give some, such as ['hofs', 'jmi']")
    return chosen


def _listeners(
    stack: ExitStack,
    callback: Callable[[Event], None] | None,
    kind: type[Progress | ScanProgress],
    progress: bool | None,
) -> list[Notify]:
    """The lines of progress, where they are wanted, and the user's callback."""
    listeners: list[Notify] = [] if callback is None else [callback]
    stream = progress_stream(progress)
    if stream is not None:
        listeners.insert(0, stack.enter_context(kind(stream)))
    return listeners


def _check_count(name: str, given: object, least: int) -> None:
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)):
        raise TypeError(f"{name} is {given!r}; give a whole number such as 10")
    if given < least:
        raise ValueError(f"{name} is {given}; give {least} or more")


def _check_numbers(n_features: object, min_gain: object) -> None:
    _check_count("n_features", n_features, 1)
    if min_gain is not None:
        if isinstance(min_gain, bool) or not isinstance(min_gain, (int, float, np.number)):
            raise TypeError(f"min_gain is {min_gain!r}; give a number of nats such as 0.01")
        if not np.isfinite(min_gain):
            raise ValueError(f"min_gain is {min_gain!r}; give a finite number such as 0.01")


def _check_listening(callback: object, progress: object) -> None:
    if callback is not None and not callable(callback):
        raise TypeError(
            f"callback is a {type(callback).__name__}; give a function of one event, such as print"
        )
    if progress is not None and not isinstance(progress, bool):
        raise TypeError(f"progress is {progress!r}; give True, False or None")


def _is_code_path(data: Any) -> bool:
    return isinstance(data, (str, os.PathLike)) and is_codes(data)


def _labelled(data: CodeStore | str | os.PathLike[str], target: Any) -> CodeStore:
    if target is not None and not isinstance(target, str):
        raise TypeError(
            f"target is a {type(target).__name__}, but a code store keeps its labels by name: "
            "give target=None or a name, or add it with hofs_dask.encode(data, target, store)"
        )
    if isinstance(data, CodeStore) and target in (None, data.labels.name):
        return data
    return open_codes(data.path if isinstance(data, CodeStore) else data, target)


def _columns(names: Sequence[Hashable], given: Sequence[Hashable], what: str) -> list[int]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        example = given if isinstance(given, str) else names[0]
        raise TypeError(f"{what} is {given!r}; give a list of names, such as [{example!r}]")
    by_name = {name: i for i, name in enumerate(names)}
    positions = all(isinstance(name, str) for name in names)
    columns = []
    for name in given:
        if name in by_name:
            column = by_name[name]
        elif positions and isinstance(name, int) and -len(names) <= name < len(names):
            column = name % len(names)
        else:
            raise unknown(f"feature in {what}", name, names)
        if column in columns:
            raise ValueError(f"{name!r} is twice in {what}; name it once")
        columns.append(column)
    return columns
