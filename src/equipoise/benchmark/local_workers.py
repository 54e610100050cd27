"""Worker processes on this machine: each takes a run, reports, and takes the next."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from equipoise.benchmark.sweep_task import SweepTask, TaskOutcome, carry_out, keep_error

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
        waiting = iter(range(len(tasks)))
        workers = [_Worker() for _ in range(min(self.n_workers, len(tasks)))]
        try:
            busy = {worker: next(waiting) for worker in workers}
            for worker, position in busy.items():
                worker.give(tasks[position])
            while busy:
                for worker in _ready(list(busy)):
                    position = busy[worker]
                    message = worker.listen(tasks[position])
                    if isinstance(message, int):
                        report(position, message)
                        continue
                    del busy[worker]
                    yield position, message
                    following = next(waiting, None)
                    if following is None:
                        continue
                    if not worker.is_alive():
                        worker = _Worker()
                        workers.append(worker)
                    worker.give(tasks[following])
                    busy[worker] = following
        finally:
            for worker in workers:
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
        self._line, far_end = context.Pipe()
        self.process: SpawnProcess = context.Process(target=_work, args=(far_end,), daemon=True)
        self.process.start()
        far_end.close()

    @property
    def line(self) -> Connection:
        return self._line

    def give(self, task: SweepTask) -> None:
        # A process that has just died is noticed when it is listened to.
        with suppress(OSError):
            self._line.send(task)

    def listen(self, task: SweepTask) -> int | TaskOutcome:
        """Steps done, or how the run ended; the death of the process is an end as well."""
        try:
            message: int | TaskOutcome = self._line.recv()
            return message
        except (EOFError, ConnectionResetError):
            self.process.join()
            code = self.process.exitcode or 0
            how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
            error = f"the worker process was ended {how}; not enough memory is the usual reason"
            keep_error(task.directory, error, "")
            return TaskOutcome(error, 0.0)

    def is_alive(self) -> bool:
        return self.process.is_alive()

    def end(self) -> None:
        """Stop at once: a run goes on from its last checkpoint the next time."""
        self._line.close()
        self.process.terminate()
        self.process.join()


def _ready(workers: list[_Worker]) -> list[_Worker]:
    lines = {worker.line: worker for worker in workers}
    return [lines[line] for line in wait(list(lines)) if isinstance(line, Connection)]


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
