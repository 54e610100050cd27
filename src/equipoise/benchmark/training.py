"""The training loop: batches -> updates -> records. Usable without any output directory."""

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from equipoise.algorithms import (
    Algorithm,
    Featurizer,
    Ranks,
    TrainingState,
    WeightAverage,
    choose_device,
    get_algorithm,
    get_augmentation,
)
from equipoise.balancer import CausalBalancer
from equipoise.benchmark.balancers import fit_balancer, needs_balancer
from equipoise.benchmark.batches import StepExamples, feed_steps, make_batches, place_batches
from equipoise.benchmark.data import RunData, choose_selections, digest_code, split_for_run
from equipoise.benchmark.evaluation import Evaluator
from equipoise.benchmark.selection import SELECTIONS, Record
from equipoise.benchmark.settings import ANNEAL, RunSettings
from equipoise.data import EnvironmentDataset
from equipoise.latent import flush_denormals
from equipoise.progress import track


def build_algorithm(
    settings: RunSettings, data: RunData, *, featurizer: Featurizer | None = None
) -> Algorithm:
    """The algorithm of the settings for this data; a `featurizer` replaces the one they name."""
    return get_algorithm(settings.algorithm)(
        data.dataset.input_shape,
        data.dataset.n_labels,
        len(data.training_environments),
        featurizer=settings.featurizer if featurizer is None else featurizer,
        seed=settings.seed,
        **settings.hyperparameters,
    )


def lr_factor(settings: RunSettings, step: int) -> float:
    """The factor for step `step` (from 0): a linear warm-up, then constant or half a cosine.

    >>> settings = RunSettings(dataset="ColoredMNIST", algorithm="ERM", warm_up=4)
    >>> [lr_factor(settings, step) for step in (0, 1, 3, 100)]
    [0.25, 0.5, 1.0, 1.0]
    """
    warm = min(1.0, (step + 1) / settings.warm_up) if settings.warm_up else 1.0
    if settings.schedule == "constant":
        return warm
    return warm * 0.5 * (1.0 + math.cos(math.pi * step / settings.steps))


@dataclass(frozen=True)
class RunResult:
    """What a run ended with: all records, and the one each selection rule chose."""

    settings: RunSettings
    records: tuple[Record, ...]
    selected: dict[str, Record]
    code: str = ""  # digest of what trained it

    def to_json(self) -> dict[str, Any]:
        """The content of `result.json`."""
        facts = (
            *("step", "ood_accuracy", "ood_held_out_accuracy"),
            *("validation_accuracy", "balanced_validation_accuracy"),
        )
        chosen = {
            name: {fact: getattr(record, fact) for fact in facts}
            for name, record in self.selected.items()
        }
        return {"settings": self.settings.to_json(), "selections": chosen}


class Diverged(ValueError):
    """A loss or weight is no longer a finite number."""


def train(
    settings: RunSettings,
    dataset: EnvironmentDataset,
    *,
    balancer: CausalBalancer | None = None,
    featurizer: Featurizer | None = None,
    device: str = "cpu",
    num_workers: int = 0,
    on_checkpoint: Callable[[Record], None] | None = None,
    verbose: bool = False,
) -> RunResult:
    """Train once and return every record; nothing is written.

    A `balancer` must have been fitted on the train parts of the training environments, that is
    on ``split_for_run(settings, dataset).train``; where the settings need one and none is
    given, it is fitted here. `featurizer` is a module or function of your own, in place of
    the one the settings name.

    >>> from equipoise.data import Examples
    >>> rng = np.random.default_rng(0)
    >>> y, e = rng.integers(2, size=300), np.arange(300) % 3
    >>> data = Examples(rng.normal(size=(300, 4)) + y[:, None], y, e)
    >>> settings = RunSettings(
    ...     dataset="mine", algorithm="ERM", sampling="random", test_environment=2, steps=20,
    ...     checkpoint_every=10, selections=("train-domain",),
    ... )
    >>> [record.step for record in train(settings, data).records]
    [10, 20]
    """
    device = choose_device(device)
    data = split_for_run(settings, dataset)
    algorithm = build_algorithm(settings, data, featurizer=featurizer)
    if balancer is None and needs_balancer(settings, data):
        balancer = fit_balancer(settings, data, device=device, verbose=verbose)
    training = Training(
        settings, data, algorithm, balancer=balancer, device=device, num_workers=num_workers
    )
    for _ in training.run(verbose=verbose):
        if on_checkpoint is not None and training.at_checkpoint:
            on_checkpoint(training.records[-1])
    return training.result()


def _warn_of_late_penalties(settings: RunSettings, algorithm: Algorithm) -> None:
    for name, value in algorithm.settings.items():
        if name.endswith(ANNEAL) and value >= settings.steps:
            warnings.warn(
                f"{name} is {value}, but the run has {settings.steps} steps: the penalty of "
                f"{settings.algorithm} never sets in. Lower {name} or train longer",
                stacklevel=4,
            )


class Training:
    """The state of one run: all that a checkpoint must hold."""

    def __init__(
        self,
        settings: RunSettings,
        data: RunData,
        algorithm: Algorithm,
        *,
        balancer: CausalBalancer | None = None,
        device: str = "cpu",
        num_workers: int = 0,
        ranks: Ranks | None = None,
    ) -> None:
        self.settings, self.data = settings, data
        self.ranks = ranks or Ranks()
        self.device, self.num_workers = torch.device(device), num_workers
        self.selections = choose_selections(settings, data)
        if self.ranks.is_first:
            _warn_of_late_penalties(settings, algorithm)
        self.batches = make_batches(
            settings,
            data,
            balancer=balancer,
            num_replicas=self.ranks.world_size,
            rank=self.ranks.rank,
        )
        self.evaluator = Evaluator(
            data,
            balancer=balancer if "balanced" in self.selections else None,
            at_most=settings.evaluate_at_most,
            data_seed=settings.data_seed,
            device=self.device,
            ranks=self.ranks,
        )
        self.algorithm = algorithm.to(self.device)
        self.algorithm.ranks = self.ranks
        if settings.precision == "bf16":
            self.algorithm.autocast_dtype = torch.bfloat16
        decay = settings.weight_average
        self.average = None if decay is None else WeightAverage(self.algorithm, decay=decay)
        self._augment = get_augmentation(settings.augmentation)
        self.n_steps = 0
        self.records: list[Record] = []
        self._sums: dict[str, float] = {}
        self._n_summed = 0

    # --- going on ------------------------------------------------------------------------------

    def run(self, *, verbose: bool = False) -> Iterator[int]:
        """Train to the end; yields the number of updates done after each."""
        shown = verbose and self.ranks.is_first
        title = f"{self.settings.algorithm}, {self.settings.sampling}"
        with flush_denormals(), track(self.settings.steps, title, enabled=shown) as tracker:
            for examples in feed_steps(
                self.data.train,
                self.batches,
                start=self.n_steps,
                stop=self.settings.steps,
                num_workers=self.num_workers,
            ):
                self.step(examples)
                if self.at_checkpoint:
                    self.records.append(self._evaluate())
                tracker.reach(self.n_steps, self._note())
                yield self.n_steps

    def step(self, examples: StepExamples) -> None:
        """One update."""
        settings = self.settings
        draw = [settings.seed, self.n_steps, self.ranks.rank, 0xA06]
        seed = int(np.random.SeedSequence(draw).generate_state(1)[0])
        batches = place_batches(examples, self._augment, seed, self.device)
        self.algorithm.set_lr_factor(lr_factor(settings, self.n_steps))
        losses = self.algorithm.update(batches)
        self._check_losses(losses)
        if self.average is not None:
            self.average.update()
        for name, value in losses.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
        self._n_summed += 1
        self.n_steps += 1

    @property
    def at_checkpoint(self) -> bool:
        """Whether the last update is followed by an evaluation."""
        n, settings = self.n_steps, self.settings
        return n > 0 and (n % settings.checkpoint_every == 0 or n == settings.steps)

    def _evaluate(self) -> Record:
        self.check_weights()
        complete = self.n_steps == self.settings.steps
        with self._averaged():
            found = self.evaluator.evaluate(self.algorithm, complete=complete)
        losses = {name: total / self._n_summed for name, total in self._sums.items()}
        self._sums, self._n_summed = {}, 0
        names, test = self.data.dataset.environment_names, self.data.test_environment
        validation = [found.held_out[e] for e in self.data.training_environments]
        return Record(
            step=self.n_steps,
            loss=losses["loss"],
            losses=losses,
            train_accuracy=dict(zip(names, found.train, strict=True)),
            held_out_accuracy=dict(zip(names, found.held_out, strict=True)),
            validation_accuracy=float(np.mean(validation)),
            balanced_validation_accuracy=found.balanced,
            ood_accuracy=None if test is None else found.train[test],
            ood_held_out_accuracy=None if test is None else found.held_out[test],
        )

    def _note(self) -> str:
        loss = self._sums.get("loss", 0.0) / max(1, self._n_summed)
        if not self.records:
            return f"loss {loss:.2f}"
        last = self.records[-1]
        loss = loss if self._n_summed else last.loss
        shown = {
            "val": last.validation_accuracy,
            "bal": last.balanced_validation_accuracy,
            "test": last.ood_accuracy,
        }
        accuracies = [f"{name} {value:.1%}" for name, value in shown.items() if value is not None]
        return " ".join([f"loss {loss:.2f}", *accuracies])

    # --- what must not happen ------------------------------------------------------------------

    def _check_losses(self, losses: dict[str, float]) -> None:
        for name, value in losses.items():
            if not math.isfinite(value):
                raise self._advise(f"the {name} of {self.settings.algorithm} is {value}")

    def check_weights(self) -> None:
        """Raise `Diverged` unless every weight is a number; to be called before each saving."""
        if not all(bool(torch.isfinite(p).all()) for p in self.algorithm.parameters()):
            raise self._advise(f"a weight of {self.settings.algorithm} is not finite")

    def _advise(self, problem: str) -> Diverged:
        settings = self.algorithm.settings
        return Diverged(
            f"{problem} at step {self.n_steps}. Lower lr (now {settings['lr']:g}), warm it up "
            f"(warm_up, now {self.settings.warm_up}), weaken the algorithm's penalty, or look "
            "for huge values in the data"
        )

    # --- keeping -------------------------------------------------------------------------------

    def result(self) -> RunResult:
        """The records so far and what each rule selects of them."""
        selected = {name: SELECTIONS[name]().select(self.records) for name in self.selections}
        return RunResult(self.settings, tuple(self.records), selected, digest_code())

    def weights(self) -> dict[str, Tensor]:
        """Weights and buffers for prediction: the averaged ones, if they are averaged."""
        # Applied, not looked up by name: a tied weight has several names, the average only one.
        with self._averaged():
            return dict(self.algorithm.state_dict())

    def _averaged(self) -> AbstractContextManager[None]:
        """The algorithm has its averaged weights inside, if they are averaged."""
        return nullcontext() if self.average is None else self.average.applied()

    def training_state(self) -> TrainingState:
        """Everything a resumed run needs; may be taken after any update."""
        algorithm = self.algorithm.training_state()
        values = {
            "algorithm": algorithm.values,
            "n_steps": self.n_steps,
            "records": [record.to_json() for record in self.records],
            "sums": self._sums,
            "n_summed": self._n_summed,
        }
        tensors = {f"algorithm.{name}": tensor for name, tensor in algorithm.tensors.items()}
        if self.average is not None:
            average = self.average.training_state()
            tensors |= average.tensors
            values["average"] = average.values
        return TrainingState(tensors, values)

    def load_training_state(self, state: TrainingState) -> None:
        """Go on from a `training_state` of the same settings and data."""
        values = state.values
        own = TrainingState(state.part("algorithm."), values["algorithm"])
        self.algorithm.load_training_state(own)
        if self.average is not None:
            self.average.load_training_state(TrainingState(state.tensors, values["average"]))
        self.n_steps = int(values["n_steps"])
        self.records = [Record.from_json(record) for record in values["records"]]
        self._sums, self._n_summed = dict(values["sums"]), int(values["n_summed"])
