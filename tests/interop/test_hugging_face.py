"""Datasets of Hugging Face: columns by name; streams are refused in a sentence."""

import numpy as np
import pytest
from datasets import Dataset

from equipoise import CausalBalancer
from interop.test_sklearn import make_data


def make_dataset():
    X, y, site = make_data()
    rows = {"colour": X[:, 0], "shape": X[:, 1], "ill": np.where(y, "yes", "no"), "site": site}
    return Dataset.from_dict({name: values.tolist() for name, values in rows.items()})


def test_columns_are_read_by_name():
    found = CausalBalancer(random_state=0).fit(
        make_dataset(), label="ill", environment="site", features=["colour", "shape"]
    )
    X, y, site = make_data()
    expected = CausalBalancer(random_state=0).fit(X, y, site)
    assert found.classes_.tolist() == ["no", "yes"]
    assert np.allclose(found.log_scores_, expected.log_scores_, atol=1e-4)


def test_a_column_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="'hospital'"):
        CausalBalancer().fit(make_dataset(), label="ill", environment="hospital")


def test_a_stream_is_refused_in_a_sentence():
    stream = make_dataset().to_iterable_dataset()
    with pytest.raises((TypeError, ValueError), match="IterableDataset"):
        CausalBalancer().fit(stream, label="ill", environment="site")
