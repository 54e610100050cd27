"""Oracle matches have the anchor's covariate, at random among all that do."""

import numpy as np
import pytest

from equipoise.balance import match_covariate


def make(k=5, n=300):
    rng = np.random.default_rng(0)
    covariate, labels, environments = (rng.integers(c, size=n) for c in (4, 3, 2))
    matches = match_covariate(covariate, labels, environments, k=k, generator=rng)
    return covariate, labels, environments, matches


def test_every_match_has_the_covariate_the_environment_and_the_label_asked_for():
    covariate, labels, environments, matches = make()
    anchor, label, _ = np.nonzero(matches.indices >= 0)
    found = matches.indices[matches.indices >= 0]
    assert (covariate[found] == covariate[anchor]).all()
    assert (environments[found] == environments[anchor]).all()
    assert (labels[found] == label).all()
    assert (labels[anchor] != label).all()
    assert (matches.distances[matches.indices >= 0] == 0).all()


def test_companions_share_label_and_covariate():
    covariate, labels, environments, matches = make()
    for values in (covariate, labels, environments):
        assert (values[matches.companions] == values[:, None]).all()


def test_not_always_the_first_candidate_is_taken():
    *_, matches = make(k=1)
    first = matches.indices[:, 0, 0]
    assert len(np.unique(first[first >= 0])) > 20


def test_a_row_lists_no_candidate_twice():
    *_, matches = make(k=8)
    for row in matches.indices.reshape(-1, 8):
        found = row[row >= 0]
        assert len(np.unique(found)) == len(found)


def test_lengths_that_differ_are_refused():
    with pytest.raises(ValueError, match="labels"):
        match_covariate([0, 1], [0, 1, 0], [0, 0, 0], generator=np.random.default_rng(0))


@pytest.mark.parametrize("labels", [[-1, 1, 0], [0, 1, 5], [0.5, 1.0, 0.0]])
def test_labels_that_are_no_codes_are_refused(labels):
    with pytest.raises((ValueError, TypeError), match="label"):
        match_covariate(
            [0, 1, 0], labels, [0, 0, 0], n_labels=2, generator=np.random.default_rng(0)
        )
