"""The workflow of climate predictors: the known predictors are found, lazily and on land only."""

import dask
import numpy as np
import pytest
import xarray as xr

from pipelines.climate import STATE, TRUE, generated, heat_budget, latent_heat, rain
from tests.deploy.servers import need_file

ESKU = "/usr/share/ferret-vis/data/esku_heat_budget.cdf"


def test_rain__known_predictors_are_found_on_land():
    data = generated(n_days=240, n_features=8).isel(lat=slice(1, None, 9), lon=slice(0, 180, 18))
    found = rain(data, 4)
    assert set(found.features[:3]) == set(TRUE)
    assert found.features[3] == "ice"
    # eight months, and the first two days of each have no history in it
    attrs = found.to_dataset().attrs
    assert attrs["n_samples"] == int(data["land"].sum()) * 8 * 28
    assert attrs["weights"] == "area"
    assert attrs["effective_size"] < attrs["n_samples"]
    # by cells, the poles count three times as much
    by_cells = rain(data, 4, by_area=False)
    assert by_cells.features.index("ice") < 3


def test_generated__is_lazy_and_the_same_every_time():
    data = generated(n_days=30, n_features=6)
    assert all(data[name].chunks is not None for name in ["sst", "ice", "sst_copy", "rain"])
    same = generated(n_days=30, n_features=6)["rain"].isel(time=3)
    assert data["rain"].isel(time=3).equals(same)


def test_latent_heat__finds_the_bulk_formula():
    """Latent heat flux is proportional to wind speed times the humidity difference."""
    rng = np.random.default_rng(0)
    lat, lon = np.arange(-80.0, 81, 8), np.arange(0.0, 360, 8)
    dims, shape = ("TIME", "ESKUY", "ESKUX"), (12, len(lat), len(lon))
    state = {name: (dims, rng.gamma(2.0, size=shape)) for name in STATE}
    data = xr.Dataset(state, {"TIME": np.arange(12), "ESKUY": lat, "ESKUX": lon})
    data["FLH"] = (data["SPD"] * data["SAH"]).where(data["SLP"] > 0.3)
    assert set(latent_heat(data, 2).features) == {"SPD", "SAH"}


@pytest.mark.servers
def test_latent_heat__finds_the_bulk_formula_in_the_real_climatology():
    need_file("ferret-datasets", ESKU)
    with dask.config.set(scheduler="threads"):
        found = latent_heat(heat_budget(ESKU), 3)
    assert found.features[:2] == ["SAH", "SPD"]
