"""``hofs-dask demo``: a selection from synthetic data with known subsets."""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import click

from hofs_dask.cli.clusters import cluster
from hofs_dask.cli.options import debug_option, examples
from hofs_dask.cli.output import draw


@click.command(epilog=examples("demo --samples 20000 --output /tmp/demo"))
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default="hofs-demo",
    show_default=True,
    help="Directory to write the data, the result and the figure to.",
)
@click.option(
    "--samples",
    type=click.IntRange(min=100),
    default=100_000,
    show_default=True,
    help="Number of samples to draw.",
)
@click.option(
    "--criterion",
    type=click.Choice(["joint", "sum", "mean"]),
    default="joint",
    show_default=True,
    help="Criterion of HOFS. joint: cross-fitted information of all chosen features. sum: the "
    "criterion of the paper. mean: the criterion of the authors' program.",
)
@debug_option
def demo(output: Path, samples: int, criterion: Literal["joint", "sum", "mean"]) -> None:
    """Select features of synthetic data on a local cluster.

    The data has nine features and is written to a chunked Zarr store. A local Dask cluster of two
    processes then ranks the features and groups them into subsets. The correct subsets are
    {x1 x4 x5}, {x2 x6 x7} and {x3 x8 x9}.
    """
    from hofs_dask.api import select
    from hofs_dask.demo import summary, write_data
    from hofs_dask.methods.hofs import HOFS

    output.mkdir(parents=True, exist_ok=True)
    data = output / "tree.zarr"
    write_data(data, samples)
    click.echo(f"{samples} samples of nine features and the label y: {data}")
    with cluster(None, 2) as client:
        assert client is not None
        click.echo(f"Dask cluster of 2 processes: {client.dashboard_link}\n")
        start = time.perf_counter()
        result = select(data, "y", n_features=9, method=HOFS(criterion=criterion))
        seconds = time.perf_counter() - start
    click.echo(summary(result))
    result.to_zarr(output / "result.zarr")
    click.echo(f"\nresult   {output / 'result.zarr'}")
    if find_spec("matplotlib") is None:
        click.echo("picture  none: pip install 'hofs-dask[plot]'")
    else:
        draw(result, output / "result.png")
        click.echo(f"picture  {output / 'result.png'}")
    click.echo(f"time     {seconds:.1f} s")
