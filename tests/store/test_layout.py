"""The chunks of a store and their sizes."""

import pytest

from hofs_dask.store.layout import Layout, check_chunks


@pytest.mark.parametrize("chunks", [(0, 1), (5,), (2.5, 3), (1, 2, 3), 7])
def test_check_chunks__invalid_values_are_refused(chunks):
    with pytest.raises(ValueError, match="give two positive integers"):
        check_chunks(chunks)


def test_layout__chunk_bytes_are_whole_words_per_bit_and_a_checksum():
    layout = Layout(1000, 10, (100, 4), bits=3)
    assert layout.chunk_bytes == 4 * 3 * 2 * 8 + 4
    assert layout.n_chunks == 10 * 3
    assert layout.n_bytes == 30 * layout.chunk_bytes


def test_layout__tiles_cover_all_features_once():
    layout = Layout(1000, 10, (100, 4), bits=3)
    assert [tile.stop - tile.start for tile in layout.tiles] == [4, 4, 2]
