"""Domain-adversarial networks: DANN (Ganin et al. 2016) and CDANN (Li et al. 2018)."""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from equipoise.algorithms.base import Algorithm, Batch, Featurizer, Report
from equipoise.algorithms.hyperparameters import Hyperparameter, choice, log_uniform
from equipoise.algorithms.networks import MLP


class DANN(Algorithm):
    """A discriminator D tells environments apart by the features, the featuriser misleads it.

    In turn: D minimises disc = ℓ(D(f), e) + penalty·mean‖∂ℓ/∂f‖²; featuriser and classifier
    minimise ℓ(y) − λ·disc, every (``d_steps_per_g_step`` + 1)-th step. ``lr`` and
    ``weight_decay`` are those of featuriser and classifier.
    """

    min_environments = 2
    hyperparameters: ClassVar = {
        "dann_lambda": Hyperparameter(1.0, draw=log_uniform(-2, 2)),
        "d_steps_per_g_step": Hyperparameter(
            1, draw=log_uniform(0, 3, base=2, integer=True), integer=True, at_least=0
        ),
        "grad_penalty": Hyperparameter(0.0, draw=log_uniform(-2, 1), at_least=0),
        "lr_d": Algorithm.hyperparameters["lr"],
        "weight_decay_d": Hyperparameter(0.0, draw=log_uniform(-6, -2), at_least=0),
        "beta1": Hyperparameter(0.5, draw=choice(0.0, 0.5), at_least=0, below=1),
        "beta2": Hyperparameter(0.9, at_least=0, below=1),
        "mlp_width": Hyperparameter(
            256, draw=log_uniform(6, 10, base=2, integer=True), integer=True, at_least=1
        ),
        "mlp_depth": Hyperparameter(3, draw=choice(3, 4, 5), integer=True, at_least=2),
        "mlp_dropout": Hyperparameter(0.0, draw=choice(0.0, 0.1, 0.5), at_least=0, at_most=1),
    }

    def build_networks(self, featurizer: Featurizer, n_features: int | None) -> None:
        super().build_networks(featurizer, n_features)
        self.discriminator = MLP(
            self.n_features,
            self.n_environments,
            width=self.settings["mlp_width"],
            depth=self.settings["mlp_depth"],
            dropout=self.settings["mlp_dropout"],
        )

    def build_optimizers(self) -> None:
        generator = [*self.featurizer.parameters(), *self.classifier.parameters()]
        mine = {id(p) for p in generator}
        self.add_optimizer("main", generator)
        self.add_optimizer(
            "discriminator",
            [p for p in self.parameters() if id(p) not in mine],
            lr=self.settings["lr_d"],
            weight_decay=self.settings["weight_decay_d"],
        )

    def _update(self, batches: list[Batch]) -> Report:
        d_steps = self.settings["d_steps_per_g_step"]
        discriminate = (self.steps + 1) % (1 + d_steps) < d_steps
        with torch.set_grad_enabled(not discriminate):
            features, labels = self.encode(batches)
            loss = cross_entropy(self.classifier(torch.cat(features)), torch.cat(labels))
        disc_loss = self.discriminator_loss(features, labels)
        if discriminate:
            self.minimise(disc_loss, "discriminator")
        else:
            self.minimise(loss - self.settings["dann_lambda"] * disc_loss)
        return {"loss": loss, "discriminator_loss": disc_loss}

    def discriminator_loss(self, features: list[Tensor], labels: list[Tensor]) -> Tensor:
        """How badly the discriminator tells the environments apart, and its penalty."""
        y = torch.cat(labels)
        sizes = torch.tensor([len(f) for f in features], device=y.device)
        environments = torch.tensor(self.present, device=y.device).repeat_interleave(sizes)
        inputs = self.discriminator_input(torch.cat(features), y)
        losses = cross_entropy(self.discriminator(inputs), environments, reduction="none")
        loss = self.average(losses, y)
        if self.settings["grad_penalty"] > 0:
            (slopes,) = torch.autograd.grad(losses.sum(), inputs, create_graph=True)
            loss = loss + self.settings["grad_penalty"] * slopes.square().sum(dim=1).mean()
        return loss

    def discriminator_input(self, features: Tensor, labels: Tensor) -> Tensor:
        """What the discriminator sees; a leaf of the graph where only it is trained."""
        return features if features.requires_grad else features.requires_grad_()

    def average(self, losses: Tensor, labels: Tensor) -> Tensor:
        """The mean over all examples."""
        return losses.mean()


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
