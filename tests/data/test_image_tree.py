"""The tree that other tests rely on has the layout and the planted covariate it says it has."""

import numpy as np
from PIL import Image

from tests.data.image_tree import PACS_CLASSES, PACS_ENVIRONMENTS, write_image_tree


def test_a_tree_has_every_cell_and_the_same_pixels_for_the_same_seed(tmp_path):
    said = write_image_tree(tmp_path / "one", per_class=2, seed=3)
    again = write_image_tree(tmp_path / "two", per_class=2, seed=3)
    assert said == again
    assert len(said) == len(PACS_ENVIRONMENTS) * len(PACS_CLASSES) * 2
    for path in said:
        assert (tmp_path / "one" / path).read_bytes() == (tmp_path / "two" / path).read_bytes()


def test_the_background_goes_with_the_class_except_in_the_last_environment(tmp_path):
    said = write_image_tree(tmp_path, ("a", "b"), ("x", "y"), 60, seed=0, size=8)
    agrees = {"a": [], "b": []}
    for path, background in said.items():
        environment, name, _ = path.split("/")
        agrees[environment].append(("x", "y").index(name) == background)
        corner = np.asarray(Image.open(tmp_path / path)).reshape(-1, 3).max(axis=0)
        assert (corner[0] > corner[1]) == (background == 0)  # red or cyan
    assert np.mean(agrees["a"]) > 0.8
    assert np.mean(agrees["b"]) < 0.2
