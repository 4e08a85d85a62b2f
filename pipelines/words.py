"""Choose the words that tell texts apart: ``python -m pipelines.words``.

The texts are the docstrings of installed packages, so nothing is downloaded. With one package, the
target is the part of it (such as ``signal`` of scipy); with several, the package.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import pkgutil
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from dask.delayed import delayed
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

import hofs_dask as hd

HERE = Path(__file__).parent
#: Texts that a chunk holds.
CHUNK = 2000


def documents(*packages: str, least: int = 75) -> tuple[list[str], list[str]]:
    """Return the docstrings of packages, and the part or the package that each one belongs to.

    Parts with fewer than `least` docstrings are left out.

    Examples
    --------
    >>> texts, parts = documents("scipy")
    >>> len(texts) == len(parts), "signal" in parts
    (True, True)
    """
    found: dict[str, str] = {}
    for package in packages:
        for module in _parts(importlib.import_module(package)):
            label = module.__name__.split(".")[0 if len(packages) > 1 else 1]
            for text in _docstrings(module):
                found.setdefault(text, label)
    labels = list(found.values())
    kept = {label for label in labels if labels.count(label) >= least}
    texts = [text for text, label in found.items() if label in kept]
    return texts, [label for label in labels if label in kept]


def _parts(package: ModuleType) -> Iterator[ModuleType]:
    for part in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        name = part.name.rpartition(".")[2]
        if name.startswith("_") or name in {"conftest", "tests", "testing"}:
            continue
        with warnings.catch_warnings(), contextlib.suppress(ImportError):
            warnings.simplefilter("ignore")  # deprecated parts
            yield importlib.import_module(part.name)


def _docstrings(module: ModuleType) -> Iterator[str]:
    for name in vars(module).get("__all__", ()):
        thing = getattr(module, name, None) if name in vars(module) else None
        members = vars(thing).items() if inspect.isclass(thing) else ()
        for each in (thing, *(value for key, value in members if not key.startswith("_"))):
            text = inspect.getdoc(each) if callable(each) else None
            if text and len(text) > 150:
                yield text


def occurrences(texts: Sequence[str], left_out: Sequence[str], rare: int = 10) -> xr.DataArray:
    """Return which text (sample) has which word: 0 or 1, one lazy chunk per 2000 texts.

    Words that occur in fewer than `rare` texts, and the words `left_out`, are not features.

    Examples
    --------
    >>> occurrences(["a filter", "the filter of a matrix"], ["matrix"], rare=1).compute().values
    array([[1, 0],
           [1, 1]], dtype=uint8)
    """
    options: dict[str, Any] = {"binary": True, "dtype": np.uint8, "token_pattern": "[a-z]{3,}"}
    counted = CountVectorizer(min_df=rare, stop_words=list(left_out), **options).fit(texts)
    words = counted.get_feature_names_out()
    chunks = [texts[start : start + CHUNK] for start in range(0, len(texts), CHUNK)]
    parts = [
        da.from_delayed(
            delayed(lambda some: counted.transform(some).toarray())(chunk),
            (len(chunk), len(words)),
            np.uint8,
        )
        for chunk in chunks
    ]
    coords = {"word": words.astype(object)}
    return xr.DataArray(da.concatenate(parts), coords, ("sample", "word"), "occurs")


def draw_accuracy(
    words: xr.DataArray, part: xr.DataArray, train: np.ndarray, chosen: dict[str, list[Any]]
) -> None:
    """Draw which share of the other texts a logistic regression on the first words gets right."""
    most = len(next(iter(chosen.values())))
    numbers = np.unique(np.geomspace(2, most, 7).round().astype(int))

    def accuracy(columns: list[Any]) -> float:
        table = words.sel(word=columns).compute().values
        model = LogisticRegression(max_iter=1000).fit(table[train], part[train])
        return float(model.score(table[~train], part[~train]))

    for method, columns in chosen.items():
        shares = [accuracy(columns[:number]) for number in numbers]
        plt.plot(numbers, shares, "o-", label=method)
    everything = accuracy(words["word"].values.tolist())
    label = f"all {words.sizes['word']} words"
    plt.axhline(everything, color="grey", linestyle=":", label=label)
    plt.xlabel("words")
    plt.ylabel("share of texts")
    plt.title("texts whose part is predicted", fontsize=10)
    plt.legend(frameon=False)


@click.command()
@click.option("--package", "packages", multiple=True, default=("scipy",), show_default=True)
@click.option("--words", "n_words", default=20, show_default=True, help="Words to choose.")
@click.option("--rare", default=10, show_default=True, help="Leave out words of fewer texts.")
@click.option("--method", "methods", multiple=True, default=("hofs", "jmi", "mim"))
@click.option("--output", type=click.Path(path_type=Path), default=HERE, show_default=True)
def main(
    packages: tuple[str, ...], n_words: int, rare: int, methods: tuple[str, ...], output: Path
) -> None:
    """Choose words from three of four texts, and draw how well they predict the others."""
    plt.switch_backend("agg")
    texts, labels = documents(*packages)
    part = xr.DataArray(labels, dims="sample", name="part of a library")
    # The name of a part in a text would be the answer.
    words = occurrences(texts, sorted(set(labels)), rare)
    train = np.arange(len(texts)) % 4 != 0
    print(f"{len(texts)} texts, {words.sizes['word']} words, {len(set(labels))} classes")
    options: dict[str, Any] = {"feature_dim": "word", "where": train}
    compared = hd.compare(words, part, n_words, methods=methods, **options)
    for method, columns in compared.features.items():
        print(f"{method}: {' '.join(columns)}")
    draw_accuracy(words, part, train, compared.features)
    (output / "figures").mkdir(parents=True, exist_ok=True)
    plt.savefig(output / "figures" / "words.png", dpi=90, bbox_inches="tight")


if __name__ == "__main__":
    main()
