"""Functions of ``hofs-dask demo`` that write its data and format its result."""

from __future__ import annotations

import os

from hofs_dask.results.selection import Selection
from hofs_dask.synthetic import tree_information, tree_model

#: Samples per chunk of the data.
CHUNK = 10_000


def write_data(path: str | os.PathLike[str], n_samples: int) -> None:
    """Write samples of the tree model, nine features and the label y, to a Zarr store.

    Parameters
    ----------
    path
        Path of the store. An existing store is replaced.
    n_samples
        Number of samples.

    Examples
    --------
    >>> import tempfile
    >>> import xarray as xr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_data(f"{folder}/tree.zarr", 100)
    ...     xr.open_zarr(f"{folder}/tree.zarr", consolidated=False).sizes["sample"]
    100
    """
    model = tree_model(n_samples, chunks=min(CHUNK, n_samples))
    model.to_zarr(path, mode="w", consolidated=False)


def summary(result: Selection) -> str:
    """Return the subsets and a table of the features with their true relevance, as text.

    Parameters
    ----------
    result
        A selection from the tree model.

    Examples
    --------
    >>> from hofs_dask.results.selection import Pick
    >>> pick = Pick(0, subset=0, score=0.11, gain=0.11, information=0.11, margin=0.05, runner_up=1)
    >>> names = [f"x{i}" for i in range(1, 10)]
    >>> found = Selection.from_picks([pick], names=names, relevance=[0.11] * 9, attrs={})
    >>> print(summary(found))
    subset 0   x1   relevance 0.110   gain 0.110 nats
    <BLANKLINE>
    rank  feature  subset    gain  information  relevance  true relevance
       1  x1            0   0.110        0.110      0.110           0.111
    """
    data = result.to_dataset()
    relevance = dict(zip(data["feature"].values.tolist(), data["relevance"].values, strict=True))
    gain = dict(zip(result.features, data["gain"].values, strict=True))
    width = max(len(" ".join(names)) for names in result.subsets)
    lines = []
    for number, names in enumerate(result.subsets):
        alone = " ".join(f"{relevance[name]:.3f}" for name in names)
        added = " ".join(f"{gain[name]:.3f}" for name in names)
        members = " ".join(names).ljust(width)
        lines.append(f"subset {number}   {members}   relevance {alone}   gain {added} nats")
    lines += ["", "rank  feature  subset    gain  information  relevance  true relevance"]
    epoch = 0
    for rank, name in enumerate(result.features):
        row = data.isel(rank=rank)
        fresh, epoch = int(row["epoch"]) > epoch, int(row["epoch"])
        lines.append(
            f"{rank + 1:>4}  {name:<7}  {int(row['subset']):>6}  {gain[name]:>6.3f}"
            f"  {float(row['information']):>11.3f}  {relevance[name]:>9.3f}"
            f"  {tree_information(name):>14.3f}{'  restart' if fresh else ''}"
        )
    return "\n".join(lines)
