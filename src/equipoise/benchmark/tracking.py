"""Where the numbers of a run go: TensorBoard, MLflow, Weights & Biases, or your own."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from equipoise.benchmark.selection import Record
from equipoise.benchmark.settings import RunSettings
from equipoise.checks import check_choice, require


class Tracker(Protocol):
    """What a run tells whoever follows it; a class with these three methods is a tracker."""

    def start(self, settings: Mapping[str, Any], directory: Path, first_step: int) -> None:
        """Called before the first step, or the first after a run was resumed."""

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Losses and accuracies at a checkpoint."""

    def end(self) -> None:
        """Called when training ends, by an error as well."""


class TensorBoard:
    """Curves in the folder `tensorboard` of the run (extra `tensorboard`)."""

    def start(self, settings: Mapping[str, Any], directory: Path, first_step: int) -> None:
        require("tensorboard", extra="tensorboard")
        module = require("torch.utils.tensorboard", extra="tensorboard")
        # What a run wrote before it was cut off is hidden from its last saved step on.
        self._writer = module.SummaryWriter(str(directory / "tensorboard"), purge_step=first_step)

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def end(self) -> None:
        self._writer.close()


class MLflow:
    """A run in MLflow's store, $MLFLOW_TRACKING_URI or its default (extra `mlflow`)."""

    def start(self, settings: Mapping[str, Any], directory: Path, first_step: int) -> None:
        self._client = require("mlflow", extra="mlflow").MlflowClient()
        experiment = self._client.get_experiment_by_name("equipoise")
        number = experiment.experiment_id if experiment else None
        number = number or self._client.create_experiment("equipoise")
        run = self._client.create_run(number, run_name=directory.name)
        self._run = run.info.run_id
        for name, value in settings.items():
            self._client.log_param(self._run, name, str(value)[:500])

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            # MLflow's names have no brackets, commas or equals signs.
            allowed = "".join(c if c.isalnum() or c in "_-. /" else "_" for c in name)
            self._client.log_metric(self._run, allowed, value, step=step)

    def end(self) -> None:
        self._client.set_terminated(self._run)


class WandB:
    """A run of Weights & Biases in the run's folder (extra `wandb`).

    Nothing is sent unless $WANDB_MODE says "online"; `wandb sync` uploads it later.
    """

    def start(self, settings: Mapping[str, Any], directory: Path, first_step: int) -> None:
        self._run = require("wandb", extra="wandb").init(
            project="equipoise",
            name=directory.name,
            dir=str(directory),
            config=dict(settings),
            mode=os.environ.get("WANDB_MODE", "offline"),
        )

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def end(self) -> None:
        self._run.finish()


TRACKERS: dict[str, type[Tracker]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
    "wandb": WandB,
}


def choose_trackers(given: Sequence[str | Tracker]) -> list[Tracker]:
    """Trackers by name or as they are; an unknown name is told before anything is trained."""
    if isinstance(given, str):
        raise TypeError(f"trackers must be a sequence such as ({given!r},), got the text {given!r}")
    return [
        TRACKERS[check_choice("tracker", one, TRACKERS)]() if isinstance(one, str) else one
        for one in given
    ]


@contextmanager
def follow(
    trackers: Sequence[Tracker], settings: RunSettings, directory: Path, *, first_step: int
) -> Iterator[None]:
    """Start the trackers, and end those that were started whatever happens."""
    with ExitStack() as stack:
        for tracker in trackers:
            tracker.start(asdict(settings), directory, first_step)
            stack.callback(tracker.end)
        yield


def list_metrics(record: Record) -> dict[str, float]:
    """A record's losses and accuracies by name; the accuracy of the test environment is not one."""
    values = {f"loss/{name}": value for name, value in record.losses.items()}
    values |= {f"train accuracy/{e}": v for e, v in record.train_accuracy.items()}
    values |= {f"held-out accuracy/{e}": v for e, v in record.held_out_accuracy.items()}
    values["selection/train-domain"] = record.validation_accuracy
    if record.balanced_validation_accuracy is not None:
        values["selection/balanced"] = record.balanced_validation_accuracy
    return values
