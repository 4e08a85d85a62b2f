"""Select features from a Zarr store on a local Dask cluster, and print what was found."""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from distributed import Client, LocalCluster
from matplotlib.figure import Figure

import hofs_dask as hd
from hofs_dask.config import Criterion
from hofs_dask.synthetic import tree_information, tree_model

CHUNK = 10_000


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the data, select, print and save."""
    options = _parser().parse_args(arguments)
    output: Path = options.output
    output.mkdir(parents=True, exist_ok=True)
    data = output / "tree.zarr"
    model = tree_model(options.samples, chunks=min(CHUNK, options.samples))
    model.to_zarr(data, mode="w", consolidated=False)
    print(f"{options.samples} samples of nine features and the label y: {data}")

    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.ERROR,
        ) as cluster,
        Client(cluster),
    ):
        print(f"Dask cluster of {len(cluster.workers)} processes: {cluster.dashboard_link}\n")
        start = time.perf_counter()
        result = hd.select(data, "y", n_features=9, method=hd.HOFS(criterion=options.criterion))
        seconds = time.perf_counter() - start

    print(summary(result))
    result.to_zarr(output / "result.zarr")
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    result.plot(figure.add_subplot())
    figure.savefig(output / "result.png", dpi=150)
    print(f"\nresult   {output / 'result.zarr'}\npicture  {output / 'result.png'}")
    print(f"time     {seconds:.1f} s")


def summary(result: hd.Selection) -> str:
    """Return the ranked subsets, one line each, and the figures of each feature.

    Parameters
    ----------
    result : Selection
        A selection from the tree model.
    """
    data = result.to_dataset()
    relevance = dict(zip(data["feature"].values.tolist(), data["relevance"].values, strict=True))
    gain = dict(zip(result.features, data["gain"].values, strict=True))
    width = max(len(" ".join(names)) for names in result.subsets)
    lines = []
    for number, names in enumerate(result.subsets, start=1):
        alone = " ".join(f"{relevance[name]:.3f}" for name in names)
        added = " ".join(f"{gain[name]:.3f}" for name in names)
        members = " ".join(names).ljust(width)
        lines.append(f"subset {number}   {members}   relevance {alone}   gain {added} nats")
    lines += ["", "rank  feature  subset    gain  information  relevance  true relevance"]
    epoch = 0
    for rank, name in enumerate(result.features):
        row = data.isel(rank=rank)
        fresh, epoch = int(row["epoch"]) > epoch, int(row["epoch"])
        lines.append(
            f"{rank + 1:>4}  {name:<7}  {int(row['subset']) + 1:>6}  {gain[name]:>6.3f}"
            f"  {float(row['information']):>11.3f}  {relevance[name]:>9.3f}"
            f"  {tree_information(name):>14.3f}{'  fresh start' if fresh else ''}"
        )
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="demo.sh",
        description="Draw samples of a tree of nine features under a label y, write them as a "
        "chunked Zarr store, and select all nine on a local Dask cluster. The features come in "
        "three families, {x1 x4 x5}, {x2 x6 x7} and {x3 x8 x9}: the subsets to be found.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--samples", type=_positive, default=100_000, help="number of samples")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("hofs-demo"),
        help="folder for the data, the result and the picture",
    )
    parser.add_argument(
        "--criterion",
        choices=get_args(Criterion),
        default="joint",
        help="what HOFS maximises: joint (out of sample), sum (the paper's), mean (its program's)",
    )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 100:
        raise argparse.ArgumentTypeError(f"{number} samples are too few: give 100 or more")
    return number


if __name__ == "__main__":
    main()
