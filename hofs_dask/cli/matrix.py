"""``hofs-dask matrix``: write the information matrix of all pairs of features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hofs_dask.cli.clusters import cluster
from hofs_dask.cli.options import (
    ReadingOptions,
    check_store,
    cluster_options,
    debug_option,
    examples,
    options_for,
    progress_option,
    reading_options,
    target_option,
)
from hofs_dask.cli.output import (
    MATRIX_KINDS,
    STDOUT,
    json_option,
    matrix_tree,
    output_check,
    print_json,
    write_matrix,
)
from hofs_dask.cli.running import advise
from hofs_dask.cli.sections import Sectioned

if TYPE_CHECKING:
    import xarray as xr

#: Number of pairs that are printed.
SHOWN_PAIRS = 10


@click.command(
    cls=Sectioned, epilog=examples("matrix codes.zarr --kind redundancy --output redundancy.csv")
)
@click.argument("store")
@click.option(
    "--output",
    callback=output_check("matrix"),
    metavar="PATH",
    help="Path to save the matrix to. It must end with .zarr, .nc or .csv, or be - to print the "
    "matrix as JSON instead of text. Required, unless --json is given.",
)
@json_option
@click.option(
    "--kind",
    type=click.Choice(MATRIX_KINDS),
    default="spectral",
    show_default=True,
    help="Value to compute for the features x_i and x_j and the target y. spectral: the mean of "
    "I(x_i:y|x_j) and I(x_j:y|x_i). conditional: I(x_i:y|x_j). joint: I(x_i,x_j:y). redundancy: "
    "I(x_i:x_j).",
)
@target_option
@reading_options
@progress_option("scan")
@cluster_options
@debug_option
def matrix(
    store: str,
    output: str | None,
    as_json: bool,
    kind: str,
    target: str | None,
    reading: ReadingOptions,
    progress: bool | None,
    scheduler: str | None,
    workers: int | None,
    cluster_file: str | None,
) -> None:
    """Compute the information that pairs of features contain about the target or each other.

    The matrix is saved at the path of --output, and the ten pairs with the largest values are
    printed. With --json, the whole matrix is printed. All values are in nats.

    STORE is a code store written by "hofs-dask encode", a Zarr store, a netCDF file, or Parquet or
    CSV files: one file, a folder, or a quoted pattern such as "data/*.parquet".
    Data is first encoded into a temporary code store, which is removed after the run. If STORE is
    already a code store, the options for reading and encoding data cannot be used.
    """
    if output is None and not as_json:
        raise click.MissingParameter(
            "Give a path that ends with .zarr, .nc or .csv, or --json to print the matrix.",
            param_hint="'--output'",
            param_type="option",
        )
    advise(lambda: "nothing was written; run the same command again.")
    from hofs_dask.api import information_matrix

    check_store(store, target)
    options = reading.arguments(store, target)
    with cluster(scheduler, workers, cluster_file):
        found = information_matrix(
            store,
            target,
            kind=kind,
            **options,
            storage_options=options_for(store),
            progress=progress,
        )
    if as_json or output == STDOUT:
        print_json(matrix_tree(found))
    else:
        click.echo(matrix_text(found))
    if output is not None and output != STDOUT:
        write_matrix(found, output)


def matrix_text(matrix: xr.DataArray) -> str:
    """Return a text that describes an information matrix and lists its largest pairs.

    Examples
    --------
    >>> import xarray as xr
    >>> names = {"feature": ["red", "green"], "other": ["red", "green"]}
    >>> about = {"long_name": "I(x_i : x_j)", "target": "crop", "n_samples": 9}
    >>> print(matrix_text(xr.DataArray([[0.7, 0.2], [0.2, 0.6]], names, attrs=about)))
    I(x_i : x_j), in nats, of 2 features
    9 samples, target crop
    <BLANKLINE>
    x_i  x_j    information
    red  green       0.2000
    """
    import numpy as np

    from hofs_dask.results.text import aligned, counted

    names, values = [str(name) for name in matrix["feature"].values.tolist()], matrix.values
    symmetric = np.array_equal(values, values.T)
    pairs = (
        np.triu_indices(len(names), 1) if symmetric else np.nonzero(~np.eye(len(names), dtype=bool))
    )
    order = np.argsort(-values[pairs], kind="stable")[:SHOWN_PAIRS]
    rows = [
        [names[i], names[j], f"{values[i, j]:.4f}"]
        for i, j in zip(*(side[order].tolist() for side in pairs), strict=True)
    ]
    lines = [
        f"{matrix.attrs['long_name']}, in nats, of {counted(len(names), 'feature')}",
        f"{counted(matrix.attrs['n_samples'], 'sample')}, target {matrix.attrs['target']}",
    ]
    if rows:
        lines += ["", *aligned([["x_i", "x_j", "information"], *rows], ["left", "left", "right"])]
    left = len(pairs[0]) - len(rows)
    return "\n".join([*lines, *[f"... and {left} more pairs"] * (left > 0)])
