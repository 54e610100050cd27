"""Room 4: a batch per environment -> one training step."""

from equipoise.algorithms.augmentation import AUGMENTATIONS, Augmentation, get_augmentation
from equipoise.algorithms.averaging import WeightAverage
from equipoise.algorithms.base import Algorithm, Batch, Report
from equipoise.algorithms.erm import ERM
from equipoise.algorithms.hyperparameters import Hyperparameter, choice, log_uniform, uniform
from equipoise.algorithms.networks import (
    MLP,
    MNISTCNN,
    NETWORKS,
    ResNet,
    SmallCNN,
    make_featurizer,
)
from equipoise.algorithms.ranks import DistributedRanks, Ranks
from equipoise.algorithms.registry import get_algorithm, list_algorithms
from equipoise.algorithms.training_state import TrainingState

__all__ = [
    "AUGMENTATIONS",
    "ERM",
    "MLP",
    "MNISTCNN",
    "NETWORKS",
    "Algorithm",
    "Augmentation",
    "Batch",
    "DistributedRanks",
    "Hyperparameter",
    "Ranks",
    "Report",
    "ResNet",
    "SmallCNN",
    "TrainingState",
    "WeightAverage",
    "choice",
    "get_algorithm",
    "get_augmentation",
    "list_algorithms",
    "log_uniform",
    "make_featurizer",
    "uniform",
]
