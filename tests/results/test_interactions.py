"""`Interactions`: terms, text, figures and files."""

import numpy as np
import pytest
import xarray as xr

import hofs_dask as hd
from hofs_dask.methods.interactions import Tuples


def made(order=2, n=3, names=("red", "<b>", 3, "nir", "swir", "z")):
    columns = np.array([[k, k + 1, k + 3][:order] for k in range(n)]).reshape(n, order).astype(int)
    values = np.linspace(0.3, 0.1, n)
    found = Tuples(
        columns=columns,
        synergy=values,
        information=values + 0.1,
        added=values / 2,
        df=np.full(n, 4),
        p_value=np.array([1e-9, 1e-3, 0.5])[:n],
        p_adjusted=np.array([1e-8, 1e-2, 1.0])[:n],
        n_tuples=10,
        n_codes=3,
    )
    return hd.Interactions.from_tuples(
        found,
        names=list(names),
        relevance=np.arange(6) / 10,
        usable=[True] * 5 + [False],
        attrs={"n_samples": 100, "n_classes": 2, "target": "crop"},
    )


def test_interactions__tuples_terms_and_frame():
    result = made()
    assert result.tuples == [("red", "<b>"), ("<b>", 3), (3, "nir")] == list(result)
    assert len(result) == 3
    assert result.indices.tolist() == [[0, 1], [1, 2], [2, 3]]
    assert result.significant.tolist() == [True, True, False]
    frame = result.to_dataframe()
    assert frame["feature_2"].tolist() == ["<b>", 3, "nir"]
    assert frame["synergy"].tolist() == result.synergy.tolist() == [0.3, 0.2, 0.1]


def test_interactions__text_and_html():
    text, page = repr(made(order=3)), made(order=3)._repr_html_()
    assert text.splitlines()[0] == "3 of 10 triples of 6 features, 2 significant at 0.05"
    assert "1 feature is constant or all missing: z" in text
    assert "red <b> nir" in text
    assert "red &lt;b&gt; nir" in page
    assert "<b>" not in page


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("kind", ["network", "heat_map"])
def test_interactions__plot(order, kind):
    import matplotlib.pyplot as plt

    ax = made(order).plot(kind=kind)
    ax.figure.canvas.draw()
    if kind == "network":
        assert len(ax.lines) == 3 * (1 if order == 2 else 3)
        assert {label.get_text() for label in ax.texts} >= {"red", "<b>", "nir"}
    else:
        (image,) = ax.images
        drawn = np.asarray(image.get_array().filled(np.nan))
        assert drawn[0, 1] == 0.3  # red and <b>
        assert np.isnan(drawn.diagonal()).all()
    plt.close(ax.figure)


@pytest.mark.parametrize("kind", ["network", "heat_map"])
def test_interactions__plot_writes_any_name(kind):
    import matplotlib.pyplot as plt

    names = [r"$\frac{a}$", ("sst", "time-1"), "x$y$", "nir", "swir", "z"]
    ax = made(names=names).plot(kind=kind)
    ax.figure.canvas.draw()
    labels = ax.texts if kind == "network" else ax.get_xticklabels()
    assert {label.get_text() for label in labels} >= {r"$\frac{a}$", "sst time-1", "x$y$"}
    plt.close(ax.figure)


def test_interactions__heat_map_is_dark_where_the_synergy_is():
    import matplotlib.pyplot as plt

    ax = made().plot(kind="heat_map")
    shades = ax.images[0].cmap([0.0, 0.5, 1.0])[:, :3].sum(axis=1)
    assert (np.diff(shades) < -0.5).all()
    plt.close(ax.figure)


def test_interactions__unknown_plot():
    with pytest.raises(ValueError, match="heat_map"):
        made().plot(kind="heatmap")


@pytest.mark.parametrize("ending", ["zarr", "nc"])
@pytest.mark.parametrize("n", [3, 0])
def test_interactions__load_what_was_saved(tmp_path, ending, n):
    result = made(n=n)
    path = tmp_path / f"found.{ending}"
    result.save(path)
    loaded = hd.load(path)
    assert isinstance(loaded, hd.Interactions)
    assert loaded == result
    assert loaded.tuples == result.tuples


def test_interactions__refuses_wrong_columns():
    dataset = made().to_dataset()
    for wrong in ([[0, 6], [1, 2], [2, 3]], [[1, 0], [1, 2], [2, 3]]):
        with pytest.raises(ValueError, match="column"):
            hd.Interactions(dataset.assign(index=(("rank", "member"), np.array(wrong))))
    with pytest.raises(ValueError, match="lacks"):
        hd.Interactions(xr.Dataset(attrs={"format": hd.Interactions.FORMAT}))
