"""The tables of a code store, and the metadata that Zarr and xarray need to open its arrays.

`hofs_dask` itself does not read this metadata; it uses the manifest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec

from hofs_dask.io.places import Place
from hofs_dask.kernels.planes import n_bits
from hofs_dask.store.bins import Feature, Features
from hofs_dask.store.chunks import CODE_FILL, COLUMNS, write_table
from hofs_dask.store.codec import Planes
from hofs_dask.store.manifest import Table

#: Zarr's fill values of tables by dtype kind; no table contains these values.
TABLE_FILLS = {"i": -(2**15), "u": 255, "f": -np.inf}


def count_bits(features: Sequence[Feature]) -> int:
    """Return the number of bit planes per feature."""
    return n_bits(int(Features.of(features).n_codes.max()))


def write_metadata(
    place: Place, n_samples: int, grid: tuple[int, int], bits: int, tables: dict[str, np.ndarray]
) -> None:
    """Write the metadata that Zarr and xarray need to open the codes and tables."""
    group = zarr.create_group({})
    group.create_array(
        "codes",
        shape=(len(tables["n_codes"]), n_samples),
        chunks=grid[::-1],
        dtype=np.uint8,
        fill_value=CODE_FILL,
        serializer=Planes(bits),
        compressors=[Crc32cCodec()],
        dimension_names=("feature", "sample"),
    )
    for name, table in tables.items():
        group.create_array(
            name,
            shape=table.shape,
            chunks=tuple(max(size, 1) for size in table.shape),
            dtype=table.dtype,
            fill_value=TABLE_FILLS[table.dtype.kind],
            compressors=[Crc32cCodec()],
            dimension_names=("feature", "edge" if name == "edges" else "code")[: table.ndim],
        )
    group.create_group("labels")
    group.create_group("groups")
    _put(place, group)


def write_column_metadata(place: Place, name: str, n_samples: int, chunk_rows: int) -> None:
    """Write the metadata with which Zarr and xarray open labels, groups or weights."""
    kind = COLUMNS[name.split("/")[0]]
    group = zarr.create_group({})
    array = group.create_array(
        name,
        shape=(n_samples,),
        chunks=(chunk_rows,),
        dtype=kind.dtype,
        fill_value=kind.fill,
        compressors=[Crc32cCodec()],
        dimension_names=("sample",),
    )
    _put(place, array)


def _put(place: Place, node: zarr.Group | zarr.Array[Any]) -> None:
    store: Any = node.store
    for name, content in store._store_dict.items():
        if name.startswith(node.path) and name.endswith("zarr.json"):
            place.write(name, [content.to_bytes()])


def tables_of(features: Sequence[Feature]) -> dict[str, np.ndarray]:
    """Return the small arrays of a store by name."""
    several = Features.of(features)
    nominal = np.zeros(len(several), np.uint8)
    nominal[list(several.nominal)] = 1
    n_codes = several.n_codes.astype(np.int16)
    return {
        "n_codes": n_codes,
        "missing_code": np.where(several.has_missing, n_codes - 1, -1).astype(np.int16),
        "nominal": nominal,
        "values": _cut(several.values, int(n_codes.max(initial=1))),
        "edges": _cut(several.edges, 1),
    }


def write_tables(place: Place, tiles: Sequence[Sequence[Feature]]) -> dict[str, Table]:
    """Write the tables of all features, and return their records for the manifest."""
    tables = tables_of(Features.join([Features.of(tile) for tile in tiles]))
    return {name: write_table(place, name, table) for name, table in tables.items()}


def _cut(table: np.ndarray, least: int) -> np.ndarray:
    """Return a table (feature, entry) without the columns of padding behind the last entry."""
    used = np.flatnonzero(~np.isnan(table).all(axis=0))
    width = max(int(used[-1]) + 1 if len(used) else 1, least)
    return np.ascontiguousarray(table[:, :width])
