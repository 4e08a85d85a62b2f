"""Find the predictors of a climate variable: ``python -m pipelines.climate``. See CLIMATE.md.

Two cases: the heat budget of the oceans (a netCDF climatology of Debian's package ferret-datasets),
and generated fields with known predictors that may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path

import click
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

import hofs_dask as hd

HERE = Path(__file__).parent
#: Where Debian installs the file; any copy of it can be given by --file.
ESKU = Path("/usr/share/ferret-vis/data/esku_heat_budget.cdf")
#: Variables that ships and satellites observe. The fluxes in the file were derived from them.
STATE = ["SPD", "SST", "SAT", "AT", "AH", "SAH", "CLD", "SLP"]
#: Predictors of the generated target between 60 degrees south and north, with their lags in days.
TRUE = (("sst", "time-1"), "soil", ("wind", "time-2"))
LAGS: dict[Hashable, list[int]] = {"time": [0, 1, 2]}


def heat_budget(path: Path) -> xr.Dataset:
    """Return the state of the atmosphere and the sea surface, and the latent heat flux."""
    with xr.open_dataset(path, decode_times=False) as opened:
        return opened[[*STATE, "FLH"]].load()


def latent_heat(data: xr.Dataset, n_features: int) -> hd.Selection:
    """Return the selection of the observed variables that predict the latent heat flux.

    Grid cells without observations are left out. The samples of a square of 20 degrees are one
    group, since neighbouring cells and months are not independent.
    """
    latitude, longitude = data["FLH"].dims[1:]
    return hd.select(
        data,
        "FLH",
        n_features,
        where=data["FLH"].notnull(),
        groups={latitude: 20, longitude: 20},
    )


def generated(n_days: int, n_features: int, seed: int = 0) -> xr.Dataset:
    """Return lazy daily fields on a grid of 2 degrees, a rain class and the land mask.

    Rain is likely if the sea surface was warm yesterday, the soil is wet and the wind was weak two
    days ago. Near the poles it depends on `ice` instead, in a third of the cells but an eighth of
    the area. `sst_copy` is a noisy copy of `sst`, and all other fields are noise. The fields are
    made chunk by chunk.
    """
    latitude, longitude = np.arange(-89.0, 90, 2), np.arange(1.0, 360, 2)
    shape, chunks = (n_days, len(latitude), len(longitude)), (30, -1, -1)
    rng = da.random.default_rng(seed)
    coords = {"time": np.arange(n_days), "lat": latitude, "lon": longitude}

    def field() -> xr.DataArray:
        values = rng.standard_normal(shape, chunks=chunks, dtype=np.float32)
        return xr.DataArray(values, coords, ("time", "lat", "lon"))

    data = xr.Dataset({name: field() for name in ("sst", "soil", "wind", "ice")})
    data["sst_copy"] = data["sst"] + 0.5 * field()
    for number in range(n_features - len(data)):
        data[f"noise{number}"] = field()
    warm, calm = data["sst"].shift(time=1), -data["wind"].shift(time=2)
    odds = 1.5 * warm + data["soil"] + 0.7 * calm
    odds = odds.where(abs(data["lat"]) < 60, 2 * data["ice"]) + field()
    data["rain"] = (odds > 0).astype(np.int8)
    land = (np.cos(np.deg2rad(3 * longitude)) + np.sin(np.deg2rad(4 * latitude))[:, None]) > 0
    data["land"] = (("lat", "lon"), land)
    return data


def area(latitude: xr.DataArray) -> xr.DataArray:
    """Return the area of a grid cell relative to one at the equator."""
    return latitude.copy(data=np.cos(np.deg2rad(latitude.values))).rename("area")


def rain(data: xr.Dataset, n_features: int, *, by_area: bool = True) -> hd.Selection:
    """Return the selection of the predictors of rain on land; the days of a month are one group."""
    return hd.select(
        data.drop_vars("land"),
        "rain",
        n_features,
        lags=LAGS,
        where=data["land"],
        weights=area(data["lat"]) if by_area else None,
        groups={"time": 30},
    )


@click.command()
@click.option("--file", "path", type=click.Path(path_type=Path), default=ESKU, show_default=True)
@click.option("--days", default=365, show_default=True, help="Days of the generated fields.")
@click.option("--fields", default=40, show_default=True, help="Generated predictors.")
@click.option("--output", type=click.Path(path_type=Path), default=HERE, show_default=True)
def main(path: Path, days: int, fields: int, output: Path) -> None:
    """Find the predictors of both cases and draw the figures of CLIMATE.md."""
    plt.switch_backend("agg")
    folder = output / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    made = generated(days, fields)
    print(f"generated fields: {made.nbytes / 1e9:.1f} GB")
    for name, result in (
        ("climate_flux", latent_heat(heat_budget(path), 5)),
        ("climate_rain", rain(made, 5)),
    ):
        print(result, end="\n\n")
        result.plot()
        plt.savefig(folder / f"{name}.png", dpi=90)
        plt.close()


if __name__ == "__main__":
    main()
