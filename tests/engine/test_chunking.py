"""The choice of chunks, and its reasons."""

import dask.array as da
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import hofs_dask as hd
from hofs_dask.encoding.encode import source_rows
from hofs_dask.engine.chunking import (
    CHUNK_CELLS,
    MIN_CHUNK_SAMPLES,
    PAIR_BYTES,
    Room,
    choose_layout,
)
from hofs_dask.engine.counts import PAIR_COUNTS, PairContext
from hofs_dask.engine.partition import WAITING, held_bytes
from hofs_dask.io.source import open_source
from hofs_dask.kernels.planes import WORD
from hofs_dask.store.layout import layout_of

MIB = 2**20


@pytest.mark.parametrize(
    ("n_samples", "n_features", "source_rows", "chunks"),
    [
        (1_000_000, 1024, None, (8192, 1024)),
        (1_000_000, 1024, 1000, (8000, 1024)),
        (1_000_000, 1024, 8192, (8192, 1024)),
        (1_000_000, 1024, 10_000, (10_000, 1024)),  # a multiple of the source, not of whole words
        (1_000_000, 1024, 50_000, (8192, 1024)),  # the chunks of the source are too long
        (1_000_000, 400, 10_000, (20_000, 400)),
        (1_000_000, 1030, None, (16_384 - 512, 515)),  # two tiles of equal width
        (500, 5000, None, (500, 1000)),
        (10**7, 2, 10**6, (10**6, 2)),  # ten chunks, not three
        (100_000, 10, None, (8192, 10)),
    ],
)
def test_chunks__are_chosen_from_the_sizes(n_samples, n_features, source_rows, chunks):
    assert choose_layout(n_samples, n_features, 5, source_rows=source_rows).chunks == chunks


@given(
    n_samples=st.integers(1, 10**9),
    n_features=st.integers(1, 10**4),
    n_codes=st.integers(1, 254),
    n_classes=st.integers(2, 254),
    source_rows=st.none() | st.integers(1, 10**6),
    memory=st.integers(-MIB, 2**36),
    n_threads=st.integers(1, 64),
)
@example(10**6, 10**6, 5, 2, None, 2**30, 2)
def test_chunks__are_multiples_of_the_source_or_of_words_and_fit_memory(
    n_samples, n_features, n_codes, n_classes, source_rows, memory, n_threads
):
    layout = choose_layout(
        n_samples,
        n_features,
        n_codes,
        n_classes=n_classes,
        source_rows=source_rows,
        room=Room(memory, n_threads),
    )
    samples, features = layout.chunks
    assert 1 <= samples <= n_samples
    assert 1 <= features <= n_features
    in_step = source_rows is not None and samples % source_rows == 0
    assert samples == n_samples or samples % WORD == 0 or in_step
    assert samples * features <= max(4 * CHUNK_CELLS, MIN_CHUNK_SAMPLES * features)
    partials = (n_threads + WAITING) * features * PAIR_BYTES * n_classes * n_codes**2
    assert features == 1 or partials <= memory / 2
    if samples > MIN_CHUNK_SAMPLES and samples < n_samples:
        assert n_threads * held_bytes(layout) <= memory / 4
    # no tile is nearly empty
    assert (len(layout.tiles) - 1) * features < n_features <= len(layout.tiles) * features


def test_chunks__are_smaller_for_smaller_workers():
    roomy = choose_layout(10**6, 2000, 32, n_classes=10, room=Room(2**34))
    small = choose_layout(10**6, 2000, 32, n_classes=10, room=Room(2**28))
    tiny = choose_layout(10**6, 2000, 32, n_classes=10, room=Room(2**24))
    assert roomy.chunks[1] == 1000 > small.chunks[1] > tiny.chunks[1]
    assert tiny.chunks[0] * tiny.chunks[1] < small.chunks[0] * small.chunks[1]


def test_chunks__of_the_user_are_used():
    layout = choose_layout(1000, 9, 5, chunks=(97, 4), room=Room(1))
    assert layout.chunks == (97, 4)
    assert any("as given" in reason for reason in layout.reasons)
    assert choose_layout(50, 3, 5, chunks=(97, 4)).chunks == (50, 3)


def test_pair_bytes__are_those_of_pair_counts():
    context = PairContext(3, 7, by_fold=True)
    assert PAIR_COUNTS.nbytes(context, 5) == 5 * PAIR_BYTES * 3 * 7**2


def test_reasons__contain_the_chosen_numbers():
    layout = choose_layout(10**6, 5000, 32, n_classes=10, room=Room(400 * MIB, 2), source_rows=1000)
    text = "\n".join(layout.reasons)
    assert "5 bits per code" in text
    assert f"{layout.chunks[1]} features per chunk" in text
    assert "9 partials" in text
    assert "no shards" in text


def test_encode__writes_the_chosen_layout(tmp_path):
    x = np.random.default_rng(0).normal(size=(20_000, 5))
    codes = hd.encode(da.from_array(x, chunks=(4096, 5)), x[:, 0] > 0, tmp_path / "codes.zarr")
    n_codes = int(codes.n_codes.max())
    chosen = choose_layout(20_000, 5, n_codes, source_rows=4096)
    assert codes.chunks == chosen.chunks == (8192, 5)
    assert layout_of(codes).chunk_bytes == chosen.chunk_bytes


def test_source_rows__is_none_for_uneven_chunks():
    def rows(*chunks):
        return source_rows(open_source(da.zeros((sum(chunks), 2), chunks=(chunks, 2)), None))

    assert rows(10, 10, 5) == 10
    assert rows(10, 10, 15) is None
    assert rows(10, 9, 10) is None
    assert rows(10) is None
