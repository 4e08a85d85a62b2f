"""The accessor ``hofs`` of xarray objects: ``ds.hofs.select("rain", n_features=6)``."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import xarray as xr

    from hofs_dask.events import Event
    from hofs_dask.io.places import Location, StorageOptions
    from hofs_dask.methods.base import Method
    from hofs_dask.planning.explain import Plan
    from hofs_dask.results.comparison import Comparison
    from hofs_dask.results.interactions import Interactions
    from hofs_dask.results.selection import Selection
    from hofs_dask.results.selections import Selections
    from hofs_dask.store.codes import CodeStore


class HofsAccessor:
    """The attribute ``hofs`` of a DataArray or Dataset: the functions of hofs_dask as methods.

    A method has the options and the result of the function of the same name. The attribute exists
    after ``import hofs_dask``.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import hofs_dask
    >>> rng = np.random.default_rng(0)
    >>> data = xr.Dataset({name: ("time", rng.normal(size=500)) for name in ("t2m", "wind")})
    >>> data["rain"] = data["t2m"] > 0.5
    >>> data.hofs.select("rain", n_features=1).features
    ['t2m']
    """

    def __init__(self, data: xr.DataArray | xr.Dataset) -> None:
        self._data = data

    def select(
        self,
        target: Any,
        n_features: int | Literal["auto"],
        *,
        method: str | Method = "hofs",
        feature_dim: Hashable | Sequence[Hashable] | None = None,
        feature_coord: Hashable | None = None,
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
        """Rank the features with the most information about a target; see `hofs_dask.select`."""
        from hofs_dask import api

        return api.select(
            self._data,
            target,
            n_features,
            method=method,
            feature_dim=feature_dim,
            feature_coord=feature_coord,
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
            include=include,
            exclude=exclude,
            min_gain=min_gain,
            alpha=alpha,
            store=store,
            checkpoint=checkpoint,
            storage_options=storage_options,
            callback=callback,
            progress=progress,
        )

    def select_by(
        self,
        target: Any,
        n_features: int | Literal["auto"],
        by: Any,
        *,
        method: str | Method = "hofs",
        feature_dim: Hashable | Sequence[Hashable] | None = None,
        feature_coord: Hashable | None = None,
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
        """Select features for each part of the data; see `hofs_dask.select_by`."""
        from hofs_dask import api

        return api.select_by(
            self._data,
            target,
            n_features,
            by,
            method=method,
            feature_dim=feature_dim,
            feature_coord=feature_coord,
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
            include=include,
            exclude=exclude,
            min_gain=min_gain,
            alpha=alpha,
            storage_options=storage_options,
            callback=callback,
            progress=progress,
        )

    def compare(
        self,
        target: Any,
        n_features: int | Literal["auto"],
        *,
        methods: Iterable[str | Method] | None = None,
        n_resamples: int = 0,
        feature_dim: Hashable | Sequence[Hashable] | None = None,
        feature_coord: Hashable | None = None,
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
        """Select features by several methods, and compare the results; see `hofs_dask.compare`."""
        from hofs_dask import api
        from hofs_dask.methods.registry import METHODS

        return api.compare(
            self._data,
            target,
            n_features,
            methods=METHODS if methods is None else methods,
            n_resamples=n_resamples,
            feature_dim=feature_dim,
            feature_coord=feature_coord,
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
            include=include,
            exclude=exclude,
            min_gain=min_gain,
            alpha=alpha,
            store=store,
            checkpoint=checkpoint,
            storage_options=storage_options,
            callback=callback,
            progress=progress,
        )

    def interactions(
        self,
        target: Any,
        *,
        order: int = 2,
        top: int = 100,
        exhaustive: bool = False,
        feature_dim: Hashable | Sequence[Hashable] | None = None,
        feature_coord: Hashable | None = None,
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
        """Return the tuples of features with the most synergy; see `hofs_dask.interactions`."""
        from hofs_dask import api

        return api.interactions(
            self._data,
            target,
            order=order,
            top=top,
            exhaustive=exhaustive,
            feature_dim=feature_dim,
            feature_coord=feature_coord,
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
            exclude=exclude,
            store=store,
            checkpoint=checkpoint,
            storage_options=storage_options,
            callback=callback,
            progress=progress,
        )

    def information_matrix(
        self,
        target: Any,
        *,
        kind: str = "spectral",
        feature_dim: Hashable | Sequence[Hashable] | None = None,
        feature_coord: Hashable | None = None,
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
        """Return the information in all pairs of features; see `hofs_dask.information_matrix`."""
        from hofs_dask import api

        return api.information_matrix(
            self._data,
            target,
            kind=kind,
            feature_dim=feature_dim,
            feature_coord=feature_coord,
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
            store=store,
            storage_options=storage_options,
            callback=callback,
            progress=progress,
        )

    def encode(
        self,
        target: Any,
        store: Location,
        *,
        feature_dim: Hashable | Sequence[Hashable] | None = None,
        feature_coord: Hashable | None = None,
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
        """Encode the data and a target as a code store; see `hofs_dask.encode`."""
        from hofs_dask import api

        return api.encode(
            self._data,
            target,
            store,
            feature_dim=feature_dim,
            feature_coord=feature_coord,
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
            exclude=exclude,
            chunks=chunks,
            storage_options=storage_options,
            callback=callback,
            progress=progress,
        )

    def estimate(
        self,
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
        """Return the estimated cost of a run; see `hofs_dask.estimate`."""
        from hofs_dask import api

        return api.estimate(
            self._data,
            target,
            n_features,
            method=method,
            n_resamples=n_resamples,
            order=order,
            top=top,
            exhaustive=exhaustive,
            feature_dim=feature_dim,
            feature_coord=feature_coord,
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
            include=include,
            exclude=exclude,
            chunks=chunks,
            storage_options=storage_options,
        )


def register() -> None:
    """Add the attribute ``hofs`` to DataArray and Dataset, once."""
    import xarray as xr

    if not hasattr(xr.Dataset, "hofs"):
        xr.register_dataset_accessor("hofs")(HofsAccessor)
        xr.register_dataarray_accessor("hofs")(HofsAccessor)


def register_with_xarray() -> None:
    """Register the accessor now if xarray is already imported, otherwise when it is imported.

    xarray is not imported here, because this takes longer than importing all of the package, and
    not every use of the package needs xarray.
    """
    if "xarray" in sys.modules:
        register()
    else:
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """An import hook that registers the accessor when xarray has been imported."""

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of xarray, whose loader also registers; None for other modules."""
        if name != "xarray":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_register(module: ModuleType) -> None:
            execute(module)
            register()

        spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec
