"""What is shown of the model is what the model says."""

import numpy as np
import torch

from equipoise.data import Examples, as_source
from equipoise.report.latent_views import (
    REACH,
    decode_counterfactuals,
    measure_effects,
    traverse_latent,
)
from report.subjects import fit_pictures, fit_table, make_pictures, make_table

ROWS = np.arange(20)


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
    found = traverse_latent(model, data, ROWS, data.labels[ROWS], data.environments[ROWS])
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
    found = measure_effects(
        model, as_source(features), ROWS, data.labels[ROWS], data.environments[ROWS]
    )
    assert found.by_label.shape == (4, 3)
    assert found.by_z.shape == (4, model.settings.latent_dim)
    np.testing.assert_allclose(found.by_label.mean(axis=1), 0, atol=1e-6)
    assert np.abs(found.by_z).max() > 0.01
