"""Copies of single columns, so that whole tiles do not have to be read for one column.

All runs write the same bytes, so several runs that share a store may write the same copy. One
sealed document lists the complete copies with their checksums. Nothing is copied if the store is
read-only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping

import numpy as np

from hofs_dask.io.files import MOST_JSON, seal, unseal
from hofs_dask.io.places import Place
from hofs_dask.kernels.planes import WORD
from hofs_dask.store.chunks import Chunks, chunk_file, whole_planes, write_chunk
from hofs_dask.store.codes import CodeStore
from hofs_dask.store.manifest import as_digits, as_numbers

FILE = "columns.json"


def known_copies(codes: CodeStore) -> dict[int, np.ndarray]:
    """Return the checksums of all complete copies, as a dict by column index."""
    n_rows = codes.checksums.shape[1]
    try:
        document = unseal(codes.place.read(FILE, MOST_JSON))
        if document["identity"] != codes.identity:
            return {}
        found = {int(column): as_numbers(each) for column, each in document["columns"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}  # copies are written again
    return {column: each for column, each in found.items() if len(each) == n_rows}


def add_copies(codes: CodeStore, copies: Mapping[int, np.ndarray]) -> None:
    """Add complete copies to the list of copies in the store, if the store is writable."""
    columns = {
        str(column): as_digits(each) for column, each in {**known_copies(codes), **copies}.items()
    }
    with contextlib.suppress(OSError):
        document = {"identity": codes.identity, "columns": columns}
        codes.place.write(FILE, [seal(document)])


def copy_chunks(codes_chunks: Chunks, column: int, chunk_samples: int, bits: int) -> Chunks:
    """Return a `Chunks` that describes the copy of a column; the caller adds the checksums."""
    n_bytes = bits * -(-chunk_samples // WORD) * (WORD // 8)
    return Chunks(codes_chunks.store, codes_chunks.place, f"columns/{column}", n_bytes, {})


def write_copy(
    place: Place, column: int, row: int, planes: np.ndarray, n_samples: int, chunk_samples: int
) -> int:
    """Write a chunk of the copy of a column, and return its checksum."""
    whole = whole_planes(planes, n_samples, (chunk_samples, 1))
    return write_chunk(place, chunk_file(f"columns/{column}", 0, row), whole)


def joined(parts: Iterable[Mapping[int, np.ndarray] | None]) -> dict[int, np.ndarray]:
    """Return, for each column that all parts contain, the concatenated checksums of its parts."""
    found = list(parts)
    if not found or any(part is None for part in found):
        return {}
    whole = [part for part in found if part is not None]
    columns = set.intersection(*(set(part) for part in whole))
    return {column: np.concatenate([part[column] for part in whole]) for column in sorted(columns)}
