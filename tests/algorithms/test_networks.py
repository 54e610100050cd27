import sys
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import nn

from equipoise.algorithms import make_featurizer
from equipoise.algorithms.networks import MLP, MNISTCNN, ResNet, SmallCNN


def test_the_mnist_network_is_that_of_domainbed():
    network = MNISTCNN((2, 28, 28))
    convolutions = [m for m in network.modules() if isinstance(m, nn.Conv2d)]
    assert [(c.out_channels, c.stride[0], c.kernel_size[0]) for c in convolutions] == [
        (64, 1, 3),
        (128, 2, 3),
        (128, 1, 3),
        (128, 1, 3),
    ]
    assert [m.num_groups for m in network.modules() if isinstance(m, nn.GroupNorm)] == [8] * 4
    x = torch.rand(2, 2, 28, 28)
    places = network.layers(x)
    assert places.shape == (2, 128, 14, 14)
    expected = np.mean(places.detach().numpy().reshape(2, 128, -1), axis=2)
    np.testing.assert_allclose(network(x).detach().numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 28, 28), (10, 28, 28), (3, 27, 32)])
def test_the_small_network_gives_its_features_for_any_small_image(shape):
    network = SmallCNN(shape)
    assert network(torch.rand(3, *shape)).shape == (3, network.n_outputs)
    assert not any(isinstance(m, nn.BatchNorm2d) for m in network.modules())


def test_an_example_s_features_do_not_depend_on_its_neighbours():
    x = torch.rand(4, 1, 28, 28)
    for network in (MNISTCNN((1, 28, 28)), SmallCNN((1, 28, 28))):
        alone = torch.cat([network(row[None]) for row in x])
        torch.testing.assert_close(network(x), alone, rtol=1e-4, atol=1e-5)


def test_dropout_acts_in_training_only():
    network = make_featurizer((1, 28, 28), "small-cnn", dropout=0.5)
    x = torch.rand(2, 1, 28, 28)
    assert not torch.equal(network(x), network(x))
    network.eval()
    assert torch.equal(network(x), network(x))


def test_the_network_goes_by_the_shape_of_the_input():
    assert isinstance(make_featurizer((12,)), MLP)
    assert isinstance(make_featurizer((2, 28, 28)), MNISTCNN)
    assert isinstance(make_featurizer((2, 28, 28), "small-cnn"), SmallCNN)


@pytest.mark.parametrize(
    ("shape", "network", "message"),
    [
        ((2, 28, 28), "small_cnn", "Did you mean 'small-cnn'"),
        ((2, 28), "auto", r"\(channels, height, width\) or \(n_features,\)"),
        ((12,), "small-cnn", "'mlp' is for vectors"),
        ((2, 28, 28), "mlp", "'mlp' is for vectors"),
    ],
)
def test_a_network_that_does_not_fit_is_refused(shape, network, message):
    with pytest.raises(ValueError, match=message):
        make_featurizer(shape, network)


def test_an_mlp_has_the_stated_width_and_depth():
    layers = [m for m in MLP(5, 2, width=16, depth=4).modules() if isinstance(m, nn.Linear)]
    assert [(m.in_features, m.out_features) for m in layers] == [
        (5, 16),
        (16, 16),
        (16, 16),
        (16, 2),
    ]


class StandInResNet(nn.Module):
    """What `ResNet` touches of a torchvision ResNet."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.fc = nn.Linear(8, 1000)

    def forward(self, x):
        return self.fc(torch.relu(self.bn1(self.conv1(x))).mean(dim=(2, 3)))


@pytest.fixture
def torchvision(monkeypatch):
    package, models = ModuleType("torchvision"), ModuleType("torchvision.models")
    models.resnet18 = models.resnet50 = lambda weights: StandInResNet()
    package.models = models
    monkeypatch.setitem(sys.modules, "torchvision", package)
    monkeypatch.setitem(sys.modules, "torchvision.models", models)


def test_a_resnet_keeps_its_batchnorm_statistics_but_learns(torchvision):
    network = make_featurizer((3, 64, 64), "auto").train()
    assert isinstance(network, ResNet)
    before = network.network.bn1.running_mean.clone()
    network(torch.rand(4, 3, 64, 64)).sum().backward()
    assert network.n_outputs == 8
    assert torch.equal(before, network.network.bn1.running_mean)
    assert network.network.bn1.weight.grad is not None


def test_a_resnet_for_more_channels_reuses_the_rgb_filters(torchvision, monkeypatch):
    original = StandInResNet()
    monkeypatch.setattr(sys.modules["torchvision.models"], "resnet18", lambda weights: original)
    rgb = original.conv1.weight.detach().clone()
    network = make_featurizer((5, 64, 64), "resnet18")
    weight = network.network.conv1.weight
    assert all(torch.equal(weight[:, channel], rgb[:, channel % 3]) for channel in range(5))


@pytest.mark.parametrize("channels", [3, 4])
def test_a_resnet_sees_pixels_as_imagenet_s_were_seen(torchvision, channels):
    network = make_featurizer((channels, 64, 64), "resnet18")
    x = torch.rand(2, channels, 64, 64)
    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    turns = np.arange(channels) % 3
    seen = (x.numpy() - mean[turns, None, None]) / deviation[turns, None, None]
    expected = network.network(torch.from_numpy(seen).float())
    torch.testing.assert_close(network(x), expected, rtol=1e-4, atol=1e-5)
    assert not {"mean", "deviation"} & set(network.state_dict())


def test_a_resnet_asks_for_pretrained_weights_only_if_wanted(torchvision, monkeypatch):
    asked = []

    def resnet18(weights):
        asked.append(weights)
        return StandInResNet()

    monkeypatch.setattr(sys.modules["torchvision.models"], "resnet18", resnet18)
    make_featurizer((3, 64, 64), "resnet18")
    make_featurizer((3, 64, 64), "resnet18", pretrained=False)
    assert asked == ["IMAGENET1K_V1", None]


def test_a_missing_torchvision_is_answered_with_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setitem(sys.modules, "torchvision.models", None)
    with pytest.raises(ImportError, match=r"equipoise\[vision\]"):
        make_featurizer((3, 224, 224), "resnet50")
