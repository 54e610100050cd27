"""The automatic choice of n, k and prior: explained, within what environments can tell."""

import numpy as np
import pytest
import torch

from equipoise import CausalBalancer
from equipoise.data import ArraySource
from equipoise.latent import FitSettings
from equipoise.latent.choice import (
    LatentCandidate,
    LatentChoice,
    _pick,
    choose_latent,
    list_candidates,
)
from equipoise.latent.identifiability import examine_labels

K1, K2 = "gaussian-fixed-variance", "gaussian"


def candidate(prior=K1, n=1, elbo=10.0, pairs=True, labels=True):
    k = 1 if prior == K1 else 2
    return LatentCandidate(prior, n, k, elbo, pairs, labels, 3.0 if labels else np.inf)


def test_a_label_needs_environments_of_its_own():
    parameters = np.random.default_rng(0).normal(size=(6, 2, 3))
    seen = np.ones((6, 2), dtype=bool)
    assert not any(found.holds for found in examine_labels(parameters, seen))
    parameters = np.random.default_rng(0).normal(size=(2, 4, 3))
    seen = np.ones((2, 4), dtype=bool)
    assert all(found.holds for found in examine_labels(parameters, seen))
    seen[1, 0] = False
    assert [found.holds for found in examine_labels(parameters, seen)] == [True, False]


def test_candidates_stop_at_what_environments_tell_and_name_the_papers():
    found = list_candidates((30,), 2, 5, latent_dim="auto", prior="auto")
    assert found == [(K2, 1), (K2, 2), (K2, 4), (K1, 1), (K1, 2), (K1, 3), (K1, 4), (K1, 9)]
    few = list_candidates((28, 28), 10, 2, latent_dim="auto", prior=K1)
    assert [n for _, n in few] == [1, 4, 8, 16]


def test_what_is_given_is_kept():
    assert list_candidates((30,), 2, 5, latent_dim=3, prior="auto") == [(K2, 3), (K1, 3)]
    assert list_candidates((30,), 2, 2, latent_dim=None, prior="auto") == [(K2, 1), (K1, 3)]
    sizes = [n for _, n in list_candidates((30,), 2, 2, latent_dim="auto", prior=K2)]
    assert sizes == [1]


def test_z_must_have_room_for_what_varies_even_if_environments_tell_less():
    rows = [candidate(n=1, elbo=10), candidate(n=2, elbo=8), candidate(n=5, elbo=1, labels=False)]
    assert _pick(rows) == 2


def test_of_those_that_explain_as_much_one_that_labels_tell_is_taken():
    rows = [candidate(n=2, elbo=8.0, labels=False), candidate(K2, n=3, elbo=8.05)]
    assert _pick(rows) == 1
    assert _pick([*rows[:1], candidate(K2, n=3, elbo=8.15), candidate(elbo=5000.0)]) == 0


def test_a_fit_that_failed_is_put_aside():
    assert _pick([candidate(elbo=np.nan), candidate(n=2, elbo=3.0)]) == 1
    with pytest.raises(ValueError, match="no candidate"):
        _pick([candidate(elbo=np.nan)])


def test_a_dimension_that_gains_nothing_is_not_taken():
    assert _pick([candidate(n=1, elbo=8.05), candidate(n=2, elbo=8.0)]) == 0


def test_pairs_are_counted_only_if_no_label_tells_enough():
    rows = [
        candidate(n=3, elbo=5.05, labels=False),
        candidate(n=2, elbo=5, labels=False, pairs=False),
    ]
    assert _pick(rows) == 0


def make_two_latents(n=3000, n_environments=4):
    """Two latents in eight features; their means vary over four environments."""
    rng = np.random.default_rng(0)
    y, e = rng.integers(2, size=n), rng.integers(n_environments, size=n)
    means = 2.0 * rng.normal(size=(2, n_environments, 2))
    z = means[y, e] + rng.normal(size=(n, 2))
    x = z @ rng.normal(size=(2, 8)) + y[:, None] * rng.normal(size=8)
    return x + 0.3 * rng.normal(size=x.shape), y, e


def test_two_latents_are_found_and_the_reason_is_given():
    x, y, e = make_two_latents()
    settings = FitSettings(max_steps=250, warm_up=20)
    choice, model = choose_latent(
        ArraySource(torch.from_numpy(x)), y, e, prior=K1, hidden=(32,), settings=settings
    )
    assert choice.latent_dim == 2
    assert model.settings.latent_dim == 2
    assert choice.table["chosen"].sum() == 1
    assert "n = 2" in choice.sentence
    assert "4 environments" in choice.sentence


def test_the_balancer_chooses_keeps_why_and_saves_it(tmp_path):
    x, y, e = make_two_latents(n=600)
    balancer = CausalBalancer(
        "all", latent_dim="auto", prior="auto", hidden=(16,), max_steps=40, n_nearest=2
    ).fit(x, y, e)
    choice = balancer.latent_choice_
    assert balancer.latent_model_.settings.latent_dim == choice.latent_dim
    assert balancer.latent_model_.settings.prior == choice.prior
    assert choice.sentence.endswith(".")
    balancer.save(tmp_path / "balancer.safetensors")
    assert CausalBalancer.load(tmp_path / "balancer.safetensors").latent_choice_ == choice


def test_the_chosen_model_is_the_one_a_direct_fit_gives(tmp_path):
    x, y, e = make_two_latents(n=400)
    settings = {"balance_on": "all", "hidden": (16,), "max_steps": 30, "n_nearest": 1}
    chosen = CausalBalancer(latent_dim="auto", **settings).fit(
        x, y, e, checkpoint=tmp_path / "fit.safetensors"
    )
    n = chosen.latent_choice_.latent_dim
    direct = CausalBalancer(latent_dim=n, **settings).fit(x, y, e)
    np.testing.assert_array_equal(chosen.log_scores_, direct.log_scores_)
    assert direct.latent_choice_ is None


def test_nothing_is_chosen_where_columns_are_examined_themselves():
    x, y, e = make_two_latents(n=400)
    balancer = CausalBalancer(latent_dim="auto", prior="auto").fit(x, y, e)
    assert balancer.latent_choice_ is None
    assert balancer.latent_model_ is None


def test_a_choice_survives_json():
    choice = LatentChoice(K1, 2, (candidate(n=2),), "because.")
    assert LatentChoice.from_facts(choice.to_facts()) == choice


def test_a_wrong_word_for_n_is_named():
    x, y, e = make_two_latents(n=100)
    with pytest.raises(ValueError, match="latent_dim"):
        CausalBalancer(latent_dim="automatic").fit(x, y, e)
