"""Whether two runs see the same data."""

import numpy as np
import pytest

from equipoise.benchmark.fingerprint import BLOCK, fingerprint_data
from equipoise.data import Examples


def make(x):
    return Examples(x, np.arange(len(x)) % 2, np.arange(len(x)) // 2 % 2)


@pytest.mark.parametrize("row", [0, BLOCK - 1, BLOCK, 5001, 9999])
def test_a_change_of_any_single_value_is_seen(row):
    x = np.zeros((10_000, 4000), dtype=np.uint8)  # more values than any sample of rows would hold
    before = fingerprint_data(make(x))
    assert fingerprint_data(make(x.copy())) == before
    x[row, 77] = 1
    assert fingerprint_data(make(x)) != before
