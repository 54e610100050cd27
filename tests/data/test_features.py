"""Features of a frozen backbone: computed once, in evaluation mode, whatever interrupts it."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from equipoise.data import (
    Examples,
    ImageBackbone,
    compute_features,
    compute_statistics,
    features,
    load_backbone,
    open_dataset,
)
from equipoise.data.features import fingerprint_backbone
from tests.data.image_tree import write_image_tree

N = 20


class Counting(nn.Module):
    """A small network that counts the examples it has seen."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Dropout(0.5), nn.ReLU())
        self.seen = 0

    def forward(self, x):
        self.seen += len(x)
        return self.layers(x)


@pytest.fixture
def pictures():
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, size=(N, 3, 8, 8), dtype=np.uint8)
    pixels[7] = pixels[2]
    return Examples(pixels, np.arange(N) % 2, np.arange(N) // 10)


@pytest.fixture
def compute(pictures, tmp_path):
    return lambda backbone, data=pictures, **settings: compute_features(
        data, backbone, **{"cache": tmp_path / "cache", "batch_size": 6, **settings}
    )


def test_features_are_the_backbones_mean_over_places_in_evaluation_mode(pictures, compute):
    backbone = Counting().train()
    data = compute(backbone)
    assert backbone.training
    expected = backbone.eval()(pictures.fetch(np.arange(N))).mean(dim=(2, 3))
    assert data.input_shape == (4,)
    assert torch.allclose(data.fetch(np.arange(N)), expected, atol=1e-6)
    assert data.labels.tolist() == pictures.labels.tolist()
    assert data.environment_names == pictures.environment_names


def test_every_example_runs_once_and_the_second_use_runs_nothing(pictures, compute):
    backbone = Counting()
    first = compute(backbone)
    assert backbone.seen == N - 1 + 1  # equal ones once; one to learn the length
    again = compute(backbone)
    assert backbone.seen == N
    assert torch.equal(first.fetch(np.arange(N)), again.fetch(np.arange(N)))
    compute(backbone, pictures.subset([3, 5]))
    assert backbone.seen == N


def test_other_weights_other_layers_and_other_examples_are_computed_anew(pictures, compute):
    compute(Counting())
    other = Counting(seed=1)
    compute(other)
    assert other.seen == N
    assert fingerprint_backbone(Counting()) == fingerprint_backbone(Counting())
    more = Examples(np.zeros((2, 3, 8, 8)), [0, 1], [0, 0])
    known = Counting()
    compute(known, more)
    assert known.seen == 1


def test_constants_that_are_not_saved_count_as_weights():
    def scaled(factor):
        module = nn.Identity()
        module.register_buffer("factor", torch.tensor(factor), persistent=False)
        return module

    assert fingerprint_backbone(scaled(1.0)) != fingerprint_backbone(scaled(2.0))


def test_an_interrupted_computation_goes_on_and_ends_with_the_same_bits(
    compute, tmp_path, monkeypatch
):
    monkeypatch.setattr(features, "KEEP_AFTER", 6)

    class Stopping(Counting):
        stop_at = None

        def forward(self, x):
            if self.stop_at is not None and self.seen >= self.stop_at:
                raise KeyboardInterrupt
            return super().forward(x)

    backbone = Stopping()
    backbone.stop_at = 10
    with pytest.raises(KeyboardInterrupt):
        compute(backbone)
    seen, backbone.stop_at = backbone.seen, None
    resumed = compute(backbone)
    assert backbone.seen == N
    assert seen == 13  # two batches of six, and the one that told the length
    whole = compute(backbone, cache=tmp_path / "other")
    assert torch.equal(resumed.fetch(np.arange(N)), whole.fetch(np.arange(N)))


@pytest.mark.parametrize(
    ("backbone", "message"),
    [
        (nn.Conv2d(5, 2, 3), r"could not take examples of the shape \(3, 8, 8\)"),
        (nn.Flatten(0), r"must give one vector for each example.* gave \(192,\)"),
    ],
)
def test_a_backbone_that_does_not_fit_is_told(compute, backbone, message):
    with pytest.raises(ValueError, match=message):
        compute(backbone)


def test_features_that_are_no_numbers_are_told_with_the_example(compute):
    class Dividing(nn.Module):
        def forward(self, x):
            return x.flatten(1) / 0

    with pytest.raises(ValueError, match="NaN or infinite features for example 0"):
        compute(Dividing())


def test_images_of_a_tree_are_known_by_their_files(tmp_path, compute):
    write_image_tree(tmp_path / "tree", ("a", "b"), ("x", "y"), 3, size=8)
    data = open_dataset(tmp_path / "tree", image_size=8, cache=tmp_path / "images")
    backbone = Counting()
    found = compute(backbone, data)
    assert found.paths == data.paths
    smaller = open_dataset(tmp_path / "tree", image_size=6, cache=tmp_path / "images")
    compute(backbone, smaller)
    assert backbone.seen == 12 + 1 + 12


def test_pixels_are_brought_to_what_the_network_expects():
    backbone = ImageBackbone(nn.Identity(), mean=(0.5, 0.0, 0.0), deviation=(0.5, 1.0, 2.0))
    assert backbone(torch.ones(1, 3, 1, 1)).flatten().tolist() == [1.0, 1.0, 0.5]


MODULE = """
from torch import nn
backbone = nn.Conv2d(3, 2, 1)
class Tiny(nn.Flatten): pass
def make(): return nn.Conv2d(3, 2, 1)
def needs(size): return nn.Identity()
wrong = 3
"""


@pytest.fixture
def own(tmp_path):
    (tmp_path / "own_backbone.py").write_text(MODULE)
    return tmp_path / "own_backbone.py"


@pytest.mark.parametrize("name", ["backbone", "Tiny", "make"])
def test_a_module_a_class_or_a_function_of_a_file_is_a_backbone(own, name):
    assert isinstance(load_backbone(f"{own}:{name}"), nn.Module)


def test_a_name_in_an_installed_module_is_a_backbone():
    assert isinstance(load_backbone("torch.nn:Flatten"), nn.Flatten)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("resnet50", "a backbone is timm/NAME, FILE.py:NAME"),
        ("{own}:nothing", "has no 'nothing'"),
        ("{own}:wrong", "must be or give a torch.nn.Module, got int"),
        ("{own}:needs", "callable without arguments"),
        ("{own}x.py:make", "there is no file"),
        ("no_such_package.here:make", "cannot be imported"),
        ("json:loads", "callable without arguments"),
    ],
)
def test_a_backbone_that_is_none_is_told(own, name, message):
    with pytest.raises(ValueError, match=message):
        load_backbone(name.format(own=own))


def test_timm_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ImportError, match=r"equipoise\[timm\]"):
        load_backbone("timm/resnet18")


def test_timms_network_comes_without_classifier_and_with_its_own_normalisation(monkeypatch):
    """timm cannot be installed beside this torch: a stand-in answers the two calls made of it."""
    asked = {}

    def create_model(name, **options):
        asked.update(options, name=name)
        return nn.Identity()

    facts = {"mean": (0.5,) * 3, "std": (0.25,) * 3}
    config = SimpleNamespace(resolve_model_data_config=lambda network: facts)
    stand_in = SimpleNamespace(create_model=create_model, data=config)
    monkeypatch.setitem(sys.modules, "timm", stand_in)
    backbone = load_backbone("timm/tiny")
    assert asked == {"name": "tiny", "pretrained": True, "num_classes": 0}
    assert backbone(torch.ones(1, 3, 1, 1)).unique().tolist() == [2.0]


class Stacked(nn.Module):
    """Eight convolutions that do not run in the order in which they are registered."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.last = nn.Conv2d(4, 5, 1)
        self.body = nn.ModuleList(nn.Conv2d(4, 4, 1) for _ in range(6))
        self.stem = nn.Conv2d(3, 4, 3)
        self.seen = 0

    def forward(self, x):
        self.seen += len(x)
        x = self.stem(x)
        for layer in self.body:
            x = layer(x).relu()
        return self.last(x)


def test_statistics_are_means_and_deviations_of_pixels_and_early_convolutions(pictures, tmp_path):
    backbone = Stacked()
    last, early = compute_statistics(pictures, backbone, cache=tmp_path, batch_size=6)
    x = pictures.fetch(np.arange(N))
    with torch.no_grad():
        stem = backbone.stem(x)
        maps = {"pixels": x, "stem": stem, "body.0": backbone.body[0](stem)}
    assert last.fetch(np.arange(N)).allclose(backbone(x).mean(dim=(2, 3)), atol=1e-6)
    found = early.fetch(np.arange(N))
    assert found.shape == (N, 2 * (3 + 4 * 4))  # four of eight convolutions
    assert len(early.feature_names) == 38
    assert early.feature_names[-1] == "body.2 deviation 4"
    for layer, map_ in maps.items():
        for which, values in (("mean", map_.mean((2, 3))), ("deviation", map_.std((2, 3), False))):
            column = early.feature_names.index(f"{layer} {which} 2")
            assert found[:, column].allclose(values[:, 1], atol=1e-5)
    assert early.labels.tolist() == last.labels.tolist() == pictures.labels.tolist()


def test_statistics_and_features_take_one_pass_and_leave_no_hooks(pictures, tmp_path):
    backbone = Stacked()
    compute_statistics(pictures, backbone, cache=tmp_path, batch_size=6)
    assert backbone.seen == N - 1 + 2  # equal ones once; two to learn layers and length
    compute_statistics(pictures, backbone, cache=tmp_path, batch_size=6)
    assert backbone.seen == N + 2
    assert not any(module._forward_hooks for module in backbone.modules())


def test_of_a_deep_network_five_early_layers_are_described(pictures, tmp_path):
    deep = nn.Sequential(*(nn.Conv2d(3, 3, 1) for _ in range(30)))
    _, early = compute_statistics(pictures, deep, cache=tmp_path)
    layers = list(dict.fromkeys(name.split()[0] for name in early.feature_names))
    assert layers == ["pixels", "0", "4", "7", "10", "14"]


def test_statistics_need_images_and_say_so(tmp_path):
    vectors = Examples(np.zeros((4, 3)), [0, 1, 0, 1], [0, 0, 1, 1])
    with pytest.raises(ValueError, match=r"are of images.* have the shape \(3,\)"):
        compute_statistics(vectors, nn.Linear(3, 2), cache=tmp_path)
    images = Examples(np.zeros((4, 3, 4, 4)), [0, 1, 0, 1], [0, 0, 1, 1])
    with pytest.raises(ValueError, match=r"must give one vector for each example"):
        compute_statistics(images, Triple(), cache=tmp_path)


class Triple(nn.Module):
    def forward(self, x):
        return x[:, :, 0]
