"""Frames, sparse matrices and datasets of Hugging Face are examples, with their names."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse

from equipoise import checks
from equipoise.data import Examples, collect_examples

N = 40
COLUMNS = {
    "age": np.arange(N, dtype=float),
    "dose": np.arange(N) % 5,
    "ill": np.array(["no", "yes"])[np.arange(N) % 2],
    "site": np.array(["north", "south"])[np.arange(N) // 2 % 2],
}
NAMES = {"label": "ill", "environment": "site"}
EXPECTED = np.stack([COLUMNS["age"], COLUMNS["dose"]], axis=1)


def check(examples):
    assert examples.label_names == ("no", "yes")
    assert examples.environment_names == ("north", "south")
    assert examples.feature_names == ("age", "dose")
    assert np.array_equal(examples.fetch(np.arange(N)).numpy(), EXPECTED.astype(np.float32))


def test_pandas_frames_keep_their_names():
    check(collect_examples(pd.DataFrame(COLUMNS), **NAMES))


def test_polars_frames_keep_their_names():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(COLUMNS)
    check(collect_examples(frame, **NAMES))
    parts = frame["ill"].to_numpy(), frame["site"].to_numpy()
    examples = collect_examples(frame[["age", "dose"]], *parts)
    check(examples)
    turned = collect_examples(frame[["dose", "age"]], *parts, names=examples.names)
    check(turned)


def test_datasets_of_hugging_face_are_read_by_their_columns():
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict({name: list(values) for name, values in COLUMNS.items()})
    check(collect_examples(data, **NAMES))
    pictures = np.arange(N * 3 * 4, dtype=np.float32).reshape(N, 3, 4)
    data = data.add_column("picture", [picture.tolist() for picture in pictures])
    examples = collect_examples(data, **NAMES, features="picture")
    assert np.array_equal(examples.fetch(np.arange(N)).numpy(), pictures)
    with pytest.raises(ValueError, match="Did you mean 'ill'"):
        collect_examples(data, label="il", environment="site")
    with pytest.raises(TypeError, match="IterableDataset, which gives its examples one after"):
        collect_examples(data.to_iterable_dataset(), **NAMES)


def test_streams_and_items_without_names_are_refused_in_a_sentence():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            yield torch.zeros(2)

    class Dictionaries:
        def __len__(self):
            return 2

        def __getitem__(self, index):
            return {"image": torch.zeros(2), "label": 0}

    with pytest.raises(TypeError, match="matching needs each by its index"):
        Examples(Stream(), [0, 1], [0, 1])
    with pytest.raises(ValueError, match="dictionaries of image, label: say which is what"):
        Examples(Dictionaries(), [0, 1], [0, 1])


def test_sparse_matrices_are_made_dense_within_the_memory(monkeypatch):
    labels, sites = np.arange(N) % 2, np.arange(N) // 2 % 2
    for kind in (sparse.csr_matrix, sparse.coo_array):
        examples = Examples(kind(EXPECTED), labels, sites)
        assert np.array_equal(examples.fetch(np.arange(N)).numpy(), EXPECTED.astype(np.float32))
    monkeypatch.setattr(checks, "measure_free_memory", lambda: 1e9)
    with pytest.raises(ValueError, match=r"as a dense one would take about 8\.0 GB .*TruncatedSVD"):
        Examples(sparse.csr_matrix((10**5, 10**4)), [0], [0])
