"""One run from settings to `result.json`; interrupted anywhere, the same call goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from equipoise.algorithms import Featurizer, Ranks, choose_device, join_ranks
from equipoise.balancer import CausalBalancer
from equipoise.benchmark.balancers import choose_cache, needs_balancer, obtain_balancer
from equipoise.benchmark.data import RunData, choose_selections, find_environment, split_for_run
from equipoise.benchmark.directory import RunDescription, RunDirectory
from equipoise.benchmark.recipes import make_settings
from equipoise.benchmark.records import Record
from equipoise.benchmark.settings import RunSettings
from equipoise.benchmark.tracking import Tracker, choose_trackers, follow, list_metrics
from equipoise.benchmark.training import Diverged, RunResult, Training, build_algorithm
from equipoise.data import EnvironmentDataset, get_dataset

OWN_FEATURIZER = "own"


def train_run(
    output: str | Path,
    *,
    dataset: str | EnvironmentDataset,
    algorithm: str,
    test_environment: int | float | str | None,
    sampling: str = "balanced",
    seed: int = 0,
    profile: str = "domainbed",
    featurizer: Featurizer | None = None,
    data_dir: str | Path | None = None,
    data_seed: int = 0,
    reading: Mapping[str, Any] | None = None,
    device: str = "cpu",
    cache: str | Path | None = None,
    num_workers: int = 0,
    trackers: Sequence[str | Tracker] = (),
    verbose: bool = False,
    **settings: Any,
) -> RunResult:
    """Train into a directory, or go on with what stands there: `equipoise train` as a call.

    Parameters
    ----------
    output : str or Path
        Directory of the run; the same call on it goes on, or returns the finished result.
    dataset : str or EnvironmentDataset
        A registered name, or a dataset object (see `as_environments` for your own data).
    algorithm, sampling : str
        What is trained, and on which batches.
    test_environment : str, int, float or None
        Name or, failing that, position of the one left out; None trains on all.
    seed, data_seed : int
        Of the training, and of the data with their held-out parts.
    reading : dict, optional
        How a dataset at a path is read, such as ``{"label": "ill"}``; see `open_dataset`.
    profile : str
        The recipe that says what `settings` do not, "domainbed" or "quick".
    featurizer : str, Module or callable, optional
        The name of a network, or a module or function ``input_shape -> module``.
    cache : str or Path, optional
        Where fitted balancers are shared [default: `.balancers` beside the run].
    num_workers : int
        Processes that fetch examples ahead, for slow `__getitem__`.
    trackers : list of str or Tracker
        "tensorboard", "mlflow", "wandb" or objects of your own.
    **settings
        Any further field of `RunSettings`, for example ``steps=600``.
    """
    if featurizer is not None:
        settings["featurizer"] = featurizer if isinstance(featurizer, str) else OWN_FEATURIZER
    describe = partial(
        make_settings,
        profile,
        dataset=dataset if isinstance(dataset, str) else type(dataset).__name__,
        algorithm=algorithm,
        sampling=sampling,
        test_environment=test_environment,
        seed=seed,
        data_seed=data_seed,
        **settings,
    )
    describe()  # a mistake should be told before anything is downloaded
    if isinstance(dataset, str):
        dataset = get_dataset(dataset, data_dir=data_dir, data_seed=data_seed, **(reading or {}))
    return execute_run(
        describe(input_shape=dataset.input_shape),
        dataset,
        output,
        featurizer=None if isinstance(featurizer, str) else featurizer,
        device=device,
        cache=cache,
        num_workers=num_workers,
        trackers=trackers,
        verbose=verbose,
    )


def execute_run(
    settings: RunSettings,
    dataset: EnvironmentDataset,
    output: str | Path,
    *,
    featurizer: Featurizer | None = None,
    device: str = "cpu",
    cache: str | Path | None = None,
    num_workers: int = 0,
    trackers: Sequence[str | Tracker] = (),
    save_every: float = 120.0,
    on_checkpoint: Callable[[Record], None] | None = None,
    wait: bool = False,
    verbose: bool = False,
) -> RunResult:
    """Carry out one run in a directory. States are saved at checkpoints and every so many seconds.

    If another process is training there, that is an error, or waited for if `wait`. Under
    `torchrun` all ranks call this; the first alone writes.
    """
    settings = name_environments(settings, dataset)
    device = choose_device(device)
    ranks = join_ranks(device)
    job = _Job(
        settings=settings,
        dataset=dataset,
        directory=RunDirectory(output),
        ranks=ranks,
        featurizer=featurizer,
        device=device,
        cache=choose_cache(Path(output)) if cache is None else Path(cache),
        num_workers=num_workers,
        trackers=choose_trackers(trackers),
        save_every=save_every,
        on_checkpoint=on_checkpoint,
        wait=wait,
        verbose=verbose and ranks.is_first,
    )
    result = job.run_and_write() if ranks.is_first else job.run()
    ranks.meet()  # leave together: gloo may abort a process that ends first
    return result


def name_environments(settings: RunSettings, dataset: EnvironmentDataset) -> RunSettings:
    """The same with environments by name: a position might be another environment's name."""
    names: dict[str, Any] = {}
    for field in ("test_environment", "validation_environment"):
        position = find_environment(dataset, getattr(settings, field))
        if position is not None:
            names[field] = dataset.environment_names[position]
    return replace(settings, **names)


@dataclass(frozen=True, kw_only=True)
class _Job:
    """One run in its directory, as one rank sees it."""

    settings: RunSettings
    dataset: EnvironmentDataset
    directory: RunDirectory
    ranks: Ranks
    featurizer: Featurizer | None
    device: str
    cache: Path
    num_workers: int
    trackers: Sequence[Tracker]
    save_every: float
    on_checkpoint: Callable[[Record], None] | None
    wait: bool
    verbose: bool

    def run(self) -> RunResult:
        """Train along with the first rank, writing nothing."""
        prepared = self._prepare()
        if isinstance(prepared, RunResult):
            return prepared
        for _ in prepared.run():
            pass
        return prepared.result()

    def run_and_write(self) -> RunResult:
        """Train, keep what must not be lost, and end with `result.json`."""
        with self.directory.locked(wait=self.wait):
            started = time.process_time()
            prepared = self._prepare()
            if isinstance(prepared, RunResult):
                return prepared
            self.directory.restore_records(prepared.records)
            ready = time.process_time()
            try:
                self._train(prepared)
            except Diverged as error:
                raise Diverged(f"{error}. {self._tell_what_is_kept()}") from error
            self.directory.write_times(ready - started, time.process_time() - ready)
            self.directory.finish(prepared.result())
            return prepared.result()

    def _tell_what_is_kept(self) -> str:
        path = self.directory.path
        if self.directory.checkpoints.paths():
            return (
                f"The states of {path} up to its last checkpoint are kept; other settings need "
                "another output"
            )
        return (
            f"No checkpoint had been reached, so {path} has no weights; delete it, or choose "
            "another output, before you change the settings"
        )

    def _prepare(self) -> Training | RunResult:
        """The training as far as it has come, or the result if it has come to the end."""
        data = split_for_run(self.settings, self.dataset)
        # First of all: what cannot be trained should not wait for a balancer to say so.
        choose_selections(self.settings, data)
        algorithm = build_algorithm(self.settings, data, featurizer=self.featurizer)
        finished = self.ranks.share(self._claim(data) if self.ranks.is_first else None)
        if finished is not None:
            return finished
        training = Training(
            self.settings,
            data,
            algorithm,
            balancer=self._find_balancer(data) if needs_balancer(self.settings, data) else None,
            device=self.device,
            num_workers=self.num_workers,
            ranks=self.ranks,
        )
        saved = self.directory.checkpoints.load() if self.ranks.is_first else None
        state = self.ranks.share(saved)
        if state is not None:
            training.load_training_state(state)
        if self.ranks.is_first and training.records:
            self.directory.check_best(training.selections)
        return training

    def _claim(self, data: RunData) -> RunResult | None:
        self.directory.claim(RunDescription.of(self.settings, data))
        return self.directory.load_result()

    def _find_balancer(self, data: RunData) -> CausalBalancer:
        """The first rank fits it if nobody has; the others then find it saved."""
        if not self.ranks.is_first:
            self.ranks.share(None)
        balancer = obtain_balancer(
            self.settings, data, self.cache, device=self.device, verbose=self.verbose
        )
        if self.ranks.is_first:
            self.ranks.share(None)
        return balancer

    def _train(self, training: Training) -> None:
        first_step, saved = training.n_steps, time.monotonic()
        with follow(self.trackers, self.settings, self.directory.path, first_step=first_step):
            for _ in training.run(verbose=self.verbose):
                if training.at_checkpoint or time.monotonic() - saved > self.save_every:
                    self.directory.keep(training)
                    saved = time.monotonic()
                if training.at_checkpoint:
                    record = training.records[-1]
                    for tracker in self.trackers:
                        tracker.metrics(list_metrics(record), record.step)
                if training.at_checkpoint and self.on_checkpoint is not None:
                    self.on_checkpoint(training.records[-1])
