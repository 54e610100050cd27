"""Ray as the worker of a sweep: the same runs and records, on a cluster."""

from __future__ import annotations

import queue
from collections.abc import Generator, Sequence
from types import ModuleType
from typing import Any

from equipoise.benchmark.local_workers import Report
from equipoise.benchmark.sweep_task import SweepTask, TaskOutcome, carry_out, keep_error


class RayWorkers:
    """Carries out tasks on the Ray instance that is there, or on one started here.

    All machines must see the directory of the runs under the same path.

    Parameters
    ----------
    cpus_per_run, gpus_per_run : what Ray sets aside for each; shares such as 0.5 are allowed
    address : of a cluster, "auto" for the one this machine belongs to; None starts one here
    n_workers : most runs at the same time; by default as many as Ray has room for
    """

    def __init__(
        self,
        *,
        cpus_per_run: float = 1.0,
        gpus_per_run: float = 0.0,
        address: str | None = None,
        n_workers: int | None = None,
    ) -> None:
        if cpus_per_run <= 0 or gpus_per_run < 0:
            raise ValueError(
                f"a run needs more than 0 CPUs and at least 0 GPUs, got {cpus_per_run} and "
                f"{gpus_per_run}"
            )
        self.cpus_per_run, self.gpus_per_run = cpus_per_run, gpus_per_run
        self.address = address
        self._ray = _import_ray()
        self.n_workers = n_workers
        self.threads = max(1, int(cpus_per_run))

    def run(
        self, tasks: Sequence[SweepTask], report: Report
    ) -> Generator[tuple[int, TaskOutcome], None, None]:
        """Positions and outcomes of the tasks, as they end."""
        ray = self._ray
        started_here = not ray.is_initialized()
        if started_here:
            ray.init(address=self.address, include_dashboard=False, log_to_driver=False)
        try:
            yield from self._run(tasks, report)
        finally:
            if started_here:
                ray.shutdown()

    def _run(
        self, tasks: Sequence[SweepTask], report: Report
    ) -> Generator[tuple[int, TaskOutcome], None, None]:
        ray = self._ray
        self._check_room()
        from ray.util.queue import Queue

        steps: Any = Queue(actor_options={"num_cpus": 0})
        start = ray.remote(num_cpus=self.cpus_per_run, num_gpus=self.gpus_per_run, max_retries=0)(
            _carry_out
        )
        waiting = list(range(len(tasks)))
        running: dict[Any, int] = {}
        try:
            while waiting or running:
                while waiting and len(running) < (self.n_workers or len(tasks)):
                    position = waiting.pop(0)
                    running[start.remote(tasks[position], position, steps)] = position
                ended, _ = ray.wait(list(running), num_returns=1, timeout=1.0)
                _pass_on(steps, report)
                for each in ended:
                    position = running.pop(each)
                    yield position, self._fetch(each, tasks[position])
        finally:
            for each in running:
                ray.cancel(each, force=True)
            steps.shutdown(force=True)

    def _fetch(self, reference: Any, task: SweepTask) -> TaskOutcome:
        try:
            outcome: TaskOutcome = self._ray.get(reference)
            return outcome
        except self._ray.exceptions.RayError as problem:
            error = f"the worker was lost: {problem}"
            keep_error(task.directory, error, "")
            return TaskOutcome(error, 0.0)

    def _check_room(self) -> None:
        """A run that no machine has room for would wait for ever."""
        room = self._ray.cluster_resources()
        for kind, wanted in (("CPU", self.cpus_per_run), ("GPU", self.gpus_per_run)):
            if wanted > room.get(kind, 0):
                raise ValueError(
                    f"a run asks for {wanted:g} {kind}s, but Ray has {room.get(kind, 0):g} in all; "
                    "ask for fewer, or give the address of a larger cluster"
                )


def _carry_out(task: SweepTask, position: int, steps: Any) -> TaskOutcome:
    return carry_out(task, lambda step: steps.put((position, step)))


def _pass_on(steps: Any, report: Report) -> None:
    from ray.util.queue import Empty

    while True:
        try:
            position, step = steps.get_nowait()
        except (Empty, queue.Empty):
            return
        report(position, step)


def _import_ray() -> ModuleType:
    try:
        import ray
    except ImportError as error:
        raise ImportError(
            'sweeps on Ray need the extra "ray": pip install "equipoise[ray]"'
        ) from error
    module: ModuleType = ray
    return module
