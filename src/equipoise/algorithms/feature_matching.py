"""Features distributed alike in all environments: CORAL, MMD, CausIRL, and DANN and CDANN."""

from itertools import combinations
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from equipoise.algorithms.base import Algorithm, Batch, Featurizer, Report
from equipoise.algorithms.devices import in_full_precision
from equipoise.algorithms.networks import MLP
from equipoise.algorithms.registry import Hyperparameter, choice, log_uniform

KERNEL_WIDTHS = (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3)


def coral_distance(first: Tensor, second: Tensor) -> Tensor:
    """mean (μ_1 − μ_2)² + mean (C_1 − C_2)²: means and covariances of the two samples.

    A sample of one example has the covariance 0.
    """
    with in_full_precision(first, second) as (first, second):
        means = (first.mean(dim=0) - second.mean(dim=0)).square().mean()
        return means + (_covariance(first) - _covariance(second)).square().mean()


def mmd_distance(first: Tensor, second: Tensor) -> Tensor:
    """Biased squared MMD: mean k(1,1) + mean k(2,2) − 2 mean k(1,2).

    k(a, b) = Σ_γ exp(−γ‖a − b‖²) over γ = 10⁻³, 10⁻², …, 10³.
    """
    with in_full_precision(first, second) as (first, second):
        centre = second.mean(dim=0).detach()  # cancels in a − b, keeps ‖a‖² + ‖b‖² − 2ab exact
        first, second = first - centre, second - centre
        within = _kernel(first, first).mean() + _kernel(second, second).mean()
        return within - 2 * _kernel(first, second).mean()


def _covariance(sample: Tensor) -> Tensor:
    centred = sample - sample.mean(dim=0)
    return centred.T @ centred / max(len(sample) - 1, 1)


def _kernel(first: Tensor, second: Tensor) -> Tensor:
    norms = first.square().sum(dim=1, keepdim=True) + second.square().sum(dim=1)
    squared = (norms - 2 * first @ second.T).clamp_min(0)
    return torch.stack([(-width * squared).exp() for width in KERNEL_WIDTHS]).sum(dim=0)


class FeatureMatching(Algorithm, abstract=True):
    """mean_e ℓ_e + γ·mean over pairs of environments of distance(features_i, features_j)."""

    min_environments = 2
    encodes_apart = True
    hyperparameters: ClassVar = {
        "mmd_gamma": Hyperparameter(1.0, draw=log_uniform(-1, 1)),
    }

    @staticmethod
    def distance(first: Tensor, second: Tensor) -> Tensor:
        """How far apart two samples of features [N, d] are."""
        raise NotImplementedError

    def objective(self, batches: list[Batch]) -> tuple[Tensor, Report]:
        features, labels = self.encode(batches)
        loss = self.losses(features, labels).mean()
        penalty = self.penalty(features)
        objective = loss + self.settings["mmd_gamma"] * penalty
        return objective, {"loss": loss, "penalty": penalty}

    def penalty(self, features: list[Tensor]) -> Tensor:
        """The mean distance over all pairs of environments; 0 where there is one only."""
        found = [self.distance(a, b) for a, b in combinations(features, 2)]
        return torch.stack(found).mean() if found else features[0].new_zeros(())


class CORAL(FeatureMatching):
    """mean_e ℓ_e + γ·mean_(i<j) [mean (μ_i − μ_j)² + mean (C_i − C_j)²] of the features.

    Deep CORAL (Sun and Saenko 2016).
    """

    distance = staticmethod(coral_distance)


class MMD(FeatureMatching):
    """mean_e ℓ_e + γ·mean_(i<j) MMD²(features_i, features_j), with a sum of Gaussian kernels.

    Maximum mean discrepancy (Li et al. 2018).
    """

    distance = staticmethod(mmd_distance)


class CausIRL(FeatureMatching, abstract=True):
    """mean_e ℓ_e + γ·distance(first pool, second pool) (Chevalley et al. 2022).

    Each environment's features are cut at a random place; the pieces before the cuts form one
    pool, those after them the other: two random mixtures of the environments, which should not
    differ. No penalty where a pool has fewer than two examples.
    """

    def penalty(self, features: list[Tensor]) -> Tensor:
        cuts = [int(torch.randint(len(f), (), generator=self.generator)) for f in features]
        first = torch.cat([f[:cut] for f, cut in zip(features, cuts, strict=True)])
        second = torch.cat([f[cut:] for f, cut in zip(features, cuts, strict=True)])
        if min(len(first), len(second)) < 2:
            return features[0].new_zeros(())
        return self.distance(first, second)


class CausIRL_CORAL(CausIRL):
    """mean_e ℓ_e + γ·[mean (μ_1 − μ_2)² + mean (C_1 − C_2)²] of two random mixtures."""

    distance = staticmethod(coral_distance)


class CausIRL_MMD(CausIRL):
    """mean_e ℓ_e + γ·MMD² of two random mixtures of the environments' features."""

    distance = staticmethod(mmd_distance)


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
            loss = self.loss(self.classifier(torch.cat(features)), torch.cat(labels))
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
