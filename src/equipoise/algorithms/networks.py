"""Featurisers: from an image or a feature vector to the features a classifier sees."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from equipoise.checks import check_choice, require

LARGE_IMAGE_SIDE = 64
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_DEVIATION = (0.229, 0.224, 0.225)


def is_large_image(input_shape: Sequence[int]) -> bool:
    """Whether examples of this shape take the defaults for large images: sides of 64 and more.

    >>> is_large_image((3, 224, 224)), is_large_image((2, 28, 28)), is_large_image((512,))
    (True, False, False)
    """
    return len(input_shape) == 3 and input_shape[1] >= LARGE_IMAGE_SIDE


class MNISTCNN(nn.Module):
    """DomainBed's network for 28×28 images: four convolutions, then the mean over places.

    3×3 convolutions with 64, 128 (stride 2), 128 and 128 channels, each followed by ReLU and
    GroupNorm(8); 128 features.
    """

    def __init__(self, input_shape: Sequence[int], *, dropout: float = 0.0) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = input_shape[0]
        for width, stride in ((64, 1), (128, 2), (128, 1), (128, 1)):
            convolution = nn.Conv2d(channels, width, 3, stride=stride, padding=1)
            layers += [convolution, nn.ReLU(), nn.GroupNorm(8, width)]
            channels = width
        self.layers = nn.Sequential(*layers)
        self.dropout = nn.Dropout(dropout)
        self.n_outputs = channels

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.dropout(self.layers(x).mean(dim=(2, 3)))
        return features


class SmallCNN(nn.Module):
    """A network for 28×28 images on a CPU: a thirtieth of the multiplications of `MNISTCNN`.

    The channels mixed into four, 2×2 places read as channels, two 3×3 convolutions with 32 and
    64 filters, the first followed by the maximum over 2×2 places, each by GroupNorm(8) and ReLU,
    and a linear layer; 128 features. The mixture starts near the sum of the channels, as a
    picture in grey, so that what is learned about a shape in one channel serves in the others;
    it is trained like the rest, and random batches teach it to tell colours within a few steps.
    With ``dropout`` p, a third of p falls on the channels and p on the features, which keeps it
    from memorising wrong labels.
    """

    def __init__(
        self, input_shape: Sequence[int], *, dropout: float = 0.0, n_outputs: int = 128
    ) -> None:
        super().__init__()
        channels, height, width = input_shape
        layers: list[nn.Module] = []
        if channels > 1:
            layers.append(_mix_channels(channels, 4))
            channels = 4
        if height % 2 or width % 2:
            layers.append(nn.ZeroPad2d((0, width % 2, 0, height % 2)))
        self.layers = nn.Sequential(
            *layers,
            nn.PixelUnshuffle(2),
            nn.Conv2d(4 * channels, 32, 3, padding=1),
            nn.MaxPool2d(2, ceil_mode=True),  # before the norm: a quarter of its cost
            *(nn.GroupNorm(8, 32), nn.ReLU()),
            nn.Conv2d(32, 64, 3, padding=1),
            *(nn.GroupNorm(8, 64), nn.ReLU()),
            nn.Dropout2d(dropout / 3),
            nn.Flatten(),
            nn.Linear(64 * -(-height // 4) * -(-width // 4), n_outputs),
            nn.ReLU(),
            nn.Dropout(dropout),
        )
        self.n_outputs = n_outputs

    def forward(self, x: Tensor) -> Tensor:
        # channels last: the fastest layout for few channels on a CPU
        features: Tensor = self.layers(x.contiguous(memory_format=torch.channels_last))
        return features


def _mix_channels(n_inputs: int, n_outputs: int) -> nn.Conv2d:
    """A 1×1 convolution that starts near the plain sum of the channels."""
    mixture = nn.Conv2d(n_inputs, n_outputs, 1)
    with torch.no_grad():
        mixture.weight += 1
    return mixture


class MLP(nn.Module):
    """A multilayer perceptron of ``depth`` linear layers, for feature vectors."""

    def __init__(
        self,
        n_inputs: int,
        n_outputs: int = 128,
        *,
        width: int = 256,
        depth: int = 3,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if depth < 2:
            raise ValueError(f"an MLP has at least 2 linear layers, got depth={depth}")
        sizes = [n_inputs] + [width] * (depth - 1)
        layers: list[nn.Module] = []
        for size, following in pairwise(sizes):
            layers += [nn.Linear(size, following), nn.Dropout(dropout), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(width, n_outputs))
        self.n_outputs = n_outputs

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.layers(x)
        return outputs


class ResNet(nn.Module):
    """ImageNet's ResNet-18 or -50 without its classifier, BatchNorm statistics frozen.

    Needs torchvision (``pip install "equipoise[vision]"``). ``weights`` is what torchvision
    calls them, None for random ones. Pixels in 0…1 are brought to ImageNet's mean and deviation
    here. Other than three input channels reuse the RGB filters, means and deviations.
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        *,
        depth: int = 50,
        dropout: float = 0.0,
        weights: str | None = "IMAGENET1K_V1",
    ) -> None:
        super().__init__()
        if depth not in (18, 50):
            raise ValueError(f"ResNet comes with depth 18 or 50, got {depth}")
        models = require("torchvision.models", extra="vision")
        self.network = getattr(models, f"resnet{depth}")(weights=weights)
        self.n_outputs = int(self.network.fc.in_features)
        self.network.fc = nn.Identity()
        if input_shape[0] != 3:
            self.network.conv1 = _repeat_channels(self.network.conv1, input_shape[0])
        self.dropout = nn.Dropout(dropout)
        # Constants, so not saved with the weights.
        turns = torch.arange(input_shape[0]) % 3
        self.mean: Tensor
        self.deviation: Tensor
        for name, values in (("mean", IMAGENET_MEAN), ("deviation", IMAGENET_DEVIATION)):
            constant = torch.tensor(values)[turns].view(-1, 1, 1)
            self.register_buffer(name, constant, persistent=False)
        self.train()

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.dropout(self.network((x - self.mean) / self.deviation))
        return features

    def train(self, mode: bool = True) -> "ResNet":
        super().train(mode)
        for module in self.network.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
        return self


NETWORKS = ("auto", "mnist-cnn", "small-cnn", "mlp", "resnet18", "resnet50")


def make_featurizer(
    input_shape: Sequence[int],
    network: str = "auto",
    *,
    dropout: float = 0.0,
    pretrained: bool = True,
) -> nn.Module:
    """The featuriser of that name for examples of ``input_shape``.

    "auto" is DomainBed's choice: "mlp" for vectors, "mnist-cnn" for small images, "resnet50" for
    sides of 64 and more. ResNets are ``pretrained`` on ImageNet; others always start at random.

    >>> make_featurizer((2, 28, 28), "small-cnn").n_outputs
    128
    """
    shape = tuple(input_shape)
    check_choice("network", network, NETWORKS, hint="or hand in a module of your own")
    if len(shape) not in (1, 3):
        raise ValueError(
            f"input_shape must be (channels, height, width) or (n_features,), got {shape}"
        )
    if (len(shape) == 1) != (network == "mlp") and network != "auto":
        raise ValueError(
            f"{network!r} does not take examples of the shape {shape}; 'mlp' is for vectors, "
            "the other networks are for (channels, height, width)"
        )
    if len(shape) == 1:
        return MLP(shape[0], dropout=dropout)
    if network == "auto":
        network = "resnet50" if is_large_image(shape) else "mnist-cnn"
    if network == "mnist-cnn":
        return MNISTCNN(shape, dropout=dropout)
    if network == "small-cnn":
        return SmallCNN(shape, dropout=dropout)
    depth = int(network.removeprefix("resnet"))
    weights = "IMAGENET1K_V1" if pretrained else None
    return ResNet(shape, depth=depth, dropout=dropout, weights=weights)


def has_live_batch_norm(network: nn.Module) -> bool:
    """Whether an example's features depend on the others of its batch, by BatchNorm."""
    kind = nn.modules.batchnorm._BatchNorm
    return any(isinstance(module, kind) and module.training for module in network.modules())


def count_features(featurizer: nn.Module, input_shape: Sequence[int]) -> int:
    """The length of a featuriser's output: its ``n_outputs``, or found by trying two zeros."""
    n_outputs = getattr(featurizer, "n_outputs", None)
    if isinstance(n_outputs, int):
        return n_outputs
    was_training = featurizer.training
    with torch.no_grad():
        features = featurizer.eval()(torch.zeros(2, *input_shape))
    featurizer.train(was_training)
    if features.ndim != 2:
        raise ValueError(
            f"a featurizer must give one feature vector for each example, [N, d]; this one gave "
            f"the shape {tuple(features.shape)} for 2 examples. Flatten or pool its output."
        )
    return int(features.shape[1])


def _repeat_channels(rgb: nn.Conv2d, channels: int) -> nn.Conv2d:
    """The same convolution for another number of channels, its filters taken in turn."""
    kernel, stride, padding = rgb.kernel_size, rgb.stride, rgb.padding
    wider = nn.Conv2d(channels, rgb.out_channels, kernel, stride, padding, bias=False)  # type: ignore[arg-type]
    wider.weight.data = rgb.weight.data[:, torch.arange(channels) % 3].clone()
    return wider
