"""Who carries out the runs of a sweep: this process, others on this machine, or Ray."""

import multiprocessing
import os
import queue
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import torch

from equipoise.benchmark.plan import import_own
from equipoise.benchmark.run import execute_run
from equipoise.benchmark.settings import RunSettings
from equipoise.checks import require
from equipoise.data import EnvironmentDataset, get_dataset
from equipoise.files import write_json

ERROR_FILE = "error.json"


@dataclass(frozen=True)
class SweepTask:
    """A run to carry out: settings, directory, and what a worker must know to do it."""

    settings: RunSettings
    directory: Path
    source: str  # the dataset's name, or its path wherever the worker stands
    imports: tuple[str, ...] = ()
    data_dir: Path | None = None
    device: str = "cpu"
    threads: int = 1


@dataclass(frozen=True)
class TaskOutcome:
    """How a run ended: without an error, or with the sentence that says why it failed."""

    error: str | None
    seconds: float
    warnings: tuple[str, ...] = ()


def carry_out(task: SweepTask, report: Callable[[int], None]) -> TaskOutcome:
    """Train, calling `report` with the steps done at every checkpoint; never raises.

    An error is kept in the run's directory as `error.json`, with where it happened; a later
    success removes it.
    """
    started = time.monotonic()
    torch.set_num_threads(task.threads)
    import_own(task.imports)
    error = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        try:
            execute_run(
                task.settings,
                _open(task.source, task.data_dir, task.settings.data_seed),
                task.directory,
                device=task.device,
                on_checkpoint=lambda record: report(record.step),
                wait=True,
            )
            (task.directory / ERROR_FILE).unlink(missing_ok=True)
        except Exception as problem:  # whatever it is, the other runs go on
            error = f"{type(problem).__name__}: {problem}"
            keep_error(task.directory, error, traceback.format_exc())
    told = tuple(dict.fromkeys(str(warning.message) for warning in caught))
    return TaskOutcome(error, time.monotonic() - started, told)


def keep_error(directory: Path, error: str, where: str) -> None:
    """Write why a run failed into its directory, if that can be written at all."""
    try:
        write_json(directory / ERROR_FILE, {"error": error, "traceback": where})
    except OSError:  # a full disk, perhaps what failed the run: the caller still has the error
        return


@lru_cache(maxsize=2)
def _open(name: str, data_dir: Path | None, data_seed: int) -> EnvironmentDataset:
    """A worker meets the same few datasets again and again."""
    return get_dataset(name, data_dir=data_dir, data_seed=data_seed)


Report = Callable[[int, int], None]  # position of the task, steps done


class LocalWorkers:
    """Carries out tasks in `n_workers` processes, which share the cores.

    A worker that dies costs its run only, and another takes its place.
    """

    def __init__(self, n_workers: int) -> None:
        if n_workers < 1:
            raise ValueError(f"workers must be at least 1, got {n_workers}")
        self.n_workers = n_workers
        self.threads = count_threads(n_workers)

    def run(
        self, tasks: Sequence[SweepTask], report: Report
    ) -> Generator[tuple[int, TaskOutcome], None, None]:
        """Positions and outcomes of the tasks, as they end."""
        waiting = list(range(len(tasks)))
        idle: list[_Worker] = []
        busy: dict[Any, tuple[_Worker, int]] = {}  # by the line to the worker
        try:
            while waiting or busy:
                while waiting and len(busy) < self.n_workers:
                    worker, position = idle.pop() if idle else _Worker(), waiting.pop(0)
                    worker.give(tasks[position])
                    busy[worker.line] = worker, position
                for line in wait(list(busy)):
                    worker, position = busy[line]
                    message = worker.listen(tasks[position])
                    if isinstance(message, int):
                        report(position, message)
                        continue
                    del busy[line]
                    if worker.process.is_alive():
                        idle.append(worker)
                    else:
                        worker.end()
                    yield position, message
        finally:
            for worker in (*idle, *(worker for worker, _ in busy.values())):
                worker.end()


class InlineWorker:
    """Carries out tasks one after the other in this process: to debug, or to start no other."""

    def __init__(self) -> None:
        self.threads = count_threads(1)

    def run(
        self, tasks: Sequence[SweepTask], report: Report
    ) -> Generator[tuple[int, TaskOutcome], None, None]:
        """Positions and outcomes of the tasks, as they end."""
        for position, task in enumerate(tasks):
            yield position, carry_out(task, partial(report, position))


class _Worker:
    """One process and the line to it."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.line, far_end = context.Pipe()
        self.process: SpawnProcess = context.Process(target=_work, args=(far_end,), daemon=True)
        self.process.start()
        far_end.close()

    def give(self, task: SweepTask) -> None:
        # A process that has just died is noticed when it is listened to.
        with suppress(OSError):
            self.line.send(task)

    def listen(self, task: SweepTask) -> int | TaskOutcome:
        """Steps done, or how the run ended; the death of the process is an end as well."""
        try:
            message: int | TaskOutcome = self.line.recv()
            return message
        except (EOFError, ConnectionResetError):
            self.process.join()
            code = self.process.exitcode or 0
            how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
            error = f"the worker process was ended {how}; not enough memory is the usual reason"
            keep_error(task.directory, error, "")
            return TaskOutcome(error, 0.0)

    def end(self) -> None:
        """Stop at once: a run goes on from its last checkpoint the next time."""
        self.line.close()
        self.process.terminate()
        self.process.join()


def _work(line: Connection) -> None:
    """The life of a worker: tasks in, steps and outcomes out, until the line is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    threading.Thread(target=_follow_parent, daemon=True).start()
    while True:
        try:
            task: SweepTask = line.recv()
        except EOFError:
            return
        line.send(carry_out(task, line.send))


def _follow_parent() -> None:
    """Die with the parent, however it dies: an orphan would hold its run's lock for hours."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def count_threads(n_workers: int) -> int:
    """Cores for each of so many workers, at least one and at most OMP_NUM_THREADS if it is set."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    share = max(1, (available or 1) // n_workers)
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    return min(share, max(1, int(allowed))) if allowed.isdecimal() else share


class RayWorkers:
    """Carries out tasks on the Ray instance that is there, or on one started here.

    All machines must see the directory of the runs under the same path.

    Parameters
    ----------
    cpus_per_run, gpus_per_run : float
        What Ray sets aside for each run; shares such as 0.5 are allowed.
    address : str, optional
        Of a cluster, "auto" for the one this machine belongs to [default: start one here].
    n_workers : int, optional
        Most runs at the same time [default: as many as Ray has room for].
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
        self._ray = require("ray", extra="ray")
        self.n_workers = n_workers
        self.threads = max(1, int(cpus_per_run))

    def run(
        self, tasks: Sequence[SweepTask], report: Report
    ) -> Generator[tuple[int, TaskOutcome], None, None]:
        """Positions and outcomes of the tasks, as they end."""
        ray = self._ray
        running: dict[Any, int] = {}
        waiting = list(range(len(tasks)))
        with ExitStack() as stack:
            if not ray.is_initialized():
                ray.init(address=self.address, include_dashboard=False, log_to_driver=False)
                stack.callback(ray.shutdown)
            self._check_room()
            steps = require("ray.util.queue", extra="ray").Queue(actor_options={"num_cpus": 0})
            stack.callback(steps.shutdown, force=True)
            stack.callback(lambda: [ray.cancel(each, force=True) for each in running])
            options = {"num_cpus": self.cpus_per_run, "num_gpus": self.gpus_per_run}
            start = ray.remote(**options, max_retries=0)(_carry_out_remotely)
            while waiting or running:
                while waiting and len(running) < (self.n_workers or len(tasks)):
                    position = waiting.pop(0)
                    running[start.remote(tasks[position], position, steps)] = position
                ended, _ = ray.wait(list(running), num_returns=1, timeout=1.0)
                _pass_on(steps, report)
                for each in ended:
                    position = running.pop(each)
                    yield position, self._fetch(each, tasks[position])

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


def _carry_out_remotely(task: SweepTask, position: int, steps: Any) -> TaskOutcome:
    return carry_out(task, lambda step: steps.put((position, step)))


def _pass_on(steps: Any, report: Report) -> None:
    while True:
        try:
            position, step = steps.get_nowait()
        except queue.Empty:  # Ray's own is a kind of it
            return
        report(position, step)
