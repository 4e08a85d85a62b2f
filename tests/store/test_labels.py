import numpy as np
import pytest

from hofs_dask.store.bins import Feature
from hofs_dask.store.labels import interval_names, make_coding, summarise_target


def test_coding__numeric_target_with_one_value_is_refused():
    for target in (np.array([1.5, np.nan, 1.5]), np.array([1.5, 1.5])):
        summary = summarise_target(target, 0, len(target), "auto", "number")
        with pytest.raises(ValueError, match="'y' has only one value, '1.5'.* two classes or more"):
            make_coding(summary, "y", "auto", "number")


def test_interval_names__omit_the_missing_code():
    one = Feature(np.empty(0), np.array([1.5, np.nan]), True)
    two = Feature(np.array([2.0]), np.array([1.5, 2.5, np.nan]), True)
    assert interval_names(one) == ("1.5",)
    assert interval_names(two) == ("< 2", ">= 2")
