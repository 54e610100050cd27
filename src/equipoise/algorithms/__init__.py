"""Room 4: a batch per environment -> one training step."""

from equipoise.algorithms.andmask import ANDMask
from equipoise.algorithms.arm import ARM
from equipoise.algorithms.augmentation import AUGMENTATIONS, Augmentation, get_augmentation
from equipoise.algorithms.averaging import WeightAverage
from equipoise.algorithms.base import Algorithm, Report
from equipoise.algorithms.batches import Batch
from equipoise.algorithms.causirl_coral import CausIRL_CORAL
from equipoise.algorithms.causirl_mmd import CausIRL_MMD
from equipoise.algorithms.cdann import CDANN
from equipoise.algorithms.coral import CORAL
from equipoise.algorithms.dann import DANN
from equipoise.algorithms.erm import ERM
from equipoise.algorithms.fish import Fish
from equipoise.algorithms.fishr import Fishr
from equipoise.algorithms.groupdro import GroupDRO
from equipoise.algorithms.hyperparameters import Hyperparameter, choice, log_uniform, uniform
from equipoise.algorithms.irm import IRM
from equipoise.algorithms.mixup import Mixup
from equipoise.algorithms.mldg import MLDG
from equipoise.algorithms.mmd import MMD
from equipoise.algorithms.mtl import MTL
from equipoise.algorithms.networks import (
    MLP,
    MNISTCNN,
    NETWORKS,
    ResNet,
    SmallCNN,
    make_featurizer,
)
from equipoise.algorithms.pi import PI
from equipoise.algorithms.ranks import DistributedRanks, Ranks
from equipoise.algorithms.registry import get_algorithm, list_algorithms
from equipoise.algorithms.rsc import RSC
from equipoise.algorithms.sagnet import SagNet
from equipoise.algorithms.sandmask import SANDMask
from equipoise.algorithms.selfreg import SelfReg
from equipoise.algorithms.training_state import TrainingState
from equipoise.algorithms.vrex import VREx

__all__ = [
    "ARM",
    "AUGMENTATIONS",
    "CDANN",
    "CORAL",
    "DANN",
    "ERM",
    "IRM",
    "MLDG",
    "MLP",
    "MMD",
    "MNISTCNN",
    "MTL",
    "NETWORKS",
    "PI",
    "RSC",
    "ANDMask",
    "Algorithm",
    "Augmentation",
    "Batch",
    "CausIRL_CORAL",
    "CausIRL_MMD",
    "DistributedRanks",
    "Fish",
    "Fishr",
    "GroupDRO",
    "Hyperparameter",
    "Mixup",
    "Ranks",
    "Report",
    "ResNet",
    "SANDMask",
    "SagNet",
    "SelfReg",
    "SmallCNN",
    "TrainingState",
    "VREx",
    "WeightAverage",
    "choice",
    "get_algorithm",
    "get_augmentation",
    "list_algorithms",
    "log_uniform",
    "make_featurizer",
    "uniform",
]
