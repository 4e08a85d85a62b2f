"""Numbers sorted by digits are those that comparing sorts."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays

from hofs_dask.kernels import sorting


def floats(width):
    return st.floats(width=width, allow_nan=False)


@pytest.mark.parametrize("width", [32, 64])
@given(data=st.data())
def test_sort_numbers__is_the_order_of_numpy(width, data):
    numbers = data.draw(arrays(f"f{width // 8}", st.integers(0, 40), elements=floats(width)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting, "MANY_NUMBERS", 0)
        np.testing.assert_array_equal(
            sorting.sort_numbers(numbers, np.empty((2, len(numbers)), numbers.dtype)),
            np.sort(numbers),
        )


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sort_numbers__of_many_are_those_of_numpy_and_input_is_left_alone(dtype):
    rng = np.random.default_rng(0)
    numbers = (rng.standard_normal(sorting.MANY_NUMBERS) * 10.0 ** rng.integers(-30, 30)).astype(
        dtype
    )
    numbers[:100] = 0.0
    numbers.setflags(write=False)
    before = numbers.copy()
    np.testing.assert_array_equal(
        sorting.sort_numbers(numbers, np.empty((2, len(numbers)), numbers.dtype)), np.sort(numbers)
    )
    np.testing.assert_array_equal(numbers, before)


@pytest.mark.parametrize("function", [sorting.sort_bits, sorting.sort_bits.py_func])
@pytest.mark.parametrize(("dtype", "n_digits"), [("f4", 3), ("f8", 6)])
def test_sort_bits__are_in_one_array_or_the_other(function, dtype, n_digits):
    numbers = np.random.default_rng(1).standard_normal(300).astype(dtype)
    bits = numbers.view(f"u{numbers.itemsize}")
    both = np.empty((2, 300), bits.dtype)
    function(bits, *both, np.empty((n_digits, 2**sorting.DIGIT), np.int64))
    np.testing.assert_array_equal(both[n_digits % 2].view(dtype), np.sort(numbers))
