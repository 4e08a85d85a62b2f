"""``hofs-dask select``: ranked features by one method."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hofs_dask.cli.checkpoints import how_to_go_on, rounds_in
from hofs_dask.cli.clusters import cluster
from hofs_dask.cli.methods import method_list, parse_method
from hofs_dask.cli.options import (
    check_store,
    cluster_options,
    debug_option,
    examples,
    explain_option,
    features_of,
    n_features_option,
    progress_option,
    reading_options,
    search_options,
    target_option,
)
from hofs_dask.cli.output import check_picture, draw, output_check, write_selection
from hofs_dask.cli.running import advise

if TYPE_CHECKING:
    from hofs_dask.methods.base import Method
    from hofs_dask.search.events import Event


@click.command(
    epilog=method_list()
    + "\n\n"
    + examples(
        "select codes.zarr --n-features 30 --checkpoint run --output result.zarr",
        "select data.zarr --target y --n-features 5 --option criterion=sum",
        "select codes.zarr --n-features 30 --method mifs --option beta=0.5 --plot result.png",
        "select codes.zarr --n-features 30 --scheduler tcp://host:8786",
        "select data.zarr --target y --n-features 30 --workers 4 --explain",
    )
)
@click.argument("store")
@n_features_option
@click.option(
    "--method",
    default="hofs",
    show_default=True,
    metavar="NAME",
    help="How to choose them: a name of the list below.",
)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    help="An option of the method, such as criterion=sum. May be given again.",
)
@target_option
@reading_options
@search_options
@click.option(
    "--output",
    callback=output_check("selection"),
    metavar="PATH",
    help="Where to keep the result: .zarr or .nc hold all of it, .json and .csv the ranks.",
)
@click.option(
    "--plot",
    callback=check_picture,
    metavar="FILE",
    help="Where to draw the information by rank: .png, .svg or .pdf.",
)
@progress_option("round")
@explain_option
@cluster_options
@debug_option
def select(
    store: str,
    n_features: int,
    method: str,
    options: tuple[str, ...],
    target: str | None,
    feature_dim: str | None,
    nominal: tuple[str, ...],
    target_kind: str,
    bins: int | str | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    min_gain: float | None,
    checkpoint: str | None,
    output: str | None,
    plot: str | None,
    progress: bool | None,
    explain: bool,
    scheduler: str | None,
    workers: int | None,
) -> None:
    """Choose features, ranked, in subsets that work together.

    STORE is a code store, or any Zarr store, which then is encoded first, for this run alone.
    """
    chosen = _method(method, options)
    done = 0

    def listen(event: Event) -> None:
        nonlocal done
        if isinstance(event, RoundStarted):
            done = event.rank - 1
        elif isinstance(event, RoundEnded):
            done = event.rank

    def advice() -> str:
        return how_to_go_on(rounds_in(checkpoint) if checkpoint else done, n_features, checkpoint)

    advise(advice)
    from hofs_dask.api import estimate, select
    from hofs_dask.search.events import RoundEnded, RoundStarted

    check_store(store, target)
    included, excluded, named = (
        features_of(texts, store, target, feature_dim) for texts in (include, exclude, nominal)
    )
    if explain:
        with cluster(scheduler, workers):
            plan = estimate(
                store,
                target,
                n_features,
                method=chosen,
                feature_dim=feature_dim,
                nominal=named or None,
                target_kind=target_kind,
                bins=bins,
                include=included,
                exclude=excluded,
            )
        click.echo(str(plan))
        return
    with cluster(scheduler, workers):
        result = select(
            store,
            target,
            n_features,
            method=chosen,
            feature_dim=feature_dim,
            nominal=named or None,
            target_kind=target_kind,
            bins=bins,
            include=included,
            exclude=excluded,
            min_gain=min_gain,
            checkpoint=checkpoint,
            callback=listen,
            progress=progress,
        )
    # First what cannot fail, so that the result of a long run is not lost with a full disk.
    click.echo(repr(result))
    if output is not None:
        write_selection(result, output)
    if plot is not None:
        draw(result, plot)


def _method(name: str, options: tuple[str, ...]) -> Method:
    try:
        parse_method(name)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--method") from error
    try:
        return parse_method(name, options)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--option") from error
