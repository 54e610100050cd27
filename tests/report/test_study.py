"""The gallery shows anchors of all kinds; what is shown of the model is what the model says."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from equipoise.balance import match_scores
from equipoise.data import Examples, as_source
from equipoise.report.study import (
    REACH,
    choose_anchors,
    decode_counterfactuals,
    find_farthest,
    measure_effects,
    show_anchors,
    traverse_latent,
)
from report.subjects import fit_pictures, fit_table, make_pictures, make_table

ROWS = np.arange(20)


@given(st.integers(1, 60), st.integers(0, 5))
def test_every_pair_of_label_and_environment_is_shown_if_there_is_room(n_anchors, seed):
    rng = np.random.default_rng(seed)
    labels, environments = rng.integers(3, size=50), rng.integers(2, size=50)
    chosen = choose_anchors(labels, environments, n_anchors, np.random.default_rng(seed))
    assert len(chosen) == len(set(chosen.tolist())) == min(n_anchors, 50)
    pairs = {*zip(labels.tolist(), environments.tolist(), strict=True)}
    seen = {(labels[i], environments[i]) for i in chosen.tolist()}
    assert len(seen) == min(len(pairs), n_anchors)


@given(st.integers(2, 9), st.integers(1, 5), st.integers(0, 5))
def test_every_label_is_shown_once_before_any_is_shown_twice(n_labels, n_environments, seed):
    rng = np.random.default_rng(seed)
    labels, environments = rng.integers(n_labels, size=80), rng.integers(n_environments, size=80)
    present = len(np.unique(labels))
    chosen = choose_anchors(labels, environments, present, np.random.default_rng(seed))
    assert len(np.unique(labels[chosen])) == present


def test_few_anchors_are_of_several_environments():
    labels, environments = np.repeat(np.arange(6), 60), np.tile(np.arange(3), 120)
    chosen = choose_anchors(labels, environments, 6, np.random.default_rng(0))
    assert set(environments[chosen].tolist()) == {0, 1, 2}


def test_the_same_seed_shows_the_same_anchors():
    labels, environments = np.arange(90) % 3, np.arange(90) % 2
    drawn = [
        choose_anchors(labels, environments, 12, np.random.default_rng(seed)).tolist()
        for seed in (0, 0, 1)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_matches_are_those_of_the_table_nearest_label_first():
    matches = fit_table().matches_
    (shown,) = show_anchors(matches, np.array([7]), per_label=2)
    by_label = list(dict.fromkeys(match.label for match in shown.matches))
    nearest = [matches.distances[7, label, 0] for label in by_label]
    assert nearest == sorted(nearest)
    for match in shown.matches:
        place = np.flatnonzero(matches.indices[7, match.label] == match.example)
        assert matches.distances[7, match.label, place[0]] == match.distance
    found = (matches.indices[7] >= 0).sum(axis=1)
    assert shown.n_near == {label: found[label] for label in by_label}


def test_the_farthest_are_those_with_the_worst_nearest_match():
    scores = np.log(np.array([[0.9, 0.1], [0.5, 0.5], [0.45, 0.55], [0.4, 0.6]]))
    matches = match_scores(scores, [0, 0, 1, 1], n_nearest=1, metric="l2")
    assert find_farthest(matches, 1).tolist() == [0]


def test_an_anchor_without_any_match_is_not_among_the_farthest():
    scores = np.log(np.full((4, 2), 0.5))
    matches = match_scores(scores, [0, 0, 0, 1], [0, 0, 1, 1], n_nearest=1)
    assert set(find_farthest(matches, 4).tolist()) <= {2, 3}


def encode(model, data, rows):
    y, e = torch.from_numpy(data.labels[rows]), torch.from_numpy(data.environments[rows])
    with torch.no_grad():
        return model.encode(data.fetch(rows), y, e)[0]


def test_counterfactuals_keep_z_and_change_only_the_label():
    data, model = make_pictures(), fit_pictures("all").latent_model_
    found = decode_counterfactuals(model, data, ROWS, data.labels[ROWS], data.environments[ROWS])
    z = encode(model, data, ROWS)
    assert torch.equal(found.originals, data.fetch(ROWS))
    for label in range(3):
        with torch.no_grad():
            expected = model.decode(z, torch.full((len(ROWS),), label))
        torch.testing.assert_close(found.decoded[:, label], expected)


def test_a_traversal_moves_one_z_from_end_to_end_through_the_mean():
    data, model = make_pictures(), fit_pictures("all").latent_model_
    found = traverse_latent(model, (data, ROWS, data.labels[ROWS], data.environments[ROWS]))
    assert found.offsets[0] == -REACH
    assert found.offsets[-1] == REACH
    z = encode(model, data, ROWS)
    moved = z.mean(0).clone()
    moved[found.dimensions[0]] += REACH * z.std(0)[found.dimensions[0]]
    label = torch.tensor([found.label])
    with torch.no_grad():
        torch.testing.assert_close(found.decoded[0, -1], model.decode(moved[None], label)[0])
        centre = model.decode(z.mean(0)[None], label)[0]
    torch.testing.assert_close(found.decoded[:, 3], centre.expand_as(found.decoded[:, 3]))
    changes = (found.decoded[:, -1] - found.decoded[:, 0]).flatten(1).norm(dim=1)
    assert (changes.diff() <= 1e-6).all()


def test_effects_of_labels_are_differences_from_their_mean():
    features, labels, places = make_table()
    data = Examples(features.to_numpy(copy=True), labels, places)
    model = fit_table("all").latent_model_
    shown = as_source(features), ROWS, data.labels[ROWS], data.environments[ROWS]
    found = measure_effects(model, shown)
    assert found.by_label.shape == (4, 3)
    assert found.by_z.shape == (4, model.settings.latent_dim)
    np.testing.assert_allclose(found.by_label.mean(axis=1), 0, atol=1e-6)
    assert np.abs(found.by_z).max() > 0.01
