"""The Zarr codec that stores codes as bit planes.

Zarr users see an array of uint8 codes. The bytes of a chunk are the bit planes of its features, so
that the engine can count codes without decoding them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from zarr.abc.codec import ArrayBytesCodec
from zarr.registry import register_codec

from hofs_dask.kernels.planes import WORD, pack, unpacked

if TYPE_CHECKING:
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer, NDBuffer

NAME = "hofs_dask.planes"


@dataclass(frozen=True)
class Planes(ArrayBytesCodec):
    """Zarr codec that stores codes (feature, sample) as bit planes.

    The planes are little-endian 64-bit words (feature, bit, word).

    Attributes
    ----------
    bits : int
        Number of planes of a feature; codes are below ``2 ** bits``.

    Examples
    --------
    >>> import zarr
    >>> array = zarr.create_array({}, shape=(1, 100), chunks=(1, 100), dtype="uint8",
    ...                           serializer=Planes(3), compressors=None)
    >>> array[:] = np.arange(100, dtype=np.uint8)[None] % 5
    >>> array[0, 5:12]
    array([0, 1, 2, 3, 4, 0, 1], dtype=uint8)
    """

    is_fixed_size = True

    bits: int

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the codec described by array metadata."""
        return cls(int(data["configuration"]["bits"]))

    def to_dict(self) -> dict[str, Any]:
        """Return the description of the codec for array metadata."""
        return {"name": NAME, "configuration": {"bits": self.bits}}

    def shape(self, chunk: tuple[int, ...]) -> tuple[int, int, int]:
        """Return the shape (feature, bit, word) of the planes of a chunk (feature, sample)."""
        n_features, n_samples = chunk
        return n_features, self.bits, -(-n_samples // WORD)

    def compute_encoded_size(self, _input_byte_length: int, chunk_spec: ArraySpec) -> int:
        """Return the bytes of a chunk."""
        return 8 * math.prod(self.shape(chunk_spec.shape))

    async def _decode_single(self, chunk_bytes: Buffer, chunk_spec: ArraySpec) -> NDBuffer:
        words: Any = np.ascontiguousarray(chunk_bytes.as_numpy_array()).view("<u8")
        planes = words.reshape(self.shape(chunk_spec.shape)).astype(np.uint64, copy=False)
        codes: Any = unpacked(planes, chunk_spec.shape[1])
        return chunk_spec.prototype.nd_buffer.from_ndarray_like(codes)

    async def _encode_single(self, chunk_array: NDBuffer, chunk_spec: ArraySpec) -> Buffer:
        planes = pack(chunk_array.as_numpy_array(), self.bits).astype("<u8", copy=False)
        return chunk_spec.prototype.buffer.from_array_like(planes.reshape(-1).view("B"))


register_codec(NAME, Planes)
