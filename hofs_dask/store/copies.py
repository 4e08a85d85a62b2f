"""Copies of single columns beside the codes: what every tile of a wide store needs is read alone.

A copy holds the same bytes whoever makes it, so that runs that share a store may both make it. One
sealed document lists the copies that are whole, with their checksums. A store that cannot be
written to does without.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping

import numpy as np

from hofs_dask.io import places
from hofs_dask.io.files import MOST_JSON, seal, unseal
from hofs_dask.kernels.planes import WORD
from hofs_dask.store.chunks import Chunks, chunk_file, whole_planes, write_chunk
from hofs_dask.store.codes import CodeStore
from hofs_dask.store.manifest import as_digits, as_numbers

FILE = "columns.json"


def known_copies(codes: CodeStore) -> dict[int, np.ndarray]:
    """Return the checksums of each column that has a whole copy, by column."""
    n_rows = codes.checksums.shape[1]
    try:
        document = unseal(places.read(codes.place, FILE, MOST_JSON))
        if document["identity"] != codes.identity:
            return {}
        found = {int(column): as_numbers(each) for column, each in document["columns"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}  # copies are made anew
    return {column: each for column, each in found.items() if len(each) == n_rows}


def add_copies(codes: CodeStore, copies: Mapping[int, np.ndarray]) -> None:
    """List more copies as whole, where the store can be written to."""
    columns = {
        str(column): as_digits(each) for column, each in {**known_copies(codes), **copies}.items()
    }
    with contextlib.suppress(OSError):
        document = {"identity": codes.identity, "columns": columns}
        places.write(codes.place, FILE, [seal(document)])


def copy_chunks(codes_chunks: Chunks, column: int, chunk_samples: int, bits: int) -> Chunks:
    """Return the chunks of the copy of a column, without checksums."""
    n_bytes = bits * -(-chunk_samples // WORD) * (WORD // 8)
    return Chunks(codes_chunks.store, codes_chunks.place, f"columns/{column}", n_bytes, {})


def write_copy(
    place: str, column: int, row: int, planes: np.ndarray, n_samples: int, chunk_samples: int
) -> int:
    """Write a chunk of the copy of a column, and return its checksum."""
    whole = whole_planes(planes, n_samples, (chunk_samples, 1))
    return write_chunk(place, chunk_file(f"columns/{column}", 0, row), whole)


def joined(parts: Iterable[Mapping[int, np.ndarray] | None]) -> dict[int, np.ndarray]:
    """Return the checksums of the columns that every part has, put together."""
    found = list(parts)
    if not found or any(part is None for part in found):
        return {}
    whole = [part for part in found if part is not None]
    columns = set.intersection(*(set(part) for part in whole))
    return {column: np.concatenate([part[column] for part in whole]) for column in sorted(columns)}
