import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hofs_dask.kernels.planes import first_above, first_bits, pack


@given(data=st.data(), n_features=st.integers(1, 80), n_samples=st.integers(1, 200))
def test_first_above__is_what_looking_at_every_code_finds(data, n_features, n_samples):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n_codes = rng.integers(1, 9, n_features)
    codes = rng.integers(0, 8, (n_features, n_samples)).astype(np.uint8)
    mostly = rng.random(n_features) < data.draw(st.sampled_from([0.5, 0.99, 1.0]))
    codes[mostly] %= n_codes[mostly, None].astype(np.uint8)
    wrong = np.flatnonzero((codes >= n_codes[:, None]).any(axis=1))
    planes = pack(codes, 3)
    planes |= ~first_bits(n_samples, planes.shape[2])  # what is past the last sample may be set
    expected = int(wrong[0]) if len(wrong) else -1
    assert first_above(planes, n_codes, n_samples) == expected
