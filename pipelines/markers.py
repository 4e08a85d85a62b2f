"""Find pairs of genetic markers with an effect only together: ``python -m pipelines.markers``.

Genotypes are read from a PLINK 1 file (``--genotypes study.bed``), or generated. The trait is
always generated from two markers, so that the answer is known.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from dask.array.core import normalize_chunks
from dask.delayed import delayed
from numpy.typing import NDArray

import hofs_dask as hd

HERE = Path(__file__).parent
#: Minor alleles of the four codes of a PLINK 1 file; the second one means that there is no call.
ALLELES = np.array([2, np.nan, 1, 0], dtype=np.float32)
#: Markers that a generated haplotype copies from one founder before it changes to another one.
BLOCK = 40


def read_bed(path: Path) -> xr.DataArray:
    r"""Return the genotypes (sample, marker) of a PLINK 1 file: numbers of minor alleles, lazily.

    The files ``.bim`` (markers) and ``.fam`` (samples) must be beside it.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "study.bed"
    >>> _ = path.with_suffix(".fam").write_text("f s1 0 0 1 1\nf s2 0 0 1 1\n")
    >>> _ = path.with_suffix(".bim").write_text("1 rs7 0 100 A G\n")
    >>> _ = path.write_bytes(bytes([0x6C, 0x1B, 1, 0b0010]))
    >>> read_bed(path).sel(marker="rs7").values
    array([1., 2.], dtype=float32)
    """
    markers = [line.split()[1] for line in path.with_suffix(".bim").read_text().splitlines()]
    n_samples = len(path.with_suffix(".fam").read_text().splitlines())
    with path.open("rb") as opened:
        if opened.read(3) != b"\x6c\x1b\x01":
            raise ValueError(f"{path} is not a PLINK 1 file with one marker after the other")
    width = -(-n_samples // 4)  # bytes of a marker

    def read(first: int, stop: int) -> NDArray[np.float32]:
        packed = np.fromfile(path, np.uint8, (stop - first) * width, offset=3 + first * width)
        codes = (packed.reshape(-1, width, 1) >> np.array([0, 2, 4, 6], np.uint8)) & 3
        return ALLELES[codes.reshape(stop - first, -1)[:, :n_samples]].T

    lengths = normalize_chunks("16 MiB", (n_samples, len(markers)), dtype=np.float32)[1]
    stops = np.cumsum(lengths).tolist()
    parts = [
        da.from_delayed(delayed(read)(stop - n, stop), (n_samples, n), np.float32)
        for stop, n in zip(stops, lengths, strict=True)
    ]
    values = da.concatenate(parts, axis=1)
    return xr.DataArray(values, {"marker": markers}, ("sample", "marker"), "genotype")


def generated(n_samples: int, n_markers: int, seed: int = 0) -> xr.DataArray:
    """Return generated genotypes (sample, marker): near markers depend on each other.

    Every haplotype is a mosaic of eight founders, whose parts have 40 markers on average.

    Examples
    --------
    >>> genotypes = generated(200, 100)
    >>> genotypes.sizes["marker"], sorted(np.unique(genotypes).tolist())
    (100, [0, 1, 2])
    """
    rng = np.random.default_rng(seed)
    frequency = rng.uniform(0.2, 0.5, n_markers)
    founders = rng.random((8, n_markers)) < frequency
    founders[0] = ~founders[1]  # no marker is constant
    genotypes = np.zeros((n_samples, n_markers), np.int8)
    for _ in range(2):  # haplotypes
        changes = rng.random((n_samples, n_markers)) < 1 / BLOCK
        changes[:, 0] = True
        part = changes.cumsum(axis=1) - 1
        founder = np.take_along_axis(rng.integers(8, size=(n_samples, n_markers)), part, axis=1)
        genotypes += founders[founder, np.arange(n_markers)]
    names = [f"rs{number}" for number in range(n_markers)]
    return xr.DataArray(genotypes, {"marker": names}, ("sample", "marker"), "genotype")


def trait(first: NDArray[Any], second: NDArray[Any], seed: int = 0) -> xr.DataArray:
    """Return a trait that depends on two markers together, and on neither of them alone.

    The probability of the trait is 0.5 + c (a - mean a)(b - mean b), where a and b say whether a
    sample has a minor allele of the markers. The mean over b does not depend on a.

    Examples
    --------
    >>> trait(np.array([0, 1, 2, 0]), np.array([1, 0, 0, 0])).dtype
    dtype('bool')
    """
    product = np.ones(len(first))
    for genotypes in (first, second):
        has = genotypes > 0
        product *= has - has.mean()
    chance = 0.5 + 0.4 / np.abs(product).max() * product
    drawn = np.random.default_rng(seed).random(len(chance)) < chance
    return xr.DataArray(drawn, dims="sample", name="trait")


def common(genotypes: xr.DataArray, near: float) -> str:
    """Return the marker close to a share `near` of the way whose carriers are nearest to a half."""
    start = int(near * genotypes.sizes["marker"])
    part = genotypes[:, start : start + 100].load()
    carriers = (part.values > 0).mean(axis=0)
    return str(part["marker"].values[np.abs(carriers - 0.5).argmin()])


@click.command()
@click.option("--genotypes", "path", type=click.Path(path_type=Path, exists=True))
@click.option("--samples", default=1000, show_default=True, help="Without --genotypes.")
@click.option("--markers", default=5000, show_default=True, help="Without --genotypes.")
@click.option("--copies", default=1, show_default=True, help="Use every sample so many times.")
@click.option("--top", default=20, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), default=HERE, show_default=True)
def main(
    path: Path | None, samples: int, markers: int, copies: int, top: int, output: Path
) -> None:
    """Compare all pairs of markers and draw the best; the trait is generated from two markers."""
    plt.switch_backend("agg")
    genotypes = generated(samples, markers) if path is None else read_bed(path)
    # Copies repeat the genotypes of real people; the trait is drawn for each copy.
    genotypes = xr.concat([genotypes] * copies, "sample")
    pair = [common(genotypes, near) for near in (0.25, 0.7)]
    print(f"{genotypes.sizes['sample']} samples, trait from {pair[0]} and {pair[1]}")
    first, second = (genotypes.sel(marker=name).values for name in pair)
    y = trait(first, second)
    found = hd.interactions(genotypes, y, top=top, feature_dim="marker")
    print(found)
    found.plot()
    (output / "figures").mkdir(parents=True, exist_ok=True)
    plt.savefig(output / "figures" / "markers.png", dpi=90)


if __name__ == "__main__":
    main()
