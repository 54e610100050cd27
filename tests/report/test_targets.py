"""A saved balancer meets its data again."""

import numpy as np
import pandas as pd
import pytest

from equipoise.balancer import CausalBalancer
from equipoise.data import Examples, open_dataset
from equipoise.report import open_target
from report.subjects import fit_pictures, make_pictures, make_table


def examine(target):
    return target.balancer.examine(target.examples, target.labels, target.environments)


def test_matches_are_the_saved_ones_when_the_data_are_those_fitted(tmp_path):
    fit_pictures().save(tmp_path / "balancer.safetensors")
    found = examine(open_target(tmp_path, make_pictures()))
    assert np.array_equal(found.matches.indices, fit_pictures().matches_.indices)
    assert np.array_equal(found.log_scores, fit_pictures().log_scores_)


def test_scores_that_another_machine_rounds_otherwise_are_the_same_examples():
    balancer = CausalBalancer(max_steps=5, n_nearest=3).fit(*make_table())
    matches = balancer.matches_
    balancer.log_scores_ = balancer.log_scores_ + 1e-6
    assert balancer.examine(*make_table()).matches is matches
    features, labels, places = make_table()
    assert balancer.examine(features, labels, places[::-1]).matches is not matches


@pytest.mark.parametrize("names", [[0, 1, 2], [3, 5, 9], ["a", "b", "c"]])
def test_labels_of_any_kind_are_found_again_in_a_table(tmp_path, names):
    features, labels, places = make_table()
    features.columns = ["signal", "noise", "marker", "age"]
    labels = np.asarray(names)[np.unique(labels, return_inverse=True)[1]]
    places = np.unique(places, return_inverse=True)[1]
    balancer = CausalBalancer(max_steps=5, n_nearest=3).fit(features, labels, places)
    balancer.save(tmp_path / "b.safetensors")
    features.assign(label=labels, environment=places).to_csv(tmp_path / "t.csv", index=False)
    target = open_target(tmp_path / "b.safetensors", open_dataset(tmp_path / "t.csv"))
    assert np.array_equal(examine(target).matches.indices, balancer.matches_.indices)


def test_data_of_other_environments_are_refused(tmp_path):
    fit_pictures().save(tmp_path / "balancer.safetensors")
    other = make_pictures()
    strange = Examples(other.fetch(np.arange(9)), other.labels[:9], np.arange(9) % 2)
    named = CausalBalancer(max_steps=5, n_nearest=3).fit(*make_table())
    named.save(tmp_path / "named.safetensors")
    with pytest.raises(ValueError, match="was fitted on environments"):
        open_target(tmp_path / "named.safetensors", strange)


def test_without_data_it_is_said_what_is_missing(tmp_path):
    fit_pictures().save(tmp_path / "balancer.safetensors")
    target = open_target(tmp_path)
    assert target.examples is None
    assert "--data" in target.missing[0]
    pd.testing.assert_frame_equal(
        target.balancer.diagnose(with_price=False).reuse, fit_pictures().diagnose().reuse
    )
