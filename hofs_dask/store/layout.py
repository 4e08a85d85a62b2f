"""The layout of a code store: its chunks and their sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hofs_dask.kernels.planes import WORD
from hofs_dask.store.chunks import CHECKSUM_BYTES

if TYPE_CHECKING:
    from hofs_dask.store.codes import CodeStore


@dataclass(frozen=True)
class Layout:
    """The shape and the chunks of a code store.

    Attributes
    ----------
    n_samples, n_features
        Number of samples and of features in the store.
    chunks
        Number of samples and of features in a chunk. The features of a chunk form a tile.
    bits
        Bits per code, determined by the feature with the most codes.
    reasons
        One sentence for each decision that led to this layout.

    Examples
    --------
    >>> layout = Layout(100_000, 400, (20_992, 400), bits=3)
    >>> layout.n_chunks, layout.chunk_bytes
    (5, 3148804)
    """

    n_samples: int
    n_features: int
    chunks: tuple[int, int]
    bits: int
    reasons: tuple[str, ...] = ()

    @property
    def n_chunks(self) -> int:
        """The number of chunks."""
        return -(-self.n_samples // self.chunks[0]) * -(-self.n_features // self.chunks[1])

    @property
    def chunk_bytes(self) -> int:
        """The bytes of a chunk file: one plane of whole words per bit, and a checksum."""
        n_words = -(-self.chunks[0] // WORD)
        return self.chunks[1] * self.bits * n_words * (WORD // 8) + CHECKSUM_BYTES

    @property
    def n_bytes(self) -> int:
        """The bytes of all chunk files."""
        return self.n_chunks * self.chunk_bytes

    @property
    def tiles(self) -> list[slice]:
        """The features of each tile, as slices."""
        return cuts(slice(0, self.n_features), self.chunks[1])


def layout_of(codes: CodeStore) -> Layout:
    """Return the layout of a store."""
    chunk_samples, chunk_features = codes.chunks
    return Layout(
        codes.n_samples,
        codes.n_features,
        (chunk_samples, min(chunk_features, codes.n_features)),
        codes.bits,
    )


def check_chunks(chunks: object) -> tuple[int, int]:
    """Return the validated option ``chunks``: the number of samples and of features in a chunk.

    Examples
    --------
    >>> check_chunks((8192, 1024))
    (8192, 1024)
    """
    if (
        not isinstance(chunks, Sequence)
        or len(chunks) != 2
        or not all(isinstance(n, int) and n > 0 for n in chunks)
    ):
        raise ValueError(
            f"chunks is {chunks!r}; give two positive integers, the samples and features of a "
            "chunk, for example chunks=(8192, 1024)"
        )
    return chunks[0], chunks[1]


def cuts(span: slice, step: int) -> list[slice]:
    """Return a span split into slices of length ``step``; the last may be shorter.

    Examples
    --------
    >>> cuts(slice(0, 5), 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    starts = range(span.start, span.stop, step)
    return [slice(start, min(start + step, span.stop)) for start in starts]
