"""``hofs-dask compare``: features chosen by several methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hofs_dask.cli.checkpoints import rounds_in_parts
from hofs_dask.cli.methods import MethodCommand, complete_method, parse_methods
from hofs_dask.cli.options import examples
from hofs_dask.cli.output import comparison_tree, write_comparison
from hofs_dask.cli.searching import Search, run_search, search_command

if TYPE_CHECKING:
    from hofs_dask.methods.base import Method
    from hofs_dask.results.comparison import Comparison


def _resamples(_ctx: click.Context, _param: click.Parameter, number: int) -> int:
    if number == 1:
        raise click.BadParameter("1 resample has no stability; give 2 or more, or 0")
    return number


@click.command(
    cls=MethodCommand,
    several=True,
    epilog=examples(
        "compare codes.zarr --n-features 30 --checkpoint run --output compared.zarr",
        "compare codes.zarr --n-features 10 --method hofs,jmi,mifs:beta=0.5 --plot compared.png",
        "compare codes.zarr --n-features 10 --method hofs,hofs:criterion=sum --resamples 20",
    ),
)
@click.option(
    "--method",
    "methods",
    multiple=True,
    callback=parse_methods,
    shell_complete=complete_method,
    metavar="NAME[:KEY=VALUE...],...",
    help="Methods to compare, separated by commas. A method is a name from the list below. "
    "Options can follow, each after a colon, such as mifs:beta=0.5. Can be repeated.",
)
@click.option(
    "--resamples",
    type=click.IntRange(min=0),
    default=0,
    callback=_resamples,
    metavar="K",
    help="Also run every method on K bootstrap resamples of the data and report how stable its "
    "choice is. K must be 0 (no resamples, the default) or at least 2.",
)
@search_command("comparison", figure="a plot of the ranks of all methods", step="scan")
def compare(search: Search, methods: dict[str, Method], resamples: int) -> None:
    """Rank features by several methods and compare the results.

    All methods share their scans over the data.

    STORE is a code store written by "hofs-dask encode", a Zarr store, a netCDF file, or Parquet or
    CSV files: one file, a folder, or a quoted pattern such as "data/*.parquet".
    Data is first encoded into a temporary code store, which is removed after the run. If STORE is
    already a code store, the options for reading and encoding data cannot be used.
    """
    chosen = list(methods.values())

    def run(arguments: dict[str, Any]) -> Comparison:
        from hofs_dask.api import compare

        return compare(**arguments, methods=chosen, n_resamples=resamples)

    def kept(checkpoint: str) -> int:
        return rounds_in_parts(checkpoint, methods, search.n_features, 1 + resamples)

    run_search(
        search,
        chosen,
        resamples,
        run=run,
        write=write_comparison,
        tree=comparison_tree,
        rounds_in=kept,
    )
