"""Evaluate methods on generated data: ``python -m pipelines.quality.generated``."""

from __future__ import annotations

from collections.abc import Sequence

import click
import dask
import numpy as np
from sklearn.linear_model import LogisticRegression

import hofs_dask as hd
from pipelines.paper.data import DataSet
from pipelines.quality.models import N_COPIES, N_GROUPS, groups_found, wide

N_COPIED = N_GROUPS * N_COPIES
N_TEST = 5000


def evaluate_wide(
    n_features: int, seed: int, methods: Sequence[str], n_picks: int
) -> list[tuple[float, ...]]:
    """Return how many latent variables of `wide` each method found, and two other numbers.

    These are the number of noise features that the method chose, and the accuracy of a logistic
    regression on new samples.

    Parameters
    ----------
    n_features, seed
        Number of features and seed of the data, which has 500 samples.
    methods
        Names of the methods.
    n_picks
        Number of features to choose.
    """
    data = wide(500, n_features, seed)
    other = wide(N_TEST, N_COPIED, seed + 10_000)
    with dask.config.set(scheduler="synchronous"):
        found = hd.compare(data.x, data.y, n_picks, methods=methods, progress=False)
    return [_evaluated(data, other, found[name].indices.tolist(), seed) for name in methods]


def _evaluated(
    data: DataSet, other: DataSet, ranking: list[int], seed: int
) -> tuple[float, float, float]:
    """Return groups found, noise features and the accuracy on the other samples."""
    noise = np.random.default_rng((seed, N_TEST)).normal(size=(N_TEST, len(ranking)))
    test = np.column_stack(
        [other.x[:, j] if j < N_COPIED else noise[:, i] for i, j in enumerate(ranking)]
    )
    model = LogisticRegression(max_iter=1000).fit(data.x[:, ranking], data.y)
    n_noise = sum(feature >= N_COPIED for feature in ranking)
    return groups_found(ranking), n_noise, float(model.score(test, other.y))


@click.command()
@click.option("--features", default=8000, show_default=True, help="Number of features.")
@click.option("--seeds", default=20, show_default=True, help="Number of data sets.")
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option("--picks", default=20, show_default=True, help="Number of features to choose.")
@click.option("--methods", default="hofs,mim,mifs,mrmr,jmi,cmim,spec_cmi,vmi", show_default=True)
def main(features: int, seeds: int, first: int, picks: int, methods: str) -> None:
    """Compare methods on 500 samples with ten causes of six copies each among many features."""
    names = methods.split(",")
    rows = []
    for seed in range(first, first + seeds):
        rows.append(evaluate_wide(features, seed, names, picks))
        each = ", ".join(
            f"{name} {row[0]} {row[1]} {row[2]:.4f}"
            for name, row in zip(names, rows[-1], strict=True)
        )
        click.echo(f"seed {seed}: {each}", err=True)
    found = np.array(rows)
    mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(seeds)
    click.echo("| method | groups found | noise features | accuracy | minus the first |")
    click.echo("|---|--:|--:|--:|--:|")
    for i, name in enumerate(names):
        difference = found[:, i, 2] - found[:, 0, 2]
        spread = difference.std(ddof=1) / np.sqrt(seeds)
        cells = [f"{m:.2f} +- {e:.2f}" for m, e in zip(mean[i, :2], error[i, :2], strict=True)]
        accuracy = f"{mean[i, 2]:.4f} +- {error[i, 2]:.4f}"
        against = f"{difference.mean():+.4f} +- {spread:.4f}"
        click.echo(f"| {name} | {cells[0]} | {cells[1]} | {accuracy} | {against} |")


if __name__ == "__main__":
    main()
