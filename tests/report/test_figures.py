"""Pictures show what they say they show."""

import numpy as np
import torch

from equipoise.data import Examples
from equipoise.latent import LatentCovariateModel
from equipoise.report import draw_batches, draw_counterfactuals, draw_tables, save_figure
from equipoise.report.pictures import channel_colors


def make_images(n=12, channels=3):
    x = torch.zeros(n, channels, 6, 6)
    x[torch.arange(n), torch.arange(n) % channels] = 1.0
    return Examples(x, np.arange(n) % 4, np.arange(n) % 2)


def test_a_batch_is_drawn_with_a_row_for_each_label():
    data = make_images()
    figure = draw_batches(data, np.arange(4), np.arange(8))
    random, balanced = figure.axes
    assert [tick.get_text() for tick in random.get_yticklabels()] == ["0", "1", "2", "3"]
    # A place without an example stays white; one with an example shows it.
    side = 8
    assert (random.images[0].get_array()[0, side + 1] == 1.0).all()
    assert not (balanced.images[0].get_array()[0, side + 1] == 1.0).all()


def test_tables_show_shares_of_each_label():
    figure = draw_tables(
        np.array([[9, 1], [2, 8]]),
        np.array([[5, 5], [5, 5]]),
        label_names=["a", "b"],
        covariate_name="colour",
    )
    before, after = figure.axes
    assert [text.get_text() for text in before.texts] == ["90", "10", "20", "80"]
    assert {text.get_text() for text in after.texts} == {"50"}


def test_counterfactuals_show_the_example_and_one_picture_for_every_label(tmp_path):
    data = make_images()
    model = LatentCovariateModel((3, 6, 6), 4, 2, hidden=(8,))
    figure = draw_counterfactuals(model, data, np.arange(2), data.labels[:2], data.environments[:2])
    (axes,) = figure.axes
    assert axes.images[0].get_array().shape == (2 * 8 - 2, 5 * 8 - 2, 3)
    np.testing.assert_allclose(axes.images[0].get_array()[0, 0], channel_colors(3)[0])
    save_figure(figure, tmp_path / "picture.svg")
    assert "<svg" in (tmp_path / "picture.svg").read_text()
