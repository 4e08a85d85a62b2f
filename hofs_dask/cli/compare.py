"""``hofs-dask compare``: what several methods choose, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hofs_dask.cli.checkpoints import how_to_go_on, rounds_in_parts
from hofs_dask.cli.clusters import cluster
from hofs_dask.cli.methods import method_list, parse_methods
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
from hofs_dask.cli.output import check_picture, draw, output_check, write_comparison
from hofs_dask.cli.running import advise
from hofs_dask.methods.registry import METHODS

if TYPE_CHECKING:
    from hofs_dask.methods.base import Method
    from hofs_dask.search.events import Event


def _resamples(_ctx: click.Context, _param: click.Parameter, number: int) -> int:
    if number == 1:
        raise click.BadParameter("1 is given, and one cannot be compared; give 2 or more, or 0")
    return number


@click.command(
    epilog=method_list()
    + "\n\n"
    + examples(
        "compare codes.zarr --n-features 30 --checkpoint run --output compared.zarr",
        "compare codes.zarr --n-features 10 --method hofs,jmi,mifs:beta=0.5 --plot compared.png",
        "compare codes.zarr --n-features 10 --method hofs,hofs:criterion=sum --resamples 20",
    )
)
@click.argument("store")
@n_features_option
@click.option(
    "--method",
    "methods",
    multiple=True,
    callback=parse_methods,
    metavar="NAME[:KEY=VALUE...],...",
    help="Names of the list below, each with its options after colons. May be given again.  "
    f"[default: {','.join(METHODS)}]",
)
@click.option(
    "--resamples",
    type=click.IntRange(min=0),
    default=0,
    callback=_resamples,
    metavar="K",
    help="Bootstrap resamples that every method also chooses from, to see how stable it is.",
)
@target_option
@reading_options
@search_options
@click.option(
    "--output",
    callback=output_check("comparison"),
    metavar="PATH",
    help="Where to keep the result: .zarr or .nc hold all of it, .json and .csv the ranks.",
)
@click.option(
    "--plot",
    callback=check_picture,
    metavar="FILE",
    help="Where to draw the ranks side by side: .png, .svg or .pdf.",
)
@progress_option("scan over the data")
@explain_option
@cluster_options
@debug_option
def compare(
    store: str,
    n_features: int,
    methods: dict[str, Method],
    resamples: int,
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
    """Choose features by several methods, which share their scans over the data.

    STORE is a code store, or any Zarr store, which then is encoded first, for this run alone.
    """
    done = dict.fromkeys(methods, 0)

    def listen(event: Event) -> None:
        if isinstance(event, RoundStarted):
            done[event.method] = event.rank - 1
        elif isinstance(event, RoundEnded):
            done[event.method] = event.rank

    def advice() -> str:
        n_runs = 1 + resamples
        if checkpoint is None:
            return how_to_go_on(sum(done.values()), n_features * len(methods), None)
        kept = rounds_in_parts(checkpoint, methods, n_features, n_runs)
        return how_to_go_on(kept, n_features * len(methods) * n_runs, checkpoint)

    advise(advice)
    from hofs_dask.api import compare, estimate
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
                method=methods.values(),
                n_resamples=resamples,
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
        result = compare(
            store,
            target,
            n_features,
            methods=methods.values(),
            n_resamples=resamples,
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
        write_comparison(result, output)
    if plot is not None:
        draw(result, plot)
