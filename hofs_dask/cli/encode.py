"""``hofs-dask encode``: write a code store from data."""

from __future__ import annotations

import click

from hofs_dask.cli.clusters import cluster
from hofs_dask.cli.options import (
    ReadingOptions,
    cluster_options,
    debug_option,
    examples,
    explain_option,
    options_for,
    progress_option,
    reading_options,
)
from hofs_dask.cli.output import json_option, print_json, print_plan, store_tree
from hofs_dask.cli.running import advise
from hofs_dask.cli.sections import Sectioned


def _chunks(
    _ctx: click.Context, _param: click.Parameter, text: str | None
) -> tuple[int, int] | None:
    if text is None:
        return None
    numbers = text.split(",")
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        raise click.BadParameter(f"{text!r} is not two numbers such as 100000,64")
    return int(numbers[0]), int(numbers[1])


@click.command(
    cls=Sectioned,
    epilog=examples(
        "encode data.zarr codes.zarr --target crop --nominal soil --workers 4",
        'encode "data/*.parquet" codes.zarr --target y',
    ),
)
@click.argument("source")
@click.argument("store")
@click.option("--target", required=True, metavar="NAME", help="Name of the target variable.")
@click.option(
    "--exclude",
    multiple=True,
    metavar="NAME",
    help="Leave out the feature NAME, such as a date or an identifier. Can be repeated.",
)
@reading_options
@click.option(
    "--chunks",
    callback=_chunks,
    metavar="SAMPLES,FEATURES",
    help="Number of samples and of features in a chunk of the code store. By default, both are "
    "chosen from the size of the data and the memory of the workers; --explain prints them.",
)
@explain_option
@json_option
@progress_option("read of the data")
@cluster_options
@debug_option
def encode(
    source: str,
    store: str,
    target: str,
    exclude: tuple[str, ...],
    reading: ReadingOptions,
    chunks: tuple[int, int] | None,
    explain: bool,
    as_json: bool,
    progress: bool | None,
    scheduler: str | None,
    workers: int | None,
    cluster_file: str | None,
) -> None:
    """Encode data as a code store.

    A code store contains every value as a small integer code of a few bits. Numbers are discretised
    into bins. Encode the data once, and run any number of selections on the code store.

    SOURCE is a Zarr store, a netCDF file, or Parquet or CSV files: one file, a folder, or a quoted
    pattern such as "data/*.parquet". STORE is the path of the code store to write. If STORE is
    already a code store of the same data and options, it is reused, and a new target is added to
    it. If it was made from other data or with other options, it is replaced.
    """
    advise(lambda: "the store is not complete; run the same command again.")
    from hofs_dask.api import encode, estimate

    options = reading.arguments(source, target)
    with cluster(scheduler, workers, cluster_file):
        options["exclude"] = reading.features(exclude, source, target)
        if explain:
            plan = estimate(
                source,
                target,
                **options,
                chunks=chunks,
                storage_options=options_for(source),
            )
            print_plan(plan, as_json=as_json)
            return
        codes = encode(
            source,
            target,
            store,
            **options,
            chunks=chunks,
            progress=progress,
            storage_options=options_for(source, store),
        )
    if as_json:
        print_json(store_tree(codes))
    else:
        click.echo(repr(codes))
