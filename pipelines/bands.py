"""Choose bands of a hyperspectral image: ``python -m pipelines.bands``. See BANDS.md.

The image is Indian Pines: 145 x 145 pixels, 200 bands, 16 classes of crops and land cover.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import hofs_dask as hd

HERE = Path(__file__).parent
#: Width of a block in pixels. Pixels of one field are alike, so a fold consists of whole blocks.
BLOCK = 12
CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "svm": lambda: make_pipeline(StandardScaler(), LinearSVC(dual=False, C=1.0)),
    "3nn": lambda: make_pipeline(StandardScaler(), KNeighborsClassifier(3)),
    "forest": lambda: RandomForestClassifier(100, random_state=0),
}


def indian_pines() -> xr.Dataset:
    """Return the image with its labels; 0 means that a pixel has no label."""
    import tensorly  # type: ignore[import-untyped]

    folder = Path(tensorly.__file__).parent / "datasets" / "data"
    cube = np.load(folder / "Indian_pines_corrected.npy").astype(np.float32)
    label = np.load(folder / "Indian_pines_gt.npy").astype(np.int16)
    # Nominal centres: 220 bands from 400 to 2500 nm; 20 bands of water absorption were removed.
    absorbed = {*range(103, 108), *range(149, 163), 219}
    kept = [band for band in range(220) if band not in absorbed]
    centres = (400 + 2100 / 219 * np.arange(220))[kept].round(1)
    pixels = {"y": np.arange(145), "x": np.arange(145)}
    wavelength = ("wavelength", centres, {"units": "nm"})
    return xr.Dataset(
        {
            "radiance": (("y", "x", "wavelength"), cube),
            "crop": (("y", "x"), label),
        },
        coords=pixels | {"wavelength": wavelength},
    )


def folds(image: xr.Dataset, n_folds: int) -> xr.DataArray:
    """Return the fold of every pixel; all pixels of a block are in one fold."""
    rows, columns = (image[dim].values // BLOCK for dim in ("y", "x"))
    n_rows, n_columns = rows.max() + 1, columns.max() + 1
    shuffled = np.random.default_rng(0).permutation(n_rows * n_columns) % n_folds
    fold = shuffled.reshape(n_rows, n_columns)[np.ix_(rows, columns)]
    return xr.DataArray(fold, dims=("y", "x"), coords={"y": image.y, "x": image.x})


def evaluate(
    image: xr.Dataset, methods: Sequence[str], n_bands: int, n_folds: int
) -> tuple[xr.DataArray, dict[str, xr.DataArray]]:
    """Return the accuracy (fold, method, classifier) and, by method, a map of predicted classes.

    Bands are chosen from the training blocks only. A pixel is classified by a model that has not
    seen the block of the pixel. The maps have the predictions of the random forest.
    """
    fold, labelled = folds(image, n_folds), image["crop"] > 0
    accuracy = xr.DataArray(
        np.zeros((n_folds, len(methods), len(CLASSIFIERS))),
        dims=("fold", "method", "classifier"),
        coords={"method": list(methods), "classifier": list(CLASSIFIERS)},
    )
    maps = {method: xr.zeros_like(image["crop"]) for method in methods}
    blocks: dict[str, int] = {"y": BLOCK, "x": BLOCK}
    for number in range(n_folds):
        train, test = labelled & (fold != number), (labelled & (fold == number)).values
        chosen = hd.compare(
            image[["radiance", "crop"]],
            "crop",
            n_bands,
            methods=methods,
            feature_dim="wavelength",
            where=train,
            groups=blocks,
        )
        for method in methods:
            bands = chosen[method].transform(image["radiance"]).values
            known, classes = bands[train.values], image["crop"].values[train.values]
            for name, make in CLASSIFIERS.items():
                model = make().fit(known, classes)
                found = model.predict(bands[test])
                right = found == image["crop"].values[test]
                accuracy.loc[{"fold": number, "method": method, "classifier": name}] = right.mean()
                if name == "forest":
                    maps[method].values[test] = found
        print(f"fold {number + 1} of {n_folds} is done", flush=True)
    return accuracy, maps


def stability(
    image: xr.Dataset, methods: Sequence[str], n_bands: int, n_resamples: int
) -> hd.Comparison:
    """Return a comparison of methods with resamples that consist of whole blocks."""
    return hd.compare(
        image[["radiance", "crop"]],
        "crop",
        n_bands,
        methods=methods,
        n_resamples=n_resamples,
        feature_dim="wavelength",
        ignore_label=0,
        groups={"y": BLOCK, "x": BLOCK},
    )


def draw_maps(image: xr.Dataset, maps: dict[str, xr.DataArray], folder: Path) -> None:
    """Draw the labels, and for each method the classes that the forest found from its bands."""
    shown = {"labels": image["crop"], **maps}
    size = (3.1 * len(shown), 3.4)
    figure, axes = plt.subplots(1, len(shown), figsize=size, layout="constrained")
    for ax, (name, classes) in zip(axes, shown.items(), strict=True):
        ax.imshow(classes.where(image["crop"] > 0), cmap="tab20", vmin=1, vmax=20)
        right = float((classes == image["crop"]).values[image["crop"].values > 0].mean())
        ax.set_title(name if name == "labels" else f"{name}: {right:.1%} correct", fontsize=10)
        ax.set_axis_off()
    figure.savefig(folder / "bands_maps.png", dpi=90)
    plt.close(figure)


def draw_accuracy(accuracy: xr.DataArray, folder: Path) -> None:
    """Draw the mean accuracy of every method and classifier."""
    means = accuracy.mean("fold")
    means = means.sortby(means.mean("classifier"), ascending=False)
    figure, ax = plt.subplots(figsize=(8, 3.4), layout="constrained")
    for position, name in enumerate(means["classifier"].values):
        at = np.arange(means.sizes["method"]) + 0.27 * (position - 1)
        ax.bar(at, 100 * means.sel(classifier=name), width=0.25, label=name)
    ax.set_xticks(range(means.sizes["method"]), means["method"].values)
    ax.set_ylim(bottom=100 * float(means.min()) - 5)
    ax.set_ylabel("pixels of unseen blocks\nclassified correctly (%)")
    ax.legend(frameon=False, ncols=3)
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(folder / "bands_accuracy.png", dpi=90)
    plt.close(figure)


def draw_banner(image: xr.Dataset, n_bands: int, folder: Path) -> None:
    """Draw the picture of the README: the image, the bands that HOFS chooses, and a prediction.

    The map has the classes that a forest finds from these numbers of bands in blocks that neither
    it nor the selection has seen.
    """
    _, maps = evaluate(image, ["hofs"], n_bands, 4)
    everything = xr.zeros_like(image["crop"])
    fold, labelled = folds(image, 4), image["crop"] > 0
    pixels, classes = image["radiance"].values, image["crop"].values
    for number in range(4):
        train, test = ((labelled & part).values for part in (fold != number, fold == number))
        forest = CLASSIFIERS["forest"]().fit(pixels[train], classes[train])
        everything.values[test] = forest.predict(pixels[test])
    result = hd.select(
        image,
        "crop",
        n_bands,
        feature_dim="wavelength",
        ignore_label=0,
        groups={"y": BLOCK, "x": BLOCK},
    )
    right = {
        name: float((found == image["crop"]).values[labelled.values].mean())
        for name, found in (("chosen", maps["hofs"]), ("all", everything))
    }
    print(result, right, sep="\n")
    figure = plt.figure(figsize=(12, 3.7), layout="constrained")
    left, middle, last = figure.subplots(1, 3, width_ratios=(1, 1.7, 1))
    shown = image["radiance"].sel(wavelength=[830, 650, 560], method="nearest")
    low, high = shown.quantile([0.02, 0.98], dim=["y", "x"])
    left.imshow(((shown - low) / (high - low)).clip(0, 1))
    left.set_title(f"an image of {image.sizes['wavelength']} bands", fontsize=12)
    relevance = result.to_dataset()["relevance"]
    middle.fill_between(image["wavelength"], relevance, color="0.88")
    for band in result:
        height = float(relevance.sel(feature=band))
        middle.vlines(band, 0, height, color="C3", linewidth=2)
        middle.plot(band, height, "o", color="C3")
        at = (band, height + 0.03)
        middle.annotate(f"{band:.0f}", at, ha="center", fontsize=9, fontweight="bold")
    middle.set_title(f"{n_bands} bands chosen by HOFS", fontsize=12)
    middle.set_xlabel("wavelength (nm)")
    middle.set_ylabel("information alone (nats)")
    middle.set_ylim(0, 1.05 * float(relevance.max()) + 0.05)
    middle.spines[["top", "right"]].set_visible(False)
    last.imshow(maps["hofs"].where(labelled), cmap="tab20", vmin=1, vmax=20)
    last.set_title(f"crops predicted from {n_bands} bands", fontsize=12)
    words = f"{right['chosen']:.0%} of unseen pixels right\nall {image.sizes['wavelength']} bands: "
    last.text(
        0.5,
        -0.04,
        f"{words}{right['all']:.0%}",
        ha="center",
        va="top",
        fontsize=11,
        transform=last.transAxes,
    )
    for ax in (left, last):
        ax.set_axis_off()
    figure.savefig(folder / "banner.png", dpi=110)
    plt.close(figure)


@click.command()
@click.option("--bands", "n_bands", default=20, show_default=True)
@click.option("--folds", "n_folds", default=4, show_default=True)
@click.option("--resamples", "n_resamples", default=10, show_default=True)
@click.option("--method", "methods", multiple=True, default=hd.METHODS, show_default=True)
@click.option("--banner", is_flag=True, help="Draw the picture of the README only.")
@click.option("--size", default=145, show_default=True, help="Rows of the image to use.")
@click.option("--output", type=click.Path(path_type=Path), default=HERE, show_default=True)
def main(
    n_bands: int,
    n_folds: int,
    n_resamples: int,
    methods: tuple[str, ...],
    banner: bool,
    size: int,
    output: Path,
) -> None:
    """Choose bands, classify the pixels of unseen blocks, and draw the figures of BANDS.md."""
    plt.switch_backend("agg")
    image = indian_pines().isel(y=slice(size))
    folder = output / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    if banner:
        draw_banner(image, n_bands, folder)
        return
    stable = stability(image, methods, n_bands, n_resamples)
    best = stable[methods[0]]
    print(best)
    best.plot.spectrum(x="wavelength")
    plt.savefig(folder / "bands_spectrum.png", dpi=90)
    plt.close()
    accuracy, maps = evaluate(image, methods, n_bands, n_folds)
    draw_accuracy(accuracy, folder)
    means: Any = accuracy.mean("fold").to_pandas()
    means["mean"] = means.mean(axis=1)
    shown = dict.fromkeys([methods[0], means["mean"].idxmax()])
    draw_maps(image, {method: maps[method] for method in shown}, folder)
    means["stability"] = stable.to_dataset()["stability"].isel(rank=-1).to_pandas()
    print(means.sort_values("mean", ascending=False).round(3).to_string())
    (output / "results").mkdir(exist_ok=True)
    (output / "results" / "bands.json").write_text(json.dumps(means.round(4).to_dict("index")))


if __name__ == "__main__":
    main()
