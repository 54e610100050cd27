"""Room 1: environments. Examples with labels and environment ids, and the paper's datasets."""

from equipoise.data.check import FolderReport, check_folders
from equipoise.data.dataset import (
    EnvironmentDataset,
    EnvironmentSubset,
    fingerprint_data,
    split_environments,
)
from equipoise.data.examples import (
    DataNames,
    Examples,
    align_features,
    check_for_balancing,
    collect_examples,
)
from equipoise.data.features import (
    ImageBackbone,
    compute_features,
    compute_statistics,
    load_backbone,
)
from equipoise.data.folders import ImageFolderEnvironments
from equipoise.data.opening import (
    as_environments,
    check_dataset,
    get_dataset,
    list_datasets,
    open_dataset,
    register_dataset,
)
from equipoise.data.published import list_image_benchmarks
from equipoise.data.saved import check_output, save_dataset
from equipoise.data.sources import (
    ArraySource,
    Source,
    as_source,
    flatten_examples,
    shrink_examples,
)
from equipoise.data.tables import read_features, read_frame, read_images

__all__ = [
    "ArraySource",
    "DataNames",
    "EnvironmentDataset",
    "EnvironmentSubset",
    "Examples",
    "FolderReport",
    "ImageBackbone",
    "ImageFolderEnvironments",
    "Source",
    "align_features",
    "as_environments",
    "as_source",
    "check_dataset",
    "check_folders",
    "check_for_balancing",
    "check_output",
    "collect_examples",
    "compute_features",
    "compute_statistics",
    "fingerprint_data",
    "flatten_examples",
    "get_dataset",
    "list_datasets",
    "list_image_benchmarks",
    "load_backbone",
    "open_dataset",
    "read_features",
    "read_frame",
    "read_images",
    "register_dataset",
    "save_dataset",
    "shrink_examples",
    "split_environments",
]
