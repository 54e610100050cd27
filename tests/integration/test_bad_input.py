"""Everything a user may get wrong on the way to a balanced batch, in one table.

Each gets a ValueError in plain words, or a stated and counted fallback, and nothing is half-done.
"""

import numpy as np
import pandas as pd
import pytest

from equipoise import BalancedBatchSampler, CausalBalancer, match_scores
from equipoise.balance import fit_propensity
from equipoise.data import fetch
from tests.fuzz.forked import Case, run_cases


def _x(n: int = 40) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, 3))


Y, E = np.arange(40) % 2, np.arange(40) // 20
HALF_NAN = np.where(np.arange(40)[:, None] == 7, np.nan, _x())
BAD_INPUT = {
    "NaN features": ({}, HALF_NAN, Y, E, "NaN or infinite value, first in row 8 \\(index 7"),
    "infinite features": ({}, _x() * np.inf, Y, E, "NaN or infinite"),
    "text features": ({}, np.full((40, 3), "a"), Y, E, "not a table of numbers"),
    "a column of text": (
        {},
        pd.DataFrame({"age": np.arange(40.0), "device": ["7", "portable"] * 20}),
        *(Y, E),
        r"column 'device' holds 'portable': turn text into numbers with pandas.get_dummies",
    ),
    "one-dimensional features": ({}, np.zeros(40), Y, E, r"\[N, features\]"),
    "empty arrays": ({}, np.zeros((0, 3)), [], [], "empty"),
    "labels of another length": ({}, _x(), Y[:-1], E, "aligned, but have 40, 39 and 40"),
    "environments of another length": ({}, _x(), Y, E[:-1], "aligned"),
    "labels in a table": ({}, _x(), Y[:, None], E, "y must be one-dimensional"),
    "missing labels": ({}, _x(), [None, *Y[1:]], E, "missing values"),
    "NaN environments": ({}, _x(), Y, np.where(E == 0, np.nan, 1.0), "missing values"),
    "one label only": ({}, _x(), np.zeros(40), E, "two labels or more"),
    "one environment only": (
        {"balance_on": "all"},
        *(_x(), Y, np.zeros(40)),
        "two or more are needed",
    ),
    "each label in one environment only": ({}, _x(), E, E, "seen in one environment only"),
    "n_matches above m − 1": ({"n_matches": 2}, _x(), Y, E, "number of labels − 1 = 1"),
    "n_matches of zero": ({"n_matches": 0}, _x(), Y, E, "n_matches must be"),
    "unknown metric": ({"metric": "l3"}, _x(), Y, E, "metric 'l3'"),
    "unknown prior": ({"prior": "laplace"}, _x(), Y, E, "unknown prior 'laplace'"),
    "unknown reading": ({"reading": "both"}, _x(), Y, E, "unknown reading 'both'"),
    "unknown method": ({"method": "mach"}, _x(), Y, E, "Did you mean 'match'"),
    "nothing to balance on": ({"balance_on": "given"}, _x(), Y, E, "needs covariates"),
    "exact without covariates": (
        {"exact": ["sex"]},
        *(_x(), Y, E),
        "exact='sex' must be one of the covariates",
    ),
    "no nearest": ({"n_nearest": 0}, _x(), Y, E, "n_nearest must be at least 1"),
    "half the range or more as common support": (
        {"common_support": 0.6},
        *(_x(), Y, E),
        "common_support must be True, False, .auto. or a least probability",
    ),
    "a negative tolerance": ({"tolerance": -1}, _x(), Y, E, "tolerance must be at least 0, got -1"),
    "no use of a match": ({"reuse_max": 0}, _x(), Y, E, "reuse_max must be at least 1"),
    "a negative rate": ({"lr": -1}, _x(), Y, E, "lr must be above 0, got -1"),
    "a caliper in words": ({"caliper": "near"}, _x(), Y, E, "caliper must be a distance"),
    "noise of zero": ({"feature_noise": 0}, _x(), Y, E, "feature_noise must be above 0"),
    "a latent_dim of zero": ({"latent_dim": 0}, _x(), Y, E, "latent_dim must be at least 1"),
    "hidden in words": ({"hidden": "64,64"}, _x(), Y, E, r"such as 64 or \[64, 64\], got '64,64'"),
    "no y": ({}, _x(), None, E, "y and environments are needed"),
}


@pytest.mark.parametrize(
    ("settings", "x", "y", "e", "message"), BAD_INPUT.values(), ids=BAD_INPUT.keys()
)
def test_bad_input_is_refused_in_plain_words_and_nothing_is_half_done(
    settings, x, y, e, message, tmp_path
):
    balancer = CausalBalancer(**settings)
    checkpoint = tmp_path / "fit.safetensors"
    with pytest.raises(ValueError, match=message):
        balancer.fit(x, y, e, checkpoint=checkpoint)
    assert not hasattr(balancer, "matches_")
    assert not list(tmp_path.iterdir())


def test_one_environment_is_balanced_in_labels_only_and_this_is_said():
    with pytest.warns(UserWarning, match="there is one environment only"):
        balancer = CausalBalancer().fit(_x(), Y, np.zeros(40))
    assert balancer.n_varying_ == 0
    assert np.unique(balancer.log_scores_).tolist() == [np.log(0.5)]


def test_half_a_million_labels_are_refused_at_once_and_in_little_memory():
    x, sites = np.zeros((500_000, 2), dtype=np.float32), np.arange(500_000) % 2

    def refuse(labels):
        with pytest.raises(ValueError, match="classes that repeat, 10,000 at most"):
            CausalBalancer().fit(x, labels, sites)
        with pytest.raises(ValueError, match=r"would take about .* GB of memory"):
            fit_propensity(x, labels, sites)

    cases = [
        Case("each its own", lambda: refuse(np.arange(500_000))),
        Case("two of each", lambda: refuse(np.arange(500_000) // 2)),
    ]
    assert not run_cases(cases, seconds=30, memory=2**29)


UNIFORM = np.log(np.full((4, 2), 0.5))
MATCHES = match_scores(UNIFORM, [0, 1, 0, 1])
BAD_CALLS = {
    "scores that are not normalised": (lambda: match_scores(UNIFORM + 1, [0, 1, 0, 1]), "sum"),
    "scores with NaN": (lambda: match_scores(UNIFORM * np.nan, [0, 1, 0, 1]), "NaN"),
    "no scores": (lambda: match_scores(np.zeros((0, 2)), []), "N > 0"),
    "labels beyond the scores": (lambda: match_scores(UNIFORM, [0, 1, 2, 1]), "label"),
    "labels of another length": (lambda: match_scores(UNIFORM, [0, 1]), "labels"),
    "environments of another length": (
        lambda: match_scores(UNIFORM, [0, 1, 0, 1], [0]),
        "environments",
    ),
    "unknown metric": (lambda: match_scores(UNIFORM, [0, 1, 0, 1], metric="cosine"), "cosine"),
    "no nearest": (lambda: match_scores(UNIFORM, [0, 1, 0, 1], n_nearest=0), "n_nearest must"),
    "more matches than other labels": (
        lambda: BalancedBatchSampler(
            [0, 1, 0, 1], None, MATCHES, anchors_per_environment=1, n_matches=2
        ),
        "number of labels − 1 = 1",
    ),
    "no examples": (
        lambda: BalancedBatchSampler([], None, MATCHES, anchors_per_environment=1, n_matches=1),
        "integer codes",
    ),
}


@pytest.mark.parametrize(("call", "message"), BAD_CALLS.values(), ids=BAD_CALLS.keys())
def test_bad_arrays_are_refused_in_plain_words(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_corrupted_cache_is_said_and_never_trusted(monkeypatch, tmp_path):
    """The stated fallback: the file is named, removed, and fetched again or asked for."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("EQUIPOISE_DATA", raising=False)

    def refuse():
        raise ValueError("no network here")

    monkeypatch.setattr(fetch, "_download", refuse)
    fetch.mnist_cache().mkdir(parents=True)
    damaged = fetch.mnist_cache() / "train-images-idx3-ubyte"
    damaged.write_bytes(b"damaged")
    with (
        pytest.warns(UserWarning, match="train-images-idx3-ubyte is damaged"),
        pytest.raises(ValueError, match="no network here"),
    ):
        fetch.fetch_mnist()
    assert not damaged.exists()
