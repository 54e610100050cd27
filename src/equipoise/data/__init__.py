"""Room 1: environments. Examples with labels and environment ids, and the paper's datasets."""

from equipoise.data.arrays import ArrayEnvironments
from equipoise.data.backbones import ImageBackbone, load_backbone
from equipoise.data.check import FolderReport, check_folders
from equipoise.data.colored_mnist import ColoredMNIST, ColoredMNIST10
from equipoise.data.environments import EnvironmentDataset, EnvironmentSubset
from equipoise.data.features import FeatureEnvironments, compute_features
from equipoise.data.image_benchmarks import PACS, VLCS, DomainNet, OfficeHome, TerraIncognita
from equipoise.data.image_folders import ImageFolderEnvironments
from equipoise.data.opening import open_dataset
from equipoise.data.registry import check_dataset, get_dataset, list_datasets, register_dataset
from equipoise.data.rotated_mnist import RotatedMNIST
from equipoise.data.saved import SavedEnvironments, load_dataset, save_dataset
from equipoise.data.sources import Source, as_source
from equipoise.data.split import Split, split_environments

__all__ = [
    "PACS",
    "VLCS",
    "ArrayEnvironments",
    "ColoredMNIST",
    "ColoredMNIST10",
    "DomainNet",
    "EnvironmentDataset",
    "EnvironmentSubset",
    "FeatureEnvironments",
    "FolderReport",
    "ImageBackbone",
    "ImageFolderEnvironments",
    "OfficeHome",
    "RotatedMNIST",
    "SavedEnvironments",
    "Source",
    "Split",
    "TerraIncognita",
    "as_source",
    "check_dataset",
    "check_folders",
    "compute_features",
    "get_dataset",
    "list_datasets",
    "load_backbone",
    "load_dataset",
    "open_dataset",
    "register_dataset",
    "save_dataset",
    "split_environments",
]
