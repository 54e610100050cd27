"""Scores on disk give the same matches as scores in memory, in little memory."""

from __future__ import annotations

import os
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from equipoise.balance.large import LazyMatches
from equipoise.balance.match import match_scores
from equipoise.balance.scores import common_support
from tests.balance.match_reference import METRICS, make_scores

N, M = 600, 4


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    rng = np.random.default_rng(0)
    scores = make_scores("peaked", rng, N, M)
    folder = tmp_path_factory.mktemp("scores")
    np.save(folder / "scores.npy", scores)
    table = pa.table({f"label{label}": scores[:, label] for label in range(M)})
    parquet.write_table(table, folder / "scores.parquet", row_group_size=100)
    return scores, rng.integers(0, M, N), rng.integers(0, 2, N), folder


@pytest.mark.parametrize("name", ["scores.npy", "scores.parquet"])
@pytest.mark.parametrize("metric", METRICS)
def test_files_are_matched_like_arrays(problem, name, metric):
    scores, labels, environments, folder = problem
    expected = match_scores(scores, labels, environments, metric=metric, n_nearest=2)
    found = match_scores(str(folder / name), labels, environments, metric=metric, n_nearest=2)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.distances, expected.distances)


def test_memory_maps_are_matched_lazily_and_trimmed_like_arrays(problem):
    scores, labels, environments, folder = problem
    mapped = np.load(folder / "scores.npy", mmap_mode="r")
    everyone, asked = np.arange(N), np.broadcast_to(np.arange(M), (N, M))
    np.testing.assert_array_equal(
        LazyMatches(mapped, labels, environments).lookup(everyone, asked),
        match_scores(scores, labels, environments).indices,
    )
    np.testing.assert_array_equal(
        common_support(folder / "scores.parquet", labels, environments),
        common_support(scores, labels, environments),
    )


@pytest.mark.parametrize(
    ("metric", "n", "m", "k", "budget"),
    [("kl", 20_000, 8, 2, 28 << 20), ("l1", 3_000, 30, 40, 40 << 20)],
    ids=["many examples", "an answer larger than the budget"],
)
def test_a_budget_changes_the_portions_but_not_the_answer(tmp_path, metric, n, m, k, budget):
    rng = np.random.default_rng(1)
    scores, labels = make_scores("peaked", rng, n, m), rng.integers(0, m, n)
    np.save(tmp_path / "scores.npy", scores)
    expected = match_scores(scores, labels, metric=metric, n_nearest=k)
    tracemalloc.start()
    file = tmp_path / "scores.npy"
    found = match_scores(file, labels, metric=metric, n_nearest=k, memory=budget)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.distances, expected.distances)
    answer = found.indices.nbytes + found.distances.nbytes
    assert peak - answer - 4 * labels.nbytes < budget


BAD_FILES = {
    "missing": ("nothing.npy", "there is no file"),
    "another format": ("scores.csv", "expected a .npy or .parquet"),
    "not normalised": ("raw.npy", "row 3 sums to 2"),
    "one column": ("narrow.npy", "at least 2 labels"),
}


@pytest.mark.parametrize(("name", "message"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_bad_files_are_told_what_is_wrong(tmp_path, name, message):
    (tmp_path / "scores.csv").write_text("0.5,0.5")
    scores = np.log(np.full((5, 2), 0.5))
    np.save(tmp_path / "narrow.npy", scores[:, :1])
    scores[3] = 0.0
    np.save(tmp_path / "raw.npy", scores)
    with pytest.raises(ValueError, match=message):
        match_scores(tmp_path / name, [0, 1, 0, 1, 0])


def test_too_small_a_budget_is_refused_with_the_least_that_works():
    with pytest.raises(ValueError, match="need at least"):
        match_scores(np.log(np.full((5, 2), 0.5)), [0, 1, 0, 1, 0], memory=1000)


@pytest.mark.parametrize("content", [b"", b"x", b"\x80\x04\x95", None])
def test_a_file_of_scores_that_cannot_be_read_is_named(tmp_path, content):
    path = tmp_path / "s.npy"
    os.mkfifo(path) if content is None else path.write_bytes(content)
    with pytest.raises(ValueError, match=r"log_scores: .*s\.npy cannot be read"):
        match_scores(path, [0, 1], [0, 0])
