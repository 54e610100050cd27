"""The base of every algorithm: a batch per environment -> one training step."""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from equipoise.algorithms.devices import Ranks, seeded
from equipoise.algorithms.networks import (
    count_features,
    has_live_batch_norm,
    is_large_image,
    make_featurizer,
)
from equipoise.algorithms.registry import Hyperparameter, choice, log_uniform, register
from equipoise.algorithms.training_state import (
    TrainingState,
    copy_tensor,
    load_optimizer,
    optimizer_tensors,
)
from equipoise.checks import check_choice

Batch = tuple[Tensor, Tensor]
"""Examples [N, …] and labels [N] of one environment."""

Report = dict[str, Tensor | float]


@dataclass(frozen=True)
class HeldOut:
    """Held-out examples of the training environments, for what is fitted after training.

    Parameters
    ----------
    labels, groups : Tensor [N]
        Labels, and (label, covariate) as one code; the environment where no covariate is known.
    blocks : callable
        The examples in the order of `labels`, a part at a time.
    """

    labels: Tensor
    groups: Tensor
    blocks: Callable[[], Iterator[Tensor]]


Featurizer = str | nn.Module | Callable[[tuple[int, ...]], nn.Module]


class Algorithm(nn.Module):
    """A featuriser, a linear classifier and a rule that turns batches into one step.

    Defining a subclass registers it under its class name (``abstract=True`` keeps a mere base
    out). Most subclasses define `objective` only; one that takes several steps at once defines
    `_update`. Everything random is drawn from `generator`, so equal seeds give equal bits.

    Parameters
    ----------
    input_shape : tuple of int
        Shape of one example, ``(channels, height, width)`` or ``(n_features,)``.
    n_labels, n_environments : int
        Numbers of labels and of *training* environments.
    featurizer : str, Module or callable
        A name that `make_featurizer` knows ("auto" goes by the input shape), a module, of which
        a copy is trained, or a function ``input_shape -> module``.
    n_features : int, optional
        Length of the featuriser's output [default: its ``n_outputs``, or tried out].
    large_images : bool, optional
        Use the defaults for large images [default: for sides of 64 and more].
    seed : int
        Of the initial weights and of every later draw.
    **hyperparameters
        Any of the class's `hyperparameters`, by name.

    >>> from equipoise.algorithms import ERM
    >>> erm = ERM((4,), n_labels=2, n_environments=1, seed=0, lr=1e-2)
    >>> x, y = torch.eye(4), torch.tensor([0, 0, 1, 1])
    >>> first = erm.update([(x, y)])["loss"]
    >>> for _ in range(20):
    ...     last = erm.update([(x, y)])["loss"]
    >>> last < first
    True
    """

    hyperparameters: ClassVar[Mapping[str, Hyperparameter]] = {
        "lr": Hyperparameter(
            1e-3,
            large=5e-5,
            draw=log_uniform(-4.5, -2.5),
            draw_large=log_uniform(-5, -3.5),
            at_least=0,
        ),
        "weight_decay": Hyperparameter(0.0, draw_large=log_uniform(-6, -2), at_least=0),
        "batch_size": Hyperparameter(
            64,
            large=32,
            draw=log_uniform(3, 9, base=2, integer=True),
            draw_large=log_uniform(3, 5.5, base=2, integer=True),
            integer=True,
            at_least=1,
        ),
        "dropout": Hyperparameter(0.0, draw_large=choice(0.0, 0.1, 0.5), at_least=0, at_most=1),
        "optimizer": Hyperparameter("adam"),
        "beta1": Hyperparameter(0.9, at_least=0, below=1),
        "beta2": Hyperparameter(0.999, at_least=0, below=1),
        "gce_q": Hyperparameter(0.0, at_least=0, at_most=1),
        "gce_rise": Hyperparameter(0, integer=True, at_least=0),
    }
    """The subclass's own hyperparameters; those of its bases are added when it is defined."""

    min_environments: ClassVar[int] = 1
    """An algorithm that compares environments needs 2."""

    encodes_apart: ClassVar[bool] = False
    """Whether BatchNorm sees each environment by itself, as in DomainBed."""

    def __init_subclass__(cls, *, abstract: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        inherited = [base.__dict__.get("hyperparameters", {}) for base in reversed(cls.__mro__)]
        cls.hyperparameters = {name: h for own in inherited for name, h in own.items()}
        if not abstract:
            register(cls)

    def __init__(
        self,
        input_shape: Sequence[int],
        n_labels: int,
        n_environments: int,
        *,
        featurizer: Featurizer = "auto",
        n_features: int | None = None,
        large_images: bool | None = None,
        seed: int = 0,
        **hyperparameters: Any,
    ) -> None:
        super().__init__()
        if n_labels < 2:
            raise ValueError(f"n_labels must be 2 or more, got {n_labels}")
        if n_environments < self.min_environments:
            raise ValueError(
                f"{type(self).__name__} compares environments and needs at least "
                f"{self.min_environments} to train on, got {n_environments}; add an environment "
                "or take another algorithm, for example ERM"
            )
        self.input_shape = tuple(int(side) for side in input_shape)
        self.n_labels = n_labels
        self.n_environments = n_environments
        if large_images is None:
            large_images = is_large_image(self.input_shape)
        self.settings = self.choose_hyperparameters(large_images=large_images, **hyperparameters)
        self.seed = seed
        self.generator = torch.Generator().manual_seed(seed)
        self.steps = 0
        self.present = list(range(n_environments))
        """The environments of the current step, in the order of its batches."""
        self.ranks = Ranks()
        self.autocast_dtype: torch.dtype | None = None
        self.optimizers: dict[str, torch.optim.Optimizer] = {}
        self._lr_factor = 1.0
        with seeded(seed):
            self.build_networks(featurizer, n_features)
        self.build_optimizers()

    # ---------------------------------------------------------------- what a subclass defines

    def build_networks(self, featurizer: Featurizer, n_features: int | None) -> None:
        """Make `featurizer` and `classifier`; a subclass adds its further networks."""
        self.featurizer, self.n_features = self._make_featurizer(
            featurizer, n_features, self.input_shape
        )
        self.classifier = nn.Linear(self.n_features, self.n_labels)

    def build_optimizers(self) -> None:
        """One optimiser, "main", over all parameters."""
        self.add_optimizer("main", self.parameters())

    def objective(self, batches: list[Batch]) -> tuple[Tensor, Report]:
        """What one step makes smaller, and what `update` reports."""
        raise NotImplementedError(f"{type(self).__name__} must define objective or _update")

    def _update(self, batches: list[Batch]) -> Report:
        objective, report = self.objective(batches)
        self.minimise(objective)
        return report

    # ------------------------------------------------------------------- what a loop calls

    def update(
        self, batches: Sequence[Batch], environments: Sequence[int] | None = None
    ) -> dict[str, float]:
        """Take one training step on one (x, y) per environment.

        An environment without examples in this step is left out of every mean. Give it an empty
        batch, or leave it out and say which ones are there.

        Parameters
        ----------
        batches : list of (Tensor, Tensor)
            Examples and labels of each environment.
        environments : list of int, optional
            The position of each batch's environment [default: 0, 1, … in this order].

        Returns
        -------
        dict of str to float
            ``"loss"``, that of the labels, and the algorithm's further terms.
        """
        self.present, batches = self._find_present(list(batches), environments)
        if not self.training:
            self.train()
        device = batches[0][0].device
        # Layers such as dropout draw from torch's global generator: seed it for this step only,
        # on each rank with another seed, so that their examples get other masks.
        step_seed = int(torch.randint(2**62, (), generator=self.generator))
        precision = torch.autocast(
            device.type, dtype=self.autocast_dtype, enabled=self.autocast_dtype is not None
        )
        with seeded(step_seed + self.ranks.rank, device), precision:
            report = self._update(batches)
        if self.ranks.world_size > 1:
            self.ranks.average([b for b in self.buffers() if b.is_floating_point()])
        self.steps += 1
        return {name: float(torch.as_tensor(value).detach()) for name, value in report.items()}

    def before_evaluation(self, held_out: HeldOut) -> None:
        """What an algorithm fits to held-out examples before it is evaluated: here nothing."""

    def predict(self, x: Tensor) -> Tensor:
        """Logits [N, n_labels] of a batch. Call `eval()` first, as with any module."""
        logits: Tensor = self.classifier(self.featurizer(x))
        return logits

    def forward(self, x: Tensor) -> Tensor:
        return self.predict(x)

    def set_lr_factor(self, factor: float) -> None:
        """Scale the learning rate of every optimiser, for warm-ups and decays."""
        self._lr_factor = float(factor)
        for optimizer in self.optimizers.values():
            for group in optimizer.param_groups:
                group["lr"] = group["initial_lr"] * factor

    def training_state(self) -> TrainingState:
        """Everything a resumed training needs: weights, moments, counters, generator.

        For predictions alone `state_dict()` is enough.
        """
        tensors = {f"weights.{name}": copy_tensor(v) for name, v in self.state_dict().items()}
        for name, optimizer in self.optimizers.items():
            tensors |= optimizer_tensors(optimizer, f"optimizer.{name}.")
        tensors["generator"] = self.generator.get_state()
        name = type(self).__name__
        values = {"algorithm": name, "steps": self.steps, "lr_factor": self._lr_factor}
        return TrainingState(tensors, values)

    def load_training_state(self, state: TrainingState) -> None:
        """Go on from a `training_state` of an algorithm built with the same arguments."""
        if state.values.get("algorithm") != type(self).__name__:
            raise ValueError(
                f"the state belongs to {state.values.get('algorithm')!r}, "
                f"not to {type(self).__name__!r}; build that algorithm to load it"
            )
        self.load_state_dict(state.part("weights."))
        for name, optimizer in self.optimizers.items():
            load_optimizer(optimizer, state.part(f"optimizer.{name}."))
        self.generator.set_state(state.tensors["generator"].cpu())
        self.steps = int(state.values["steps"])
        self.set_lr_factor(state.values["lr_factor"])

    # ----------------------------------------------------------------- what a rule is made of

    def encode(self, batches: list[Batch]) -> tuple[list[Tensor], list[Tensor]]:
        """Features [N_e, d] and labels [N_e] of each environment, of all ranks together."""
        if self.encodes_apart and has_live_batch_norm(self.featurizer):
            features = [self.featurizer(x) for x, _ in batches]
        else:  # one pass is faster, and the same where no example depends on the others
            sizes = [len(y) for _, y in batches]
            features = self.featurizer(torch.cat([x for x, _ in batches])).split(sizes)
        gather = self.ranks.gather
        return [gather(f) for f in features], [gather(y) for _, y in batches]

    def encode_together(self, batches: list[Batch]) -> tuple[Tensor, Tensor]:
        """Features [N, d] and labels [N] of all environments, one after the other."""
        features, labels = self.encode(batches)
        return torch.cat(features), torch.cat(labels)

    def loss(self, logits: Tensor, labels: Tensor, *, reduction: str = "mean") -> Tensor:
        """ℓ: the cross-entropy, or (1 − p_y^q)/q where q of the generalised one is above 0.

        An example's gradient is p_y^q times that of the cross-entropy, so labels that the model
        finds unlikely count less: they may be wrong (Zhang and Sabuncu 2018).
        """
        q = self.find_q()
        if q == 0:
            return cross_entropy(logits, labels, reduction=reduction)
        p_to_q = (-q * cross_entropy(logits, labels, reduction="none")).exp()
        losses: Tensor = (1 - p_to_q) / q
        return losses.mean() if reduction == "mean" else losses

    def find_q(self) -> float:
        """q of this step: ``gce_q``, to which it rises from 0 over ``gce_rise`` steps."""
        rise = self.settings["gce_rise"]
        return float(self.settings["gce_q"]) * (min(1.0, self.steps / rise) if rise else 1.0)

    def losses(self, features: list[Tensor], labels: list[Tensor]) -> Tensor:
        """The loss ℓ_e of each environment of this step."""
        pairs = zip(features, labels, strict=True)
        return torch.stack([self.loss(self.classifier(f), y) for f, y in pairs])

    def gradients(self, loss: Tensor, *names: str, retain_graph: bool = False) -> list[Tensor]:
        """d loss / d parameters of the named optimisers ("main"), averaged over the ranks.

        A rule that differentiates by itself hands what it found to `ranks.average`, so that no
        optimiser ever sees the gradient of one rank alone.
        """
        parameters = self._parameters_of(names)
        found = torch.autograd.grad(
            loss, parameters, retain_graph=retain_graph, allow_unused=True, materialize_grads=True
        )
        self.ranks.average(found)
        return list(found)

    def descend(self, gradients: Iterable[Tensor], *names: str) -> None:
        """Let the named optimisers ("main") take a step along ``gradients``."""
        for parameter, gradient in zip(self._parameters_of(names), gradients, strict=True):
            # A fused optimiser pairs elements by their place in memory: layouts must agree.
            if gradient.stride() != parameter.stride():
                gradient = torch.empty_like(parameter).copy_(gradient)
            parameter.grad = gradient
        for name in names or ("main",):
            self.optimizers[name].step()
            self.optimizers[name].zero_grad()

    def minimise(self, loss: Tensor, *names: str) -> None:
        """One step of the named optimisers ("main") that makes ``loss`` smaller."""
        self.descend(self.gradients(loss, *names), *names)

    def add_optimizer(
        self, name: str, parameters: Iterable[nn.Parameter], **overrides: float
    ) -> None:
        """Make the chosen optimiser over ``parameters``; settings by name may be overridden."""
        settings = {**self.settings, **overrides}
        kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
        if settings["optimizer"] not in kinds:
            raise ValueError(f"optimizer must be 'adam' or 'adamw', got {settings['optimizer']!r}")
        lr = float(settings["lr"])
        # fused: the step over many small tensors costs less than half of the default one
        self.optimizers[name] = kinds[settings["optimizer"]](
            [{"params": [p for p in parameters if p.requires_grad], "initial_lr": lr}],
            lr=lr,
            betas=(settings["beta1"], settings["beta2"]),
            weight_decay=settings["weight_decay"],
            fused=True,
        )

    def anneal(self, weight: str, n_steps: str, *, before: float) -> float:
        """The weight of a penalty: ``before`` for the first steps, then the hyperparameter.

        The optimiser forgets its moments at a jump, since gradients change in size.
        """
        after, first = float(self.settings[weight]), self.settings[n_steps]
        if self.steps == first and after != before:
            self.optimizers["main"].state.clear()
        return after if self.steps >= first else before

    def copy_network(self) -> nn.Sequential:
        """A second network: a copy of the featuriser and a classifier of its own."""
        return nn.Sequential(deepcopy(self.featurizer), nn.Linear(self.n_features, self.n_labels))

    # ------------------------------------------------------------------------ hyperparameters

    @classmethod
    def choose_hyperparameters(cls, *, large_images: bool = False, **chosen: Any) -> dict[str, Any]:
        """The defaults, with the ``chosen`` ones in their place."""
        space = cls.hyperparameters
        for name, value in chosen.items():
            check_choice(f"hyperparameter of {cls.__name__}", name, sorted(space))
            space[name].check(f"{name} of {cls.__name__}", value)
        return {name: h.default(large_images=large_images) for name, h in space.items()} | chosen

    @classmethod
    def draw_hyperparameters(cls, seed: int, *, large_images: bool = False) -> dict[str, Any]:
        """One draw of a random search; each value depends on the seed and its own name only."""
        drawn = {}
        for name, hyperparameter in cls.hyperparameters.items():
            rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
            drawn[name] = hyperparameter.sample(rng, large_images=large_images)
        return drawn

    # ---------------------------------------------------------------------------------- private

    def extra_repr(self) -> str:
        chosen = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        return f"n_labels={self.n_labels}, n_environments={self.n_environments}, {chosen}"

    def _make_featurizer(
        self, featurizer: Featurizer, n_features: int | None, input_shape: tuple[int, ...]
    ) -> tuple[nn.Module, int]:
        if isinstance(featurizer, str):
            module = make_featurizer(input_shape, featurizer, dropout=self.settings["dropout"])
        elif isinstance(featurizer, nn.Module):
            module = deepcopy(featurizer)  # a second run must not start where the first ended
        else:
            module = featurizer(input_shape)
        return module, n_features or count_features(module, input_shape)

    def _parameters_of(self, names: Sequence[str]) -> list[Tensor]:
        return [
            parameter
            for name in names or ("main",)
            for group in self.optimizers[name].param_groups
            for parameter in group["params"]
        ]

    def _find_present(
        self, batches: list[Batch], environments: Sequence[int] | None
    ) -> tuple[list[int], list[Batch]]:
        """Check the batches, and leave out the environments that no rank has examples of."""
        places = list(range(len(batches)) if environments is None else environments)
        known = range(self.n_environments)
        if len(places) != len(batches) or len({*places} & {*known}) != len(places):
            raise ValueError(
                f"update needs one (x, y) for each environment of this step, at most "
                f"{self.n_environments}; got {len(batches)} for the environments {places}"
            )
        for place, (x, y) in zip(places, batches, strict=True):
            if len(x) != len(y):
                raise ValueError(
                    f"the batch of environment {place} has {len(x)} examples and {len(y)} labels; "
                    "both numbers must be equal"
                )
            if tuple(x.shape[1:]) != self.input_shape:
                raise ValueError(
                    f"the examples of environment {place} have the shape {tuple(x.shape[1:])}, "
                    f"the algorithm was built for {self.input_shape}"
                )
        sizes = self.ranks.add_up(torch.tensor([len(y) for _, y in batches])).tolist()
        there = [i for i, size in enumerate(sizes) if size]
        if not there:
            raise ValueError("update needs the examples of at least one environment, got none")
        return [places[i] for i in there], [batches[i] for i in there]
