"""One run from settings to `result.json`; interrupted anywhere, the same call goes on."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from equipoise.algorithms import Featurizer, Ranks, choose_device, join_ranks
from equipoise.benchmark.balancers import choose_cache, needs_balancer, obtain_balancer
from equipoise.benchmark.data import RunData, choose_selections, find_environment, split_for_run
from equipoise.benchmark.directory import RunDescription, RunDirectory
from equipoise.benchmark.recipes import make_settings
from equipoise.benchmark.selection import Record
from equipoise.benchmark.settings import RunSettings
from equipoise.benchmark.tracking import Tracker, choose_trackers, follow, list_metrics
from equipoise.benchmark.training import Diverged, RunResult, Training, build_algorithm
from equipoise.data import EnvironmentDataset, get_dataset
from equipoise.files import write_json

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
    directory = RunDirectory(output)
    followers = choose_trackers(trackers)
    with directory.locked(wait=wait) if ranks.is_first else nullcontext():
        started = time.process_time()
        training = _prepare(
            settings,
            split_for_run(settings, dataset),
            directory,
            ranks,
            featurizer=featurizer,
            device=device,
            cache=choose_cache(Path(output)) if cache is None else Path(cache),
            num_workers=num_workers,
            verbose=verbose and ranks.is_first,
        )
        if isinstance(training, Training) and ranks.is_first:
            directory.restore_records(training.records)
            ready = time.process_time()
            try:
                with follow(followers, settings, directory.path, first_step=training.n_steps):
                    _train(training, directory, followers, save_every, on_checkpoint, verbose)
            except Diverged as error:
                raise Diverged(f"{error}. {_tell_what_is_kept(directory)}") from error
            directory.write_times(ready - started, time.process_time() - ready)
            write_json(directory.result, training.result().to_json())
        elif isinstance(training, Training):
            for _ in training.run():
                pass
    ranks.meet()  # leave together: gloo may abort a process that ends first
    return training.result() if isinstance(training, Training) else training


def name_environments(settings: RunSettings, dataset: EnvironmentDataset) -> RunSettings:
    """The same with environments by name: a position might be another environment's name."""
    names: dict[str, Any] = {}
    for field in ("test_environment", "validation_environment"):
        position = find_environment(dataset, getattr(settings, field))
        if position is not None:
            names[field] = dataset.environment_names[position]
    return replace(settings, **names)


def _prepare(
    settings: RunSettings,
    data: RunData,
    directory: RunDirectory,
    ranks: Ranks,
    *,
    featurizer: Featurizer | None,
    device: str,
    cache: Path,
    num_workers: int,
    verbose: bool,
) -> Training | RunResult:
    """The training as far as it has come, or the result if it has come to the end."""
    # First of all: what cannot be trained should not wait for a balancer to say so.
    choose_selections(settings, data)
    algorithm = build_algorithm(settings, data, featurizer=featurizer)
    finished = None
    if ranks.is_first:
        directory.claim(RunDescription.of(settings, data))
        finished = directory.load_result()
    if (finished := ranks.share(finished)) is not None:
        return finished
    balancer = None
    if needs_balancer(settings, data):
        if not ranks.is_first:  # the first fits it if nobody has; the others then find it saved
            ranks.share(None)
        balancer = obtain_balancer(settings, data, cache, device=device, verbose=verbose)
        if ranks.is_first:
            ranks.share(None)
    training = Training(
        settings,
        data,
        algorithm,
        balancer=balancer,
        device=device,
        num_workers=num_workers,
        ranks=ranks,
    )
    state = ranks.share(directory.checkpoints.load() if ranks.is_first else None)
    if state is not None:
        training.load_training_state(state)
    if ranks.is_first and training.records:
        directory.check_best(training.selections)
    return training


def _train(
    training: Training,
    directory: RunDirectory,
    trackers: Sequence[Tracker],
    save_every: float,
    on_checkpoint: Callable[[Record], None] | None,
    verbose: bool,
) -> None:
    """Train to the end, and keep what must not be lost."""
    saved = time.monotonic()
    for _ in training.run(verbose=verbose):
        if training.at_checkpoint or time.monotonic() - saved > save_every:
            directory.keep(training)
            saved = time.monotonic()
        if training.at_checkpoint:
            record = training.records[-1]
            for tracker in trackers:
                tracker.metrics(list_metrics(record), record.step)
            if on_checkpoint is not None:
                on_checkpoint(record)


def _tell_what_is_kept(directory: RunDirectory) -> str:
    path = directory.path
    if directory.checkpoints.paths():
        return (
            f"The states of {path} up to its last checkpoint are kept; other settings need "
            "another output"
        )
    return (
        f"No checkpoint had been reached, so {path} has no weights; delete it, or choose "
        "another output, before you change the settings"
    )
