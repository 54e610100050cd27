"""Conditional domain-adversarial neural networks (Li et al. 2018)."""

import torch
from torch import Tensor, nn

from equipoise.algorithms.base import Featurizer
from equipoise.algorithms.dann import DANN


class CDANN(DANN):
    """DANN whose discriminator sees f + embedding(y), and weighs labels alike.

    An example of label y has the weight 1/(N_y·number of labels in the batch); DomainBed counts
    labels that are absent as well, which only scales the loss.
    """

    def build_networks(self, featurizer: Featurizer, n_features: int | None) -> None:
        super().build_networks(featurizer, n_features)
        self.label_embeddings = nn.Embedding(self.n_labels, self.n_features)

    def discriminator_input(self, features: Tensor, labels: Tensor) -> Tensor:
        seen: Tensor = features + self.label_embeddings(labels)
        return seen

    def average(self, losses: Tensor, labels: Tensor) -> Tensor:
        """The mean over the labels of the mean over the examples of a label."""
        counts = torch.bincount(labels, minlength=self.n_labels)
        return (losses / counts[labels]).sum() / (counts > 0).sum()
