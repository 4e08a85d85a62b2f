"""``hofs-dask encode``: a code store of a Zarr store."""

from __future__ import annotations

from collections.abc import Hashable

import click

from hofs_dask.cli.clusters import cluster
from hofs_dask.cli.options import (
    cluster_options,
    debug_option,
    examples,
    explain_option,
    parse_features,
)
from hofs_dask.cli.running import advise


def _bins(_ctx: click.Context, _param: click.Parameter, text: str) -> int | str | None:
    if text == "none":
        return None
    if text in ("auto", "width"):
        return text
    if not text.isdecimal():
        raise click.BadParameter(f"{text!r} is neither a number nor auto, width or none")
    return int(text)


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
    epilog=examples("encode data.zarr codes.zarr --target crop --nominal soil --workers 4")
)
@click.argument("source")
@click.argument("store")
@click.option("--target", required=True, metavar="NAME", help="The variable that is the label.")
@click.option("--feature-dim", metavar="DIM", help="The dimension that holds the features.")
@click.option(
    "--nominal",
    multiple=True,
    metavar="NAME",
    help="A feature whose numbers are categories. May be given again.",
)
@click.option(
    "--target-kind",
    type=click.Choice(["auto", "class", "ordinal", "continuous"]),
    default="auto",
    show_default=True,
    help="What the label is.",
)
@click.option(
    "--bins",
    callback=_bins,
    metavar="NUMBER|auto|width|none",
    default="auto",
    show_default=True,
    help="Codes of a feature with more values; none for integers that are codes already.",
)
@click.option(
    "--chunks",
    callback=_chunks,
    metavar="SAMPLES,FEATURES",
    help="The size of a chunk. By default what --explain says.",
)
@explain_option
@cluster_options
@debug_option
def encode(
    source: str,
    store: str,
    target: str,
    feature_dim: str | None,
    nominal: tuple[str, ...],
    target_kind: str,
    bins: int | str | None,
    chunks: tuple[int, int] | None,
    explain: bool,
    scheduler: str | None,
    workers: int | None,
) -> None:
    """Write the codes of a Zarr store, a few bits a cell.

    SOURCE is read and its codes are written to STORE, from which any number of selections read. A
    STORE of the same data and options is reused, with new labels where the target is new; one of
    other data or options is replaced.
    """
    advise(lambda: "the store is not finished; the same command writes it again.")
    from hofs_dask.api import encode, estimate
    from hofs_dask.data.source import open_source

    named: list[Hashable] | None = None
    if nominal:
        names = open_source(source, target, feature_dim=feature_dim).names
        named = parse_features(nominal, names)
    with cluster(scheduler, workers):
        if explain:
            plan = estimate(
                source,
                target=target,
                feature_dim=feature_dim,
                nominal=named,
                target_kind=target_kind,
                bins=bins,
                chunks=chunks,
            )
            click.echo(str(plan))
            return
        codes = encode(
            source,
            target,
            store,
            feature_dim=feature_dim,
            nominal=named,
            target_kind=target_kind,
            bins=bins,
            chunks=chunks,
        )
    click.echo(repr(codes))
