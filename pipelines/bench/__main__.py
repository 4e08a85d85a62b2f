"""Benchmarks, most of them ratios of two times: ``python -m pipelines.bench``.

The two functions of a ratio are timed alternately on the same machine, and the best of a few runs
counts. No other programs should run on the machine.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from pipelines.bench.encoding import bench_encoding
from pipelines.bench.growth import (
    bench_memory,
    bench_rounds,
    bench_scaling,
    bench_scheduler,
    bench_workers,
)
from pipelines.bench.interactions import bench_interactions, bench_screening
from pipelines.bench.killed import bench_killed
from pipelines.bench.plot import draw_curves
from pipelines.bench.remote import bench_remote
from pipelines.bench.speed import (
    bench_cached,
    bench_compare,
    bench_hofs,
    bench_related,
    bench_small,
    bench_streaming,
)
from pipelines.bench.tools import Curve, Figure, Run, Size, machine
from pipelines.bench.weights import bench_weights
from pipelines.model import Scan, fastest_scans

#: The groups of benchmarks: the function, the sizes of its data, and the sizes in a test.
GROUPS: dict[str, tuple[Callable[[Run], Iterator[Figure]], Size, Size]] = {
    "cached": (bench_cached, Size(2_000_000, 200, 5, 20), Size(3_000, 12, 5, 3)),
    "streaming": (bench_streaming, Size(2_000_000, 200, 5), Size(3_000, 12, 5)),
    "hofs": (bench_hofs, Size(1_000_000, 500, 5, 30), Size(3_000, 12, 5, 3)),
    "related": (
        bench_related,
        Size(500_000, 200, 5, 20, n_related=40),
        Size(3_000, 12, 5, 3, n_related=6),
    ),
    "compare": (bench_compare, Size(2_000_000, 100, 5, 5), Size(3_000, 12, 5, 3)),
    "remote": (bench_remote, Size(2_000_000, 200, 32), Size(3_000, 12, 5)),
    "killed": (bench_killed, Size(3_000_000, 200, 5, 12), Size(3_000, 12, 5, 3)),
    "weights": (bench_weights, Size(2_000_000, 200, n_picks=1), Size(3_000, 12, n_picks=1)),
    "interactions": (bench_interactions, Size(20_000, 1000, 3), Size(3_000, 12, 3)),
    "screening": (bench_screening, Size(100_000, 20_000, 3), Size(3_000, 12, 3)),
    "encoding": (bench_encoding, Size(2_000_000, 100), Size(3_000, 12)),
    "small": (bench_small, Size(1_000, 50), Size(200, 12, n_picks=2)),
    "scaling": (bench_scaling, Size(50_000, 100, 8, 5), Size(1_000, 4, 8, 1)),
    "workers": (bench_workers, Size(16_000_000, 100, 8, 10), Size(1_000, 12, 8, 3)),
    "rounds": (bench_rounds, Size(2_000, 250, n_picks=200), Size(500, 24, n_picks=20)),
    "memory": (bench_memory, Size(1_000_000, 100, 8, 4), Size(2_000, 12, 8, 3)),
    "scheduler": (bench_scheduler, Size(1_024, 400), Size(1_024, 8)),
}
#: Load of the machine above which a warning is printed.
BUSY = 0.5


def line(figure: Figure, *, small: bool = False) -> str:
    """Return a figure as a line of the table; with ``small`` (tiny data), without its target."""
    target = ""
    if figure.target is not None and not small:
        sign = "<=" if figure.at_most else ">="
        target = f"{sign} {figure.target:.3g} {'yes' if figure.holds else 'NO'}"
    parts = ", ".join(f"{name} {value:.3g}" for name, value in figure.parts.items())
    rest = "; ".join(filter(None, (figure.size, parts, figure.note)))
    return f"{figure.value:8.3g} {figure.unit:<17} {target:<12} {figure.name} ({rest})"


def as_json(report: Mapping[str, Sequence[object]]) -> str:
    """Return the report with one line per record."""
    lists = (
        f'"{name}": [\n' + ",\n".join(json.dumps(record) for record in records) + "\n]"
        for name, records in report.items()
    )
    return "{\n" + ",\n".join(lists) + "\n}\n"


@click.command()
@click.option(
    "--only", type=click.Choice(list(GROUPS)), multiple=True, help="A group. Can be repeated."
)
@click.option("--small", is_flag=True, help="Tiny data without processes, to test that it runs.")
@click.option("--samples", type=int, help="Number of samples. Default: that of the group.")
@click.option("--features", type=int, help="Number of features. Default: that of the group.")
@click.option("--picks", type=int, help="Number of picks. Default: that of the group.")
@click.option("--workers", default=2, show_default=True, help="Number of single-thread workers.")
@click.option(
    "--most-workers", default=32, show_default=True, help="Workers of the group scheduler."
)
@click.option("--repeats", default=2, show_default=True, help="Repetitions; the best one counts.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default="bench.json",
    show_default=True,
    help="A JSON file; plots of growth are written beside it.",
)
def main(
    only: tuple[str, ...],
    small: bool,
    samples: int | None,
    features: int | None,
    picks: int | None,
    workers: int,
    most_workers: int,
    repeats: int,
    output: Path,
) -> None:
    """Run the benchmarks, and compare their ratios with the targets."""
    about = {**machine(), "workers": workers, "repeats": repeats}
    asked = {"n_samples": samples, "n_features": features, "n_picks": picks}
    given = {name: value for name, value in asked.items() if value is not None}
    figures: list[dict[str, object]] = []
    curves: list[Curve] = []
    scans: list[Scan] = []
    click.echo(f"{about['date']}, {about['cpu']}, {about['cores']} cores, {workers} workers")
    if about["load"] > BUSY:
        click.echo(f"other processes are running: the load is {about['load']}")
    with TemporaryDirectory() as folder:
        for name in only or GROUPS:
            measure, usual, tiny = GROUPS[name]
            size = replace(tiny if small else usual, **given)
            n_workers = most_workers if name == "scheduler" and not small else workers
            run = Run(Path(folder), size, n_workers, repeats, processes=not small)
            start = time.perf_counter()
            for figure in measure(run):
                click.echo(line(figure, small=small))
                figures.append({"group": name, **asdict(figure), "holds": figure.holds})
                # saved after every figure, because a long run may be stopped
                report = {
                    "machine": [about],
                    "figures": figures,
                    "curves": [asdict(curve) for curve in [*curves, *run.curves]],
                    "scans": [asdict(scan) for scan in fastest_scans([*scans, *run.scans])],
                }
                output.write_text(as_json(report))
            click.echo(f"         {name} took {time.perf_counter() - start:.0f} s")
            curves += run.curves
            scans += run.scans
    if curves:
        draw_curves(curves, output.with_suffix(".png"))


if __name__ == "__main__":
    main()
