"""Which methods find features that have information only together: models of epistasis.

Every attribute is the genotype of a locus: 0, 1 or 2 minor alleles, in Hardy-Weinberg proportions.
The probability of a case (the penetrance) depends on the genotypes of two or three causal loci
together, but on no smaller set of them. Results are in EPISTASIS.md::

    python -m venv others
    others/bin/pip install mdfs skrebate
    python -m pipelines.epistasis --others others/bin/python

MDFS and ReliefF are run in this other environment. Without ``--others`` they are left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

#: Samples of a data set, half of them cases.
N_SAMPLES = 1600
#: Number of features that a method ranks.
N_RANKED = 10
#: Range of the minor allele frequencies of loci without effect.
FREQUENCIES = (0.05, 0.5)
#: Number of random directions, and of steps of the search for a table of high heritability.
N_DIRECTIONS, N_STEPS = 200, 2000
#: Largest number of attributes for which all triples are compared, and for which ReliefF is run
#: on more than one data set.
MOST_FOR_TRIPLES, MOST_FOR_RELIEF = 100, 100
#: Data sets of a model and a heritability, by number of attributes.
N_SETS = {20: 10, 100: 5, 1000: 2}
HERITABILITIES = (0.1, 0.4)
MODELS = ("two-way", "two pairs", "three-way")
RESULTS = Path(__file__).parent / "results" / "epistasis.json"

#: A function of attributes, labels and order that returns features, best first.
Rank = Callable[[np.ndarray, np.ndarray, int], Sequence[int]]


def genotype_shares(frequency: float) -> np.ndarray:
    """Return the shares of 0, 1 and 2 minor alleles in Hardy-Weinberg proportions.

    Examples
    --------
    >>> genotype_shares(0.5).tolist()
    [0.25, 0.5, 0.25]
    """
    q = frequency
    return np.array([(1 - q) ** 2, 2 * q * (1 - q), q**2])


@dataclass(frozen=True)
class Penetrance:
    """A model of the probability of a case given the genotypes of some loci.

    Attributes
    ----------
    table
        The probability of a case, with an axis of three genotypes for each locus.
    shares
        The share of each combination of genotypes in the population.
    """

    table: np.ndarray
    shares: np.ndarray

    @property
    def prevalence(self) -> float:
        """The share of cases in the population."""
        return float((self.shares * self.table).sum())

    @property
    def heritability(self) -> float:
        """The variance of the penetrance, divided by the variance of the case indicator."""
        k = self.prevalence
        return float((self.shares * (self.table - k) ** 2).sum() / (k * (1 - k)))

    def margins(self) -> Iterator[np.ndarray]:
        """Yield the penetrance given all loci but one, for each locus that is left out."""
        for axis in range(self.table.ndim):
            total = self.shares.sum(axis=axis)
            yield (self.shares * self.table).sum(axis=axis) / total

    def draw(self, n_samples: int, *, cases: bool, rng: np.random.Generator) -> np.ndarray:
        """Return the genotypes of cases or controls, (sample, locus)."""
        weights = self.shares * (self.table if cases else 1 - self.table)
        cells = rng.choice(weights.size, n_samples, p=weights.ravel() / weights.sum())
        return np.stack(np.unravel_index(cells, weights.shape), axis=1)


def pure_table(
    frequencies: Sequence[float], heritability: float | None, rng: np.random.Generator
) -> Penetrance:
    """Return a penetrance table whose margins are all equal to the prevalence.

    Parameters
    ----------
    frequencies
        The minor allele frequency of each locus.
    heritability
        The heritability of the table; None for the largest that is found.
    rng
        Generator of random directions.

    Notes
    -----
    A table ``K + d`` has equal margins if d is a sum of products of functions of single loci that
    have the mean zero. Let d be between ``-a`` and ``b``, and V its variance. Of all multiples of
    d, the one with ``K = a / (a + b)`` has the largest heritability, ``V / (a b)``. With a smaller
    multiple, any smaller heritability is reached.

    Examples
    --------
    >>> found = pure_table([0.3, 0.3], 0.2, np.random.default_rng(0))
    >>> round(found.heritability, 6), np.ptp(next(found.margins())) < 1e-9
    (0.2, True)
    """
    shares = [genotype_shares(frequency) for frequency in frequencies]
    whole = shares[0]
    for share in shares[1:]:
        whole = np.multiply.outer(whole, share)
    # for each locus, two functions with the mean zero: the null space of its shares
    contrasts = [np.linalg.svd(share[None])[2][1:] for share in shares]
    basis = []
    for functions in product(*contrasts):
        cell = functions[0]
        for function in functions[1:]:
            cell = np.multiply.outer(cell, function)
        basis.append(cell)
    space = np.array(basis)

    def largest(weights: np.ndarray) -> float:
        d = np.tensordot(weights, space, axes=1)
        return float((whole * d**2).sum() / (-d.min() * d.max()))

    candidates = rng.normal(size=(N_DIRECTIONS, len(space)))
    reached = np.array([largest(weights) for weights in candidates])
    enough = np.flatnonzero(reached >= (np.inf if heritability is None else heritability))
    weights = candidates[enough[0] if len(enough) else reached.argmax()]
    if not len(enough):
        best, scale = largest(weights), 0.5
        for step in range(N_STEPS):
            other = weights + scale * rng.normal(size=len(space)) * np.abs(weights).mean()
            if (value := largest(other)) > best:
                weights, best = other, value
            if heritability is not None and best >= heritability:
                break
            scale = 0.5 * 0.998**step
        else:
            if heritability is not None:
                raise ValueError(f"no table of heritability {heritability} found; best {best:.3f}")
    d = np.tensordot(weights, space, axes=1)
    low, high = -d.min(), d.max()
    k = low / (low + high)
    best = largest(weights)
    size = np.sqrt(1.0 if heritability is None else heritability / best) / (low + high)
    return Penetrance(k + size * d, whole)


@dataclass(frozen=True)
class Sample:
    """Attributes (sample, locus), the label of each sample, and the causal tuples of loci."""

    x: np.ndarray
    y: np.ndarray
    causal: tuple[tuple[int, ...], ...]


def make_sample(
    model: str, heritability: float, n_attributes: int, frequency: float, seed: int
) -> Sample:
    """Return a data set of a model, with as many cases as controls.

    Each data set has penetrance tables of its own. With ``"two pairs"``, one half of the cases and
    controls is drawn with the table of the first pair, the other half with that of the second.

    Examples
    --------
    >>> made = make_sample("two pairs", 0.2, 20, 0.3, seed=0)
    >>> made.x.shape, made.y.mean(), [len(each) for each in made.causal]
    ((1600, 20), 0.5, [2, 2])
    """
    rng = np.random.default_rng([MODELS.index(model), n_attributes, seed])
    order = 3 if model == "three-way" else 2
    n_tuples = 2 if model == "two pairs" else 1
    noise = rng.uniform(*FREQUENCIES, n_attributes)
    x = rng.binomial(2, noise, (N_SAMPLES, n_attributes))
    y = np.arange(N_SAMPLES) % 2
    loci = rng.permutation(n_attributes)[: n_tuples * order].reshape(n_tuples, order)
    for position, own in enumerate(loci):
        table = pure_table([frequency] * order, heritability, rng)
        some = np.arange(N_SAMPLES) // 2 % n_tuples == position
        x[:, own] = (
            rng.choice(3, (N_SAMPLES, order), p=genotype_shares(frequency)) * ~some[:, None]
            + x[:, own] * some[:, None]
        )
        for label in (0, 1):
            rows = np.flatnonzero(some & (y == label))
            x[np.ix_(rows, own)] = table.draw(len(rows), cases=bool(label), rng=rng)
    return Sample(x, y, tuple(tuple(each) for each in np.sort(loci, axis=1).tolist()))


def by_interactions(x: np.ndarray, y: np.ndarray, order: int) -> list[int]:
    """Return the features of the tuples with the most synergy, in the order of the tuples."""
    import hofs_dask as hd

    found = hd.interactions(x, y, order=order, top=20, bins=None)
    return list(dict.fromkeys(found.indices.ravel().tolist()))


def by_method(name: str, x: np.ndarray, y: np.ndarray, order: int) -> list[int]:
    """Return the first features that a method of this package selects."""
    import hofs_dask as hd

    method = hd.HOFS(order=3) if name == "hofs" and order == 3 else name
    picks: list[int] = hd.select(x, y, N_RANKED, method=method, bins=None).indices.tolist()
    return picks


def by_mdfs(x: np.ndarray, y: np.ndarray, order: int) -> list[int]:
    """Return features by their largest information gain in a tuple, with MDFS.

    Its function for discrete data fails in version 1.5.2. The one for numbers is used instead, with
    three intervals for the three genotypes.
    """
    mdfs: Any = import_module("mdfs")

    data = np.asfortranarray(x, dtype=float)
    labels = y.astype(np.int32)
    found = mdfs.compute_max_ig(data, labels, dimensions=order, divisions=2, range_=0, seed=0)
    ranks: list[int] = np.argsort(-np.array(found.max_igs), kind="stable").tolist()
    return ranks


def by_relief(x: np.ndarray, y: np.ndarray, order: int) -> list[int]:  # noqa: ARG001
    """Return features by their weight in ReliefF, with its default of 100 neighbours."""
    skrebate: Any = import_module("skrebate")

    found = skrebate.ReliefF(n_neighbors=100).fit(x.astype(float), y)
    ranks: list[int] = np.argsort(-found.feature_importances_, kind="stable").tolist()
    return ranks


OTHERS: dict[str, Rank] = {"MDFS": by_mdfs, "ReliefF": by_relief}


def rank_by_others(
    python: str, sample: Sample, order: int, names: Sequence[str]
) -> dict[str, list[int]]:
    """Return the ranking of each program of the other environment."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.npz"
        np.savez(path, x=sample.x, y=sample.y)
        command = [python, __file__, "--rank", str(path), str(order), *names]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    ranks: dict[str, list[int]] = json.loads(done.stdout.splitlines()[-1])
    return ranks


def run(
    sets: dict[int, int],
    frequency: float,
    others: str | None,
    *,
    models: Sequence[str] = MODELS,
    heritabilities: Sequence[float] = HERITABILITIES,
    path: Path = RESULTS,
) -> None:
    """Run all methods on all models, and write the results after every data set.

    Parameters
    ----------
    sets
        Number of data sets by number of attributes.
    frequency
        Minor allele frequency of causal loci.
    others
        Python of an environment with MDFS and skrebate, or None.
    models, heritabilities
        The models to draw from.
    path
        File of the results. Data sets that it has are not run again.
    """
    from hofs_dask.methods.registry import METHOD_NAMES

    rows = json.loads(path.read_text()) if path.exists() else []
    done = {(row["model"], row["h"], row["m"], row["seed"]) for row in rows}
    for m, model, h in product(sets, models, heritabilities):
        if model == "three-way" and m > MOST_FOR_TRIPLES:
            continue
        order = 3 if model == "three-way" else 2
        for seed in range(sets[m]):
            if (model, h, m, seed) in done:
                continue
            sample = make_sample(model, h, m, frequency, seed)
            ours: dict[str, Rank] = {"interactions": by_interactions}
            ours |= {name: partial(by_method, name) for name in METHOD_NAMES}
            ranks, seconds = {}, {}
            for name, rank in ours.items():
                start = time.perf_counter()
                ranks[name] = list(rank(sample.x, sample.y, order))[:N_RANKED]
                seconds[name] = round(time.perf_counter() - start, 3)
            if others:
                names = [
                    name
                    for name in OTHERS
                    if name != "ReliefF" or m <= MOST_FOR_RELIEF or seed == 0
                ]
                found = rank_by_others(others, sample, order, names)
                ranks |= {name: each[:N_RANKED] for name, each in found.items()}
            row = {"model": model, "h": h, "m": m, "seed": seed, "causal": sample.causal}
            rows.append(row | {"ranks": ranks, "seconds": seconds})
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(rows))
            print(model, h, m, seed, {name: each[:4] for name, each in ranks.items()}, flush=True)


def table_of(rows: Sequence[dict[str, Any]], m: int) -> str:
    """Return a table of the results for one number of attributes.

    An entry is the share of data sets in which all causal features have the first ranks, and the
    share of causal features among the first ten ranks, in percent.
    """
    some = [row for row in rows if row["m"] == m]
    cells = list(dict.fromkeys((row["model"], row["h"]) for row in some))
    names = list(dict.fromkeys(name for row in some for name in row["ranks"]))
    lines = ["| method | " + " | ".join(f"{model}, {h}" for model, h in cells) + " |"]
    lines.append("|---|" + "--:|" * len(cells))
    for name in names:
        entries = []
        for cell in cells:
            own = [row for row in some if (row["model"], row["h"]) == cell and name in row["ranks"]]
            first, ten = [], []
            for row in own:
                causal = {feature for each in row["causal"] for feature in each}
                first.append(set(row["ranks"][name][: len(causal)]) == causal)
                ten.append(len(causal & set(row["ranks"][name])) / len(causal))
            entries.append(f"{100 * np.mean(first):.0f} / {100 * np.mean(ten):.0f}" if own else "")
        lines.append(f"| `{name}` | " + " | ".join(entries) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run the methods, or print the tables of their results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--others", help="Python of an environment with mdfs and skrebate")
    parser.add_argument("--frequency", type=float, default=0.3, help="of causal minor alleles")
    parser.add_argument("--sets", help="data sets by attributes, for example 20:20,100:10")
    parser.add_argument("--tables", action="store_true", help="print the tables of the results")
    parser.add_argument("--rank", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank:
        path, order, *names = given.rank
        data = np.load(path)
        ranks = {name: list(OTHERS[name](data["x"], data["y"], int(order))) for name in names}
        print(json.dumps({name: each[:N_RANKED] for name, each in ranks.items()}))
        return
    if given.tables:
        rows = json.loads(RESULTS.read_text())
        for m in sorted({row["m"] for row in rows}):
            print(f"\n{m} attributes\n\n{table_of(rows, m)}")
        return
    sets = N_SETS
    if given.sets:
        pairs = (each.split(":") for each in given.sets.split(","))
        sets = {int(m): int(n) for m, n in pairs}
    run(sets, given.frequency, given.others)


if __name__ == "__main__":
    main()
