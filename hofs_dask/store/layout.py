"""How the codes of a store are cut up: its chunks, and what they take as files."""

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
    """How the codes of a store are cut up, and why.

    Attributes
    ----------
    n_samples, n_features
        Of the store.
    chunks
        Samples and features of a chunk. The features of a chunk are the tile that a task works on.
    bits
        Bits a code: what the feature with the most codes needs.
    reasons
        A sentence a decision.

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
        """How many chunks there are."""
        return -(-self.n_samples // self.chunks[0]) * -(-self.n_features // self.chunks[1])

    @property
    def chunk_bytes(self) -> int:
        """What the file of a chunk takes: a plane a bit, of whole words, and a checksum."""
        n_words = -(-self.chunks[0] // WORD)
        return self.chunks[1] * self.bits * n_words * (WORD // 8) + CHECKSUM_BYTES

    @property
    def n_bytes(self) -> int:
        """What all chunks take in files."""
        return self.n_chunks * self.chunk_bytes

    @property
    def tiles(self) -> list[slice]:
        """The features of each tile."""
        return cuts(slice(0, self.n_features), self.chunks[1])


def layout_of(codes: CodeStore) -> Layout:
    """The layout that a store has."""
    chunk_samples, chunk_features = codes.chunks
    return Layout(
        codes.n_samples,
        codes.n_features,
        (chunk_samples, min(chunk_features, codes.n_features)),
        codes.bits,
    )


def check_chunks(chunks: object) -> tuple[int, int]:
    """The samples and features of a chunk that a user gave, or a ValueError.

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
            f"chunks is {chunks!r}; give two positive integers, samples and features of a "
            "chunk, for example chunks=(8192, 1024)"
        )
    return chunks[0], chunks[1]


def cuts(span: slice, step: int) -> list[slice]:
    """The pieces of a span, all but the last of one length.

    Examples
    --------
    >>> cuts(slice(0, 5), 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    starts = range(span.start, span.stop, step)
    return [slice(start, min(start + step, span.stop)) for start in starts]
