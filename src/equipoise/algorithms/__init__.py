"""Room 4: a batch per environment -> one training step."""

from equipoise.algorithms.afr import AFR
from equipoise.algorithms.augmentation import AUGMENTATIONS, Augmentation, get_augmentation
from equipoise.algorithms.base import Algorithm, Batch, Featurizer, HeldOut, Report
from equipoise.algorithms.contexts import ARM, MTL
from equipoise.algorithms.dann import CDANN, DANN
from equipoise.algorithms.devices import DistributedRanks, Ranks, choose_device, join_ranks
from equipoise.algorithms.dfr import DFR
from equipoise.algorithms.eiil import EIIL
from equipoise.algorithms.feature_matching import CORAL, MMD, CausIRL_CORAL, CausIRL_MMD
from equipoise.algorithms.fishr import Fishr
from equipoise.algorithms.gradient_masking import ANDMask, SANDMask
from equipoise.algorithms.hyperparameters import Hyperparameter, choice, log_uniform, uniform
from equipoise.algorithms.inner_steps import MLDG, Fish
from equipoise.algorithms.jtt import JTT
from equipoise.algorithms.lff import LfF
from equipoise.algorithms.mixup import Mixup
from equipoise.algorithms.networks import NETWORKS, is_large_image, make_featurizer
from equipoise.algorithms.pi import PI
from equipoise.algorithms.registry import get_algorithm, list_algorithms
from equipoise.algorithms.risks import ERM, IRM, GroupDRO, VREx
from equipoise.algorithms.rsc import RSC
from equipoise.algorithms.sagnet import SagNet
from equipoise.algorithms.selfreg import SelfReg
from equipoise.algorithms.training_state import TrainingState, WeightAverage

__all__ = [
    "AFR",
    "ARM",
    "AUGMENTATIONS",
    "CDANN",
    "CORAL",
    "DANN",
    "DFR",
    "EIIL",
    "ERM",
    "IRM",
    "JTT",
    "MLDG",
    "MMD",
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
    "Featurizer",
    "Fish",
    "Fishr",
    "GroupDRO",
    "HeldOut",
    "Hyperparameter",
    "LfF",
    "Mixup",
    "Ranks",
    "Report",
    "SANDMask",
    "SagNet",
    "SelfReg",
    "TrainingState",
    "VREx",
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
