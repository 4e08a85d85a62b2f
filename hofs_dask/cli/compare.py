"""``hofs-dask compare``: features chosen by several methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hofs_dask.cli.checkpoints import rounds_in_parts
from hofs_dask.cli.methods import MethodCommand, parse_methods
from hofs_dask.cli.options import examples
from hofs_dask.cli.output import write_comparison
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
    metavar="NAME[:KEY=VALUE...],...",
    help="Methods from the list below, with options after colons. Can be repeated.",
)
@click.option(
    "--resamples",
    type=click.IntRange(min=0),
    default=0,
    callback=_resamples,
    metavar="K",
    help="Number of bootstrap resamples, to measure the stability of every method.",
)
@search_command("comparison", figure="the ranks side by side", step="scan")
def compare(search: Search, methods: dict[str, Method], resamples: int) -> None:
    """Rank features by several methods, which share their scans over the data.

    STORE is a code store, or a Zarr store of data, which is encoded only for this run.
    """
    chosen = list(methods.values())

    def run(arguments: dict[str, Any]) -> Comparison:
        from hofs_dask.api import compare

        return compare(**arguments, methods=chosen, n_resamples=resamples)

    def kept(checkpoint: str) -> int:
        return rounds_in_parts(checkpoint, methods, search.n_features, 1 + resamples)

    run_search(search, chosen, resamples, run=run, write=write_comparison, rounds_in=kept)
