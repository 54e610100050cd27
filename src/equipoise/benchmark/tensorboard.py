"""Records as curves in TensorBoard, an optional extra."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from equipoise.benchmark.records import Record


class Curves:
    """Writes a record's losses and accuracies under the step they belong to."""

    def __init__(self, directory: Path, *, first_step: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError(
                f'TensorBoard is not installed: pip install "equipoise[tensorboard]" ({error})'
            ) from error
        # What a run wrote before it was cut off is hidden from its last saved step on.
        self._writer = SummaryWriter(str(directory), purge_step=first_step)

    def add(self, record: Record) -> None:
        """Add one point to every curve."""
        values = {f"loss/{name}": value for name, value in record.losses.items()}
        values |= {f"train accuracy/{e}": v for e, v in record.train_accuracy.items()}
        values |= {f"held-out accuracy/{e}": v for e, v in record.held_out_accuracy.items()}
        values["selection/train-domain"] = record.validation_accuracy
        if record.balanced_validation_accuracy is not None:
            values["selection/balanced"] = record.balanced_validation_accuracy
        for name, value in values.items():
            self._writer.add_scalar(name, value, record.step)
        self._writer.flush()

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()


@contextmanager
def open_curves(directory: Path, *, first_step: int, enabled: bool) -> Iterator[Curves | None]:
    """Curves while the block runs, or None if they are not wanted."""
    if not enabled:
        yield None
        return
    curves = Curves(directory, first_step=first_step)
    try:
        yield curves
    finally:
        curves.close()
