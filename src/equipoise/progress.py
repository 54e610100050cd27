"""One way to show how far a long job is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from equipoise.checks import require

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


class Tracker:
    """Tells a progress bar, if there is one, how many steps are done and what was seen."""

    def __init__(self, bar: Progress | None, total: int, description: str) -> None:
        self._bar = bar
        self._task = bar.add_task(description, total=total, note="") if bar else None

    def reach(self, step: int, note: str | None = None) -> None:
        """Show `step` as done, and a short note beside the bar."""
        if self._bar is not None and self._task is not None:
            note = self._bar.tasks[self._task].fields["note"] if note is None else note
            self._bar.update(self._task, completed=step, note=note)

    def finish(self, note: str | None = None) -> None:
        """Fill the bar, for work that needed fewer steps than it might have."""
        if self._bar is not None and self._task is not None:
            self.reach(int(self._bar.tasks[self._task].completed), note)
            self._bar.update(self._task, total=self._bar.tasks[self._task].completed)


@contextmanager
def track(
    total: int,
    description: str,
    *,
    enabled: bool = True,
    console: Console | None = None,
    memory: float = 30.0,
) -> Iterator[Tracker]:
    """A progress bar with time left while the block runs; silent if not enabled.

    The speed is that of the last `memory` seconds.

    >>> with track(3, "counting", enabled=False) as tracker:
    ...     tracker.reach(3)
    """
    if not enabled:
        yield Tracker(None, total, description)
        return
    rich = require("rich.progress", extra="cli")
    columns = (
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(bar_width=10),
        rich.MofNCompleteColumn(),
        rich.TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        rich.TextColumn("{task.fields[note]}", markup=False),
    )
    shown = console or rich.Console(stderr=True)
    with rich.Progress(*columns, console=shown, speed_estimate_period=memory) as bar:
        yield Tracker(bar, total, description)
