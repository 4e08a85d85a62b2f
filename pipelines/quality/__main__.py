"""Evaluate methods on a folder of data sets: ``python -m pipelines.quality``."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from pipelines.paper.data import load
from pipelines.quality.protocol import (
    CLASSIFIERS,
    Run,
    fold_errors,
    folds,
    reduced,
    stored_errors,
    table,
)


def _run_of(word: str, tag: str) -> Run:
    method, _, own = word.partition("@")
    return Run(method, own or tag)


@click.command()
@click.option(
    "--data",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of .npz files with X, y and feature_kinds.",
)
@click.option(
    "--cache",
    default="hofs-quality",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of results, which are reused.",
)
@click.option(
    "--methods",
    default="hofs,mim,mifs,mrmr,jmi,cmim,spec_cmi,vmi",
    show_default=True,
    help="Methods, separated by commas. 'hofs@variant1' has a tag of its own. The first one is "
    "tested against the others.",
)
@click.option(
    "--sets",
    help="Names of sets, separated by commas. Default: all. With 'musk2-grouped', folds of samples "
    "and of cross-fitting keep groups together.",
)
@click.option("--tag", default="before", show_default=True, help="Version that is evaluated.")
@click.option("--stored", is_flag=True, help="Only print the tables of stored results.")
def main(data: Path, cache: Path, methods: str, sets: str | None, tag: str, stored: bool) -> None:
    """Evaluate methods by a linear SVM, 3-NN and a forest, selected inside the folds."""
    runs = [_run_of(word, tag) for word in methods.split(",")]
    names = sets.split(",") if sets else sorted(path.stem for path in data.glob("*.npz"))
    rows = []
    for name in names:
        found = reduced(load(name, data))
        if not stored:
            for run in runs:
                for fold in range(len(folds(found))):
                    fold_errors(found, fold, run, cache)
            click.echo(f"{name}: {found.n_samples} x {found.n_features}", err=True)
        errors = [stored_errors(found, run, cache) for run in runs]
        if all(error is not None for error in errors):
            rows.append([[error[c] for c in CLASSIFIERS] for error in errors if error])
    if not rows:
        raise click.ClickException(
            f"no set of {data} has stored results of all of {methods}; run without --stored"
        )
    everything = np.array(rows)
    labels = [run.label for run in runs]
    for i, classifier in enumerate(CLASSIFIERS):
        click.echo(table(everything[:, :, i], labels, classifier) + "\n")


if __name__ == "__main__":
    main()
