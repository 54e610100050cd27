"""Room 1: environments. Examples with labels and environment ids, and the paper's datasets."""

from equipoise.data.arrays import ArrayEnvironments
from equipoise.data.colored_mnist import ColoredMNIST, ColoredMNIST10
from equipoise.data.environments import EnvironmentDataset, EnvironmentSubset
from equipoise.data.image_folders import ImageFolderEnvironments
from equipoise.data.opening import open_dataset
from equipoise.data.registry import get_dataset, list_datasets, register_dataset
from equipoise.data.rotated_mnist import RotatedMNIST
from equipoise.data.saved import SavedEnvironments, load_dataset, save_dataset
from equipoise.data.sources import Source, as_source
from equipoise.data.split import Split, split_environments

__all__ = [
    "ArrayEnvironments",
    "ColoredMNIST",
    "ColoredMNIST10",
    "EnvironmentDataset",
    "EnvironmentSubset",
    "ImageFolderEnvironments",
    "RotatedMNIST",
    "SavedEnvironments",
    "Source",
    "Split",
    "as_source",
    "get_dataset",
    "list_datasets",
    "load_dataset",
    "open_dataset",
    "register_dataset",
    "save_dataset",
    "split_environments",
]
