"""The output directory of a run: what it holds, and how it stays whole."""

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self, get_origin, get_type_hints

from equipoise import __version__
from equipoise.algorithms import TrainingState
from equipoise.benchmark.data import RunData, digest_code
from equipoise.benchmark.recipes import list_differences
from equipoise.benchmark.selection import (
    RECORDS_VERSION,
    SELECTIONS,
    OtherVersion,
    Record,
    check_version,
)
from equipoise.benchmark.settings import RunSettings
from equipoise.benchmark.training import RunResult, Training
from equipoise.checks import check_path
from equipoise.files import (
    DamagedFile,
    Locked,
    UnusableState,
    check_fields,
    check_regular,
    hold_lock,
    load_state,
    read_json,
    read_line,
    remove_parts,
    save_state,
    tell_write_errors,
    write_json,
    write_line,
    write_whole,
)

KEPT = 2
AGAIN = "delete it, and the same command makes it again from the last checkpoint"
DESCRIPTION = {
    "version": int,
    "code": str,
    "settings": dict,
    "data": str,
    "input_shape": [int],
    "label_names": [str],
    "environment_names": [str],
    "feature_names": list | None,
    "role_names?": list | None,
}
# What a record says by name is told in its line as a dictionary.
RECORD = {
    f"{name}?": dict if get_origin(kind) is Mapping else kind
    for name, kind in get_type_hints(Record).items()
}


class OtherCode(ValueError):
    """A run that another version of the code has trained."""


class Checkpoints:
    """A directory with the last two training states; of a damaged one the other is left."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def paths(self) -> list[Path]:
        """The saved states, newest first."""
        return sorted(self.directory.glob("step-*.safetensors"), reverse=True)

    def save(self, state: TrainingState, step: int) -> None:
        """Write a state whole, then forget all but the last two."""
        save_state(self.directory / f"step-{step:09d}.safetensors", state.tensors, state.values)
        for path in self.paths()[KEPT:]:
            path.unlink()

    def load(self) -> TrainingState | None:
        """The newest readable state; None if there is none at all.

        A damaged one is passed over with a warning; if all are damaged, that is a ValueError.
        """
        paths = self.paths()
        for path in paths:
            try:
                return TrainingState(*load_state(path))
            except UnusableState as error:
                warnings.warn(f"{error}. Going on from the state before it", stacklevel=3)
        if paths:
            raise ValueError(
                f"no checkpoint in {self.directory} can be read; restore one of them, or delete "
                "them all to start over"
            )
        return None


@dataclass(frozen=True)
class RunDescription:
    """What a run is about: enough to bring its model back without the data.

    `data` is the fingerprint of the dataset, `code` the digest of the code that trained;
    `role_names` are columns of a table that were the label and the environment.
    """

    settings: RunSettings
    data: str
    code: str
    input_shape: tuple[int, ...]
    label_names: tuple[str, ...]
    environment_names: tuple[str, ...]
    feature_names: tuple[str, ...] | None = None
    role_names: tuple[str, ...] | None = None

    @classmethod
    def of(cls, settings: RunSettings, data: RunData) -> Self:
        """Describe a run of this code on these data."""
        dataset = data.dataset
        return cls(
            settings,
            data.fingerprint,
            digest_code(),
            tuple(dataset.input_shape),
            tuple(dataset.label_names),
            tuple(dataset.environment_names),
            dataset.feature_names,
            dataset.role_names,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values for `settings.json`."""
        head = {"version": RECORDS_VERSION, "equipoise": __version__, "code": self.code}
        return {**head, **asdict(self), "settings": self.settings.to_json()}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """A description from what `to_json` gave."""
        known = {f.name: values[f.name] for f in fields(cls) if f.name in values}
        known = {name: tuple(v) if isinstance(v, list) else v for name, v in known.items()}
        return cls(**{**known, "settings": RunSettings.from_json(values["settings"])})


class RunDirectory:
    """settings.json, records.jsonl, checkpoints/, best/, at the end result.json and times.json.

    Everything but the records is written whole. A checkpoint's state holds all records up to
    it, so that `records.jsonl` can be made right again whatever was cut off.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = check_path("path", path)
        self.settings = self.path / "settings.json"
        self.records = self.path / "records.jsonl"
        self.result = self.path / "result.json"
        self.times = self.path / "times.json"
        self.checkpoints = Checkpoints(self.path / "checkpoints")

    def best(self, selection: str) -> Path:
        """The weights at the checkpoint that this rule selects."""
        return self.path / "best" / f"{selection}.safetensors"

    def kept_selections(self) -> list[str]:
        """The rules for which weights are there."""
        return [name for name in SELECTIONS if self.best(name).is_file()]

    @contextmanager
    def locked(self, *, wait: bool = False) -> Iterator[None]:
        """Refuse a second process on the same directory, or let it wait for the first.

        What a killed one left is swept up.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{self.path} is a file; the output of a run is a directory")
        try:
            with hold_lock(self.path / ".lock", on_wait=(lambda: None) if wait else None):
                self._sweep()
                yield
        except Locked as owner:
            raise ValueError(
                f"process {owner} is training in {self.path}; wait for it, end it, or choose "
                "another output"
            ) from None

    def _sweep(self) -> None:
        for file in (self.settings, self.records, self.result):
            remove_parts(self.path, file.name)
        for directory in (self.checkpoints.directory, self.path / "best"):
            remove_parts(directory)

    # --- what is in it -------------------------------------------------------------------------

    def describe(self) -> RunDescription:
        """What the run in this directory is about."""
        if not self.settings.exists():
            raise ValueError(f"{self.path} holds no run: there is no settings.json")
        hint = "restore a copy, or delete that run"
        try:
            found = read_json(self.settings, {"version?": Any}, stamped=False, hint=hint)
            check_version(found.get("version", 1))  # the first version did not say which it was
            return RunDescription.from_json(read_json(self.settings, DESCRIPTION, hint=hint))
        except OtherVersion as error:
            raise OtherVersion(f"{self.path}: {error}") from error
        except DamagedFile:
            raise
        except (ValueError, TypeError) as error:
            raise DamagedFile(f"{self.settings} is damaged ({error}); {hint}") from error

    def claim(self, description: RunDescription) -> None:
        """Begin the run here, or make sure that the one begun here is the same."""
        if not self.settings.is_file():
            write_json(self.settings, description.to_json())
            return
        found, wanted = self.describe(), description
        changed = list_differences(found.settings, wanted.settings, wanted.input_shape)
        if not changed and found.data != wanted.data:
            changed = ["the data have changed"]
        self.check_code(found)
        if changed:
            raise ValueError(
                f"{self.path} holds a run with other settings: {'; '.join(changed)}. Choose "
                "another output, or delete that run"
            )

    def check_code(self, found: RunDescription) -> None:
        """Refuse to go on with what other code began."""
        if found.code != digest_code():
            raise OtherCode(
                f"{self.path} was trained by other code ({found.code}, now {digest_code()}): its "
                "numbers are not mixed with new ones. Choose another output, or delete that run"
            )

    def load_result(self) -> RunResult | None:
        """The result of a run that is finished and has all its records, else None."""
        if not self.result.is_file():
            return None
        description = self.describe()
        settings, records = description.settings, tuple(self.load_records())
        if not records or records[-1].step != settings.steps:
            return None
        try:
            names = list(read_json(self.result, {"selections": dict}, hint=AGAIN)["selections"])
            selected = {name: SELECTIONS[name]().select(records) for name in names}
        except KeyError as error:
            raise DamagedFile(
                f"{self.result} is damaged (no rule is called {error}); {AGAIN}"
            ) from error
        self.check_best(names)
        return RunResult(settings, records, selected, description.code)

    def load_records(self) -> list[Record]:
        """All records so far; a last line that was cut off does not count."""
        if not self.records.is_file():
            return []
        lines = check_regular(self.records).read_bytes().split(b"\n")[:-1]
        return [self._read_record(number, line) for number, line in enumerate(lines, start=1)]

    def _read_record(self, number: int, line: bytes) -> Record:
        try:
            values = read_line(line)
            check_fields(values, RECORD)
            return Record.from_json(values)
        except OtherVersion as error:
            raise OtherVersion(f"{self.records}: {error}") from error
        except (ValueError, TypeError, RecursionError) as error:
            raise DamagedFile(
                f"{self.records} is damaged (line {number}: {error}); {AGAIN}"
            ) from error

    def check_best(self, selections: Iterable[str]) -> None:
        """Refuse to go on without the best weights so far: no later checkpoint has them."""
        for name in selections:
            try:
                load_state(self.best(name))
            except ValueError as error:
                raise ValueError(
                    f"the best weights by {name!r} are lost: {error}. Restore {self.best(name)}; "
                    f"or delete {self.checkpoints.directory} and, if it is there, {self.result}; "
                    "then the same command trains again, to the same weights"
                ) from error

    # --- writing -------------------------------------------------------------------------------

    def restore_records(self, records: Sequence[Record]) -> None:
        """Make `records.jsonl` say what the state says from which the run goes on."""
        with write_whole(self.records) as temporary:
            temporary.write_text("".join(write_line(record.to_json()) for record in records))

    def keep(self, training: Training) -> None:
        """Save the state; after an evaluation also its record and what it is best for.

        The state comes after the best weights: cut off in between, the run goes on from the
        state before and writes the same weights again.
        """
        training.check_weights()
        if training.at_checkpoint:
            for name, record in training.result().selected.items():
                if record is training.records[-1]:
                    facts = {"selection": name, "step": record.step}
                    save_state(self.best(name), training.weights(), facts)
        self.checkpoints.save(training.training_state(), training.n_steps)
        if training.at_checkpoint:
            with tell_write_errors(self.records), self.records.open("a") as file:
                file.write(write_line(training.records[-1].to_json()))
                file.flush()
                os.fsync(file.fileno())

    def write_times(self, preparation: float, training: float) -> None:
        """Write CPU-seconds to `times.json`: of the balancer and what else precedes, and of steps.

        What an interrupted call spent is not in it.
        """
        write_json(self.times, {"preparation": preparation, "training": training})

    def load_times(self) -> dict[str, float]:
        """CPU-seconds of preparation and training; empty where they were not measured."""
        if not self.times.is_file():
            return {}
        return dict(read_json(self.times, {"preparation": float, "training": float}))
