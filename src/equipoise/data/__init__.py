"""Room 1: environments. Examples with labels and environment ids, and the paper's datasets."""

from equipoise.data.arrays import ArrayEnvironments
from equipoise.data.colored_mnist import ColoredMNIST, ColoredMNIST10
from equipoise.data.environments import EnvironmentDataset, EnvironmentSubset
from equipoise.data.registry import get_dataset, list_datasets, register_dataset
from equipoise.data.rotated_mnist import RotatedMNIST
from equipoise.data.sources import Source, as_source
from equipoise.data.split import Split, split_environments

__all__ = [
    "ArrayEnvironments",
    "ColoredMNIST",
    "ColoredMNIST10",
    "EnvironmentDataset",
    "EnvironmentSubset",
    "RotatedMNIST",
    "Source",
    "Split",
    "as_source",
    "get_dataset",
    "list_datasets",
    "register_dataset",
    "split_environments",
]
