"""The generator of the nonlinear ICA benchmark is the field's own."""

import numpy as np

from benchmarks.theory_mcc import sample_segments


def test_segments_differ_in_variance_and_not_in_mean():
    sample = sample_segments(n_segments=5, per_segment=4000, seed=0)
    deviations = np.stack([sample.z[sample.segments == s].std(axis=0) for s in range(5)])
    assert deviations.max() / deviations.min() > 3
    means = np.stack([sample.z[sample.segments == s].mean(axis=0) for s in range(5)])
    assert np.abs(means / deviations).max() < 5 / np.sqrt(4000)
