"""Room 4: a batch per environment -> one training step.

Importing the room defines every algorithm; `get_algorithm` finds them by name.
"""

from equipoise.algorithms import (  # noqa: F401
    contexts,
    feature_matching,
    gradients,
    last_layer,
    perturbations,
    second_model,
)
from equipoise.algorithms.augmentation import Augmentation, get_augmentation
from equipoise.algorithms.base import Algorithm, Batch, Featurizer, HeldOut
from equipoise.algorithms.devices import DistributedRanks, Ranks, choose_device, join_ranks
from equipoise.algorithms.networks import is_large_image, make_featurizer
from equipoise.algorithms.registry import (
    Hyperparameter,
    choice,
    get_algorithm,
    list_algorithms,
    log_uniform,
    uniform,
)
from equipoise.algorithms.risks import ERM
from equipoise.algorithms.training_state import TrainingState, WeightAverage

__all__ = [
    "ERM",
    "Algorithm",
    "Augmentation",
    "Batch",
    "DistributedRanks",
    "Featurizer",
    "HeldOut",
    "Hyperparameter",
    "Ranks",
    "TrainingState",
    "WeightAverage",
    "choice",
    "choose_device",
    "get_algorithm",
    "get_augmentation",
    "is_large_image",
    "join_ranks",
    "list_algorithms",
    "log_uniform",
    "make_featurizer",
    "uniform",
]
