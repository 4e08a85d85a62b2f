"""The plotting methods of a selection, in an object that can itself be called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hofs_dask.results.figure import plot
from hofs_dask.results.spectrum import plot_spectrum

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes


class SelectionPlots:
    """The plotting methods of a selection: ``result.plot()`` and ``result.plot.spectrum()``.

    Parameters
    ----------
    dataset : xarray.Dataset
        The Dataset of the selection.
    """

    __slots__ = ("_dataset",)

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset

    def __call__(self, ax: Axes | None = None) -> Axes:
        """Plot information and gain by rank, coloured by subset, and return the axes.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The axes to draw on. By default, a new figure is created. If the figure has no layout
            engine, the constrained layout is used, so that names and legend are not cut off.
        """
        return plot(self._dataset, ax)

    def spectrum(self, x: str | None = None, ax: Axes | None = None) -> Axes:
        """Plot the relevance of all features along a coordinate, and return the axes.

        The chosen features are coloured by subset. The ranks of the first 30 are written beside
        them, as far as there is room.

        Parameters
        ----------
        x : str, optional
            Name of a numeric coordinate along the features, such as ``"wavelength"``. By default,
            the names of the features are used; they must then be numbers.
        ax : matplotlib.axes.Axes, optional
            The axes to draw on. By default, a new figure is created.

        Examples
        --------
        >>> import numpy as np
        >>> import xarray as xr
        >>> import hofs_dask as hd
        >>> cube = xr.DataArray(
        ...     np.random.default_rng(0).normal(size=(500, 3)),
        ...     dims=("pixel", "band"),
        ...     coords={"wavelength": ("band", [450.0, 550.0, 650.0], {"units": "nm"})},
        ... )
        >>> result = hd.select(cube, cube[:, 1].values > 0, n_features=1)
        >>> result.plot.spectrum(x="wavelength").get_xlabel()
        'wavelength (nm)'
        """
        return plot_spectrum(self._dataset, x, ax)
