"""``hofs-dask select``: rank features by one method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hofs_dask.cli.checkpoints import rounds_in
from hofs_dask.cli.methods import MethodCommand, complete_method, parse_method
from hofs_dask.cli.options import examples
from hofs_dask.cli.output import selection_tree, write_selection
from hofs_dask.cli.searching import Search, run_search, search_command

if TYPE_CHECKING:
    from hofs_dask.methods.base import Method
    from hofs_dask.results.selection import Selection


@click.command(
    cls=MethodCommand,
    epilog=examples(
        "select codes.zarr --n-features 30 --checkpoint run --output result.zarr",
        "select data.zarr --target y --n-features 5 --option criterion=sum",
        "select codes.zarr --n-features 30 --method mifs --option beta=0.5 --plot result.png",
        "select codes.zarr --n-features 30 --scheduler tcp://host:8786",
        "select data.zarr --target y --n-features 30 --workers 4 --explain",
    ),
)
@click.option(
    "--method",
    default="hofs",
    show_default=True,
    shell_complete=complete_method,
    metavar="NAME[:KEY=VALUE...]",
    help="Name of a method from the list below. Options can follow, each after a colon, such as "
    "hofs:criterion=sum:threshold=0.3.",
)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set an option of the method, such as criterion=sum. Can be repeated.",
)
@search_command("selection", figure="a plot of information against rank", step="round")
def select(search: Search, method: str, options: tuple[str, ...]) -> None:
    """Rank features by one method and group them into subsets.

    Features that depend on each other share a subset.

    STORE is a code store written by "hofs-dask encode", a Zarr store, a netCDF file, or Parquet or
    CSV files: one file, a folder, or a quoted pattern such as "data/*.parquet".
    Data is first encoded into a temporary code store, which is removed after the run. If STORE is
    already a code store, the options for reading and encoding data cannot be used.
    """
    chosen = _method(method, options)

    def run(arguments: dict[str, Any]) -> Selection:
        from hofs_dask.api import select

        return select(**arguments, method=chosen)

    run_search(
        search,
        [chosen],
        0,
        run=run,
        write=write_selection,
        tree=selection_tree,
        rounds_in=rounds_in,
    )


def _method(name: str, options: tuple[str, ...]) -> Method:
    try:
        parse_method(name)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--method") from error
    try:
        return parse_method(name, options)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--option") from error
