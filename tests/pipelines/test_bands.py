"""The workflow of hyperspectral bands: whole blocks are left out, and all figures are made."""

import json

import numpy as np
from click.testing import CliRunner

import hofs_dask as hd
from pipelines.bands import BLOCK, evaluate, folds, indian_pines, main


def test_image__has_the_bands_and_labels_of_indian_pines():
    image = indian_pines()
    assert dict(image.sizes) == {"y": 145, "x": 145, "wavelength": 200}
    assert image["wavelength"].values[[0, -1]].tolist() == [400.0, 2490.4]
    assert (np.diff(image["wavelength"]) > 0).all()
    assert np.unique(image["crop"]).tolist() == list(range(17))
    assert int((image["crop"] > 0).sum()) == 10249


def test_folds__blocks_are_whole_and_folds_are_disjoint():
    fold = folds(indian_pines(), 4)
    assert sorted(np.unique(fold)) == [0, 1, 2, 3]
    blocks = fold.groupby({"y": _blocks(fold.y), "x": _blocks(fold.x)})
    assert (blocks.max() == blocks.min()).all()


def _blocks(coordinate):
    from xarray.groupers import BinGrouper

    return BinGrouper(np.arange(-0.5, coordinate.size + BLOCK, BLOCK))


def test_evaluate__selects_from_training_blocks_only(monkeypatch):
    image = indian_pines().isel(y=slice(24), wavelength=slice(0, 200, 20))
    masks = []
    compare = hd.compare

    def watched(*arguments, where, **options):
        masks.append(where)
        return compare(*arguments, where=where, **options)

    monkeypatch.setattr(hd, "compare", watched)
    accuracy, maps = evaluate(image, ["mim"], n_bands=2, n_folds=2)
    fold = folds(image, 2)
    for number, mask in enumerate(masks):
        assert not (mask & (fold == number)).any()
        assert mask.equals((image["crop"] > 0) & (fold != number))
    assert accuracy.shape == (2, 1, 3)
    assert ((accuracy >= 0) & (accuracy <= 1)).all()
    # every labelled pixel was classified once
    assert ((maps["mim"] > 0) == (image["crop"] > 0)).all()


def test_main__writes_figures_and_the_table(tmp_path):
    options = "--size 24 --bands 2 --folds 2 --resamples 2 --method mim --method jmi"
    done = CliRunner().invoke(main, [*options.split(), "--output", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "wavelength (nm)" in done.output
    figures = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert figures == ["bands_accuracy.png", "bands_maps.png", "bands_spectrum.png"]
    table = json.loads((tmp_path / "results" / "bands.json").read_text())
    assert set(table) == {"mim", "jmi"}
    assert set(table["mim"]) == {"svm", "3nn", "forest", "mean", "stability"}
