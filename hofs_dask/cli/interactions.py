"""``hofs-dask interactions``: find pairs or triples of features with synergy."""

from __future__ import annotations

from typing import Any

import click

from hofs_dask.cli.clusters import cluster
from hofs_dask.cli.options import (
    ReadingOptions,
    check_store,
    cluster_options,
    debug_option,
    examples,
    explain_option,
    options_for,
    progress_option,
    reading_options,
    target_option,
)
from hofs_dask.cli.output import (
    STDOUT,
    check_picture,
    draw,
    interactions_tree,
    json_option,
    output_check,
    print_json,
    print_plan,
    write_interactions,
)
from hofs_dask.cli.running import advise
from hofs_dask.cli.sections import Sectioned


@click.command(
    cls=Sectioned,
    epilog=examples("interactions codes.zarr --order 3 --top 20 --output triples.csv"),
)
@click.argument("store")
@click.option(
    "--order",
    type=click.IntRange(2, 3),
    default=2,
    show_default=True,
    help="Number of features in a tuple: 2 for pairs, 3 for triples.",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Maximum number of tuples to save.",
)
@click.option(
    "--exhaustive",
    is_flag=True,
    help="Compare all tuples on all samples. By default, large data is screened: all tuples are "
    "compared on about 32,768 samples, and only the best of them on all samples.",
)
@click.option(
    "--checkpoint",
    metavar="DIR",
    help="Directory in which the tuples found so far are saved after every scan. If the run is "
    "interrupted, the same command resumes from it.",
)
@click.option(
    "--output",
    callback=output_check("interactions"),
    metavar="PATH",
    help="Path to save the tuples to. It must end with .zarr, .nc or .csv, or be - to print them "
    "as JSON instead of text.",
)
@json_option
@click.option(
    "--plot",
    callback=check_picture,
    metavar="PATH",
    help="Path to save a plot to, in which lines connect the features of a tuple. It must end with "
    ".png, .svg or .pdf.",
)
@target_option
@click.option(
    "--exclude", multiple=True, metavar="NAME", help="Leave out a feature. Can be repeated."
)
@reading_options
@explain_option
@progress_option("scan")
@cluster_options
@debug_option
def interactions(
    store: str,
    order: int,
    top: int,
    exhaustive: bool,
    checkpoint: str | None,
    output: str | None,
    as_json: bool,
    plot: str | None,
    target: str | None,
    exclude: tuple[str, ...],
    reading: ReadingOptions,
    explain: bool,
    progress: bool | None,
    scheduler: str | None,
    workers: int | None,
    cluster_file: str | None,
) -> None:
    """Find the pairs or triples of features with the most synergy.

    The synergy of a pair or triple (a tuple) is the information about the target that the features
    have only together: it is not explained by single features or, for triples, by pairs. All tuples
    are compared, and the first twenty are printed. All values are in nats.

    STORE is a code store written by "hofs-dask encode", a Zarr store, a netCDF file, or Parquet or
    CSV files: one file, a folder, or a quoted pattern such as "data/*.parquet".
    Data is first encoded into a temporary code store, which is removed after the run. If STORE is
    already a code store, the options for reading and encoding data cannot be used.
    """
    resume = "with --checkpoint DIR the same command resumes where it was interrupted."
    if checkpoint is not None:
        resume = f"run the same command again to resume from {checkpoint}."
    advise(lambda: resume)
    from hofs_dask import api

    check_store(store, target)
    request: dict[str, Any] = {
        "data": store,
        "target": target,
        "order": order,
        "top": top,
        "exhaustive": exhaustive,
        "exclude": reading.features(exclude, store, target),
        **reading.arguments(store, target),
    }
    with cluster(scheduler, workers, cluster_file):
        if explain:
            plan = api.estimate(**request, storage_options=options_for(store))
            print_plan(plan, as_json=as_json or output == STDOUT)
            return
        found = api.interactions(
            **request,
            checkpoint=checkpoint,
            storage_options=options_for(store, checkpoint),
            progress=progress,
        )
    if as_json or output == STDOUT:
        print_json(interactions_tree(found))
    else:
        click.echo(repr(found))
    if output is not None and output != STDOUT:
        write_interactions(found, output)
    if plot is not None:
        draw(found, plot)
