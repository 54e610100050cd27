"""Scoring builds no graph: a large dataset must not pile one up."""

import torch

from equipoise.latent import LatentCovariateModel, label_free_z, log_scores


def test_scoring_remembers_nothing_for_a_backward_pass(spurious, monkeypatch):
    model = LatentCovariateModel(spurious.input_shape, 2, 2, hidden=(8,))
    model.label_counts.fill_(1.0)
    asked = []
    monkeypatch.setattr(
        model.encoder.rest[-1],
        "forward",
        lambda x: asked.append(torch.is_grad_enabled()) or torch.zeros(len(x), 6),
    )
    arguments = (model, spurious, spurious.labels, spurious.environments)
    for score in ("observed", "hypothesised"):
        log_scores(*arguments, reading=score)
    label_free_z(*arguments)
    assert asked
    assert not any(asked)
