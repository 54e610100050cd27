"""The fit learns, stops, resumes to the same bits, and never looks outside its examples."""

import numpy as np
import pytest
import torch

from equipoise.data import Examples
from equipoise.latent import FitSettings, LatentCovariateModel, fit_model, log_scores

QUICK = FitSettings(max_steps=60, evaluate_every=20, batch_size=16)


def make_model(data):
    return LatentCovariateModel(data.input_shape, data.n_labels, 2, hidden=(32,), seed=1)


def fit(data, checkpoint=None, source=None, settings=QUICK):
    model = make_model(data)
    history = fit_model(
        model,
        source or data,
        data.labels,
        data.environments,
        settings=settings,
        checkpoint=checkpoint,
    )
    return model, history


class StopAfter:
    """A source whose reading is interrupted, as by Ctrl-C."""

    def __init__(self, data, n_reads):
        self.data, self.left = data, n_reads

    def __len__(self):
        return len(self.data)

    def fetch(self, indices):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return self.data.fetch(indices)


def test_fitting_lowers_the_held_out_negative_elbo(spurious):
    settings = FitSettings(max_steps=400, evaluate_every=50, warm_up=0)
    _, history = fit(spurious, settings=settings)
    assert min(history.negative_elbo) < 0.8 * history.negative_elbo[0]
    assert history.best_step in history.steps


def test_same_seed_same_bits(spurious):
    first, _ = fit(spurious)
    second, _ = fit(spurious)
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name]), name


@pytest.mark.parametrize("n_reads", [10, 35, 60])
def test_an_interrupted_fit_goes_on_to_the_same_bits(spurious, tmp_path, n_reads):
    undisturbed, _ = fit(spurious)
    path = tmp_path / "fit.safetensors"
    with pytest.raises(KeyboardInterrupt):
        fit(spurious, path, StopAfter(spurious, n_reads))
    resumed, _ = fit(spurious, path)
    for name, tensor in undisturbed.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name


def test_a_checkpoint_of_another_fit_is_refused(spurious, tmp_path):
    path = tmp_path / "fit.safetensors"
    fit(spurious, path)
    x = spurious.source.x.clone()
    x[1] += 1.0
    changed = Examples(x, spurious.labels, spurious.environments)
    with pytest.raises(ValueError, match="other data"):
        fit(changed, path)
    other_start = LatentCovariateModel(spurious.input_shape, 2, 2, hidden=(32,), seed=2)
    with pytest.raises(ValueError, match="other data"):
        fit_model(
            other_start,
            spurious,
            spurious.labels,
            spurious.environments,
            settings=QUICK,
            checkpoint=path,
        )
    other = FitSettings(max_steps=61, evaluate_every=20, batch_size=16)
    with pytest.raises(ValueError, match="other data or with other settings"):
        fit(spurious, path, settings=other)


def test_patience_ends_a_fit_that_does_not_improve(spurious):
    settings = FitSettings(
        max_steps=500, evaluate_every=5, patience=2, lr=1e-12, prior_lr=1e-12, warm_up=0
    )
    _, history = fit(spurious, settings=settings)
    assert history.steps[-1] < 100


@pytest.mark.parametrize("score", ["observed", "hypothesised"])
def test_scores_are_normalised_and_follow_bayes(spurious, score):
    model, _ = fit(spurious)
    found = log_scores(model, spurious, spurious.labels, spurious.environments, reading=score)
    np.testing.assert_allclose(np.exp(found).sum(1), 1.0)
    i = 7
    x, e = spurious.fetch(np.array([i])), torch.tensor([spurious.environments[i]])
    logits = []
    for label in range(2):
        y = torch.tensor([label if score == "hypothesised" else spurious.labels[i]])
        z = model.encode(x, y, e)[0].double()
        counts = np.bincount(spurious.labels[spurious.environments == int(e)], minlength=2)
        density = model.prior.log_density(z, torch.tensor([label]), e).item()
        logits.append(density + np.log(counts[label] / counts.sum()))
    expected = np.array(logits) - np.logaddexp(*logits)
    np.testing.assert_allclose(found[i], expected, rtol=1e-6, atol=1e-6)


def test_a_label_absent_from_an_environment_has_probability_zero_there(spurious):
    keep = (spurious.labels == 0) | (spurious.environments == 0)
    part = spurious.subset(np.flatnonzero(keep))
    model, _ = fit(part)
    found = log_scores(model, part, part.labels, part.environments, reading="hypothesised")
    assert (found[part.environments == 1, 1] == -np.inf).all()
    assert np.isfinite(found[part.environments == 0]).all()


def test_a_nan_met_while_fitting_is_an_error_that_names_rows(spurious):
    class Broken(StopAfter):
        def fetch(self, indices):
            return self.data.fetch(indices) * float("nan")

    with pytest.raises(ValueError, match="NaN"):
        fit(spurious, source=Broken(spurious, 0))
