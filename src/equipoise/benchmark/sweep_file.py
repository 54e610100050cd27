"""A sweep as a YAML file. A mistake in it is told with its line and the nearest word."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from equipoise.algorithms import get_algorithm, list_algorithms
from equipoise.benchmark.plan import FIXED, LISTED, Adjustment, SweepSpec, import_own
from equipoise.benchmark.recipes import RECIPES
from equipoise.benchmark.settings import SAMPLINGS, RunSettings, check_type
from equipoise.checks import check_choice, check_count
from equipoise.data import check_dataset
from equipoise.files import check_regular

Place = tuple[str | int, ...]

# What a file may unfold to; checked before it is unfolded.
MOST_BYTES, MOST_LEVELS, MOST_ENTRIES, MOST_RUNS = 2**20, 20, 100_000, 100_000

KEYS = (
    *("datasets", "algorithms", "samplings", "test_environments", "seeds", "draws", "profile"),
    *("settings", "hyperparameters", "adjust", "leave_one_domain_out", "imports"),
)
SETTINGS = tuple(name for name in FIXED if name != "hyperparameters")
ADJUST_KEYS = ("only", "settings", "hyperparameters")


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML in which 1e-3 is a number, as everyone who writes it expects."""


_Loader.yaml_implicit_resolvers = {
    key: list(resolvers) for key, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


def read_sweep(
    path: str | Path, *, data_dir: str | Path | None = None, execute: bool = True
) -> SweepSpec:
    """Read a sweep from a YAML file.

    Its `imports` are executed, unless `execute` is False: then what they register is unknown.
    A relative path among them starts at the file's directory, that of a dataset at the working
    directory or `data_dir`.
    """
    path = Path(path)
    if not path.exists():
        raise ValueError(f"there is no sweep file {path}")
    if check_regular(path).stat().st_size > MOST_BYTES:
        raise ValueError(f"{path} is larger than {MOST_BYTES:,} bytes: it is no sweep file")
    try:
        text = path.read_text(encoding="utf-8")
    except ValueError as error:
        raise ValueError(f"{path} is not readable as text: {error}") from error
    return parse_sweep(
        text, source=str(path), directory=path.parent, data_dir=data_dir, execute=execute
    )


def parse_sweep(
    text: str,
    *,
    source: str = "sweep",
    directory: Path | None = None,
    data_dir: str | Path | None = None,
    execute: bool = True,
) -> SweepSpec:
    """The sweep that a YAML text describes.

    >>> spec = parse_sweep("datasets: ColoredMNIST\\nalgorithms: [ERM, CORAL]\\nseeds: 3")
    >>> spec.seeds
    (0, 1, 2)
    >>> parse_sweep("datasets: ColoredMNIST\\nalgorithm: [ERM]")
    Traceback (most recent call last):
    ValueError: sweep, line 2: unknown key 'algorithm'. Did you mean 'algorithms'? Known: \
datasets, algorithms, samplings, test_environments, seeds, draws, profile, settings, \
hyperparameters, adjust, leave_one_domain_out, imports
    """
    return _Reader(text, source).read(directory, data_dir, execute)


class _Reader:
    """Knows the line of every entry of the file."""

    def __init__(self, text: str, source: str) -> None:
        self.source, self.n_entries = source, 0
        self.lines: dict[Place, int] = {}
        try:
            node = yaml.compose(text, Loader=_Loader)
        except yaml.MarkedYAMLError as error:
            line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
            raise ValueError(f"{source}{line}: not readable as YAML: {error.problem}") from error
        except yaml.YAMLError as error:  # a character that YAML does not allow
            reason = str(error).split("\n")[0]
            raise ValueError(f"{source}: not readable as YAML: {reason}") from error
        except RecursionError:
            raise ValueError(f"{source}: nested too deeply for a sweep file") from None
        if not isinstance(node, yaml.MappingNode):
            raise ValueError(f"{source}: a sweep file is a mapping; it begins with datasets: …")
        self.values = self._note_lines(node, ())

    def _note_lines(self, node: yaml.Node, place: Place) -> Any:
        """The plain value of a node, and its line and those of all within it."""
        line = node.start_mark.line + 1
        self.lines.setdefault(place, line)
        self.n_entries += 1
        # Anchors may refer to what contains them, or unfold to billions.
        if len(place) > MOST_LEVELS or self.n_entries > MOST_ENTRIES:
            raise ValueError(
                f"{self.source}, line {line}: more than {MOST_LEVELS} levels or {MOST_ENTRIES:,} "
                "entries, counting each use of an anchor, are too many for a sweep file"
            )
        if isinstance(node, yaml.MappingNode):
            found: dict[str, Any] = {}
            for key_node, value_node in node.value:
                if not isinstance(key_node, yaml.ScalarNode):
                    raise ValueError(f"{self.source}, line {line}: a key must be a name")
                key = str(key_node.value)
                inner = (*place, key)
                self.lines[inner] = key_node.start_mark.line + 1
                with self._at(inner):
                    if key in found:
                        raise ValueError(f"{key} stands here a second time")
                found[key] = self._note_lines(value_node, inner)
            return found
        if isinstance(node, yaml.SequenceNode):
            return [self._note_lines(each, (*place, i)) for i, each in enumerate(node.value)]
        try:
            return _Loader("").construct_object(node)
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            reason = getattr(error, "problem", None) or error
            raise ValueError(f"{self.source}, line {line}: {reason}") from error

    @contextmanager
    def _at(self, place: Place) -> Iterator[None]:
        """Say in which line a mistake is."""
        try:
            yield
        except ValueError as error:
            while place not in self.lines:
                place = place[:-1]
            if str(error).startswith(f"{self.source}, line"):
                raise
            raise ValueError(f"{self.source}, line {self.lines[place]}: {error}") from error

    def _check(self, place: Place, check: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call a check, and say in which line it fails."""
        with self._at(place):
            return check(*args, **options)

    def read(self, directory: Path | None, data_dir: str | Path | None, execute: bool) -> SweepSpec:
        values = self.values
        for key in values:
            self._check((key,), check_choice, "key", key, KEYS)
        for key in ("datasets", "algorithms"):
            if key not in values:
                raise ValueError(f"{self.source}: {key} is missing; name at least one")
        imports = [
            str((directory / module).absolute()) if module.endswith(".py") and directory else module
            for module in self._names("imports", lambda name: None)
        ]
        executed = tuple(imports) if execute else ()
        self._check(("imports",), import_own, executed)
        algorithms = self._choices("algorithm", list_algorithms())
        given: dict[str, Any] = {
            "datasets": self._names(
                "datasets", partial(check_dataset, data_dir=data_dir), ", or give a path"
            ),
            "algorithms": algorithms,
            "settings": self._settings(values, (), algorithms),
            "adjustments": tuple(self._adjustments(algorithms)),
            "imports": executed,
        }
        if "samplings" in values:
            given["samplings"] = self._choices("sampling", SAMPLINGS)
        if values.get("test_environments", "all") not in ("all", None):
            given["test_environments"] = self._test_environments(values["test_environments"])
        if "seeds" in values:
            given["seeds"] = self._seeds(values["seeds"])
        for key, check, *how in (
            ("profile", check_choice, RECIPES),
            ("draws", check_type, int),
            ("leave_one_domain_out", check_type, bool),
        ):
            if key in values:
                self._check((key,), check, key, values[key], *how)
                given[key] = values[key]
        if "draws" in values:
            self._check(("draws",), check_count, "draws", values["draws"], most=MOST_RUNS)
        spec: SweepSpec = self._check((), SweepSpec, **given)
        return spec

    def _choices(self, kind: str, allowed: Iterable[str]) -> tuple[str, ...]:
        check = partial(check_choice, kind, allowed=allowed)
        return self._names(f"{kind}s", check, f" of {', '.join(allowed)}")

    def _names(
        self, key: str, check: Callable[[str], Any], least: str | None = None
    ) -> tuple[str, ...]:
        """A list of names, each checked, or one without brackets; `least` ends the error."""
        found = _as_list(self.values.get(key, []))
        for position, name in enumerate(found):
            with self._at((key, position)):
                check_type(f"each of {key}", name, str)
                check(name)
        if least is not None and not found:
            with self._at((key,)):
                raise ValueError(f"{key} is empty; name at least one{least}")
        return tuple(found)

    def _test_environments(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return tuple(_as_list(value))
        datasets = [str(name) for name in _as_list(self.values["datasets"])]
        for name in value:
            place = ("test_environments", name)
            self._check(place, check_choice, "dataset of this sweep", name, datasets)
        return {name: tuple(_as_list(each)) for name, each in value.items()}

    def _seeds(self, value: Any) -> tuple[int, ...]:
        with self._at(("seeds",)):
            check_type("seeds", value, int | list)
            if isinstance(value, int):
                value = list(range(check_count("seeds", value, most=MOST_RUNS)))
            if not value:
                raise ValueError("seeds must be a number of seeds, at least 1, or a list of them")
        for position, seed in enumerate(value):
            self._check(("seeds", position), check_type, "each seed", seed, int)
        return tuple(value)

    def _settings(
        self, values: dict[str, Any], place: Place, algorithms: Sequence[str]
    ) -> dict[str, Any]:
        """`settings` and `hyperparameters` of an entry as one dictionary of settings."""
        for key in ("settings", "hyperparameters"):
            self._check((*place, key), check_type, key, values.get(key, {}), dict)
        settings = dict(values.get("settings", {}))
        for name, value in settings.items():
            with self._at((*place, "settings", name)):
                check_choice("setting", name, SETTINGS, hint="hyperparameters have their own key")
                # Of no run in particular: only this value can be wrong.
                RunSettings(dataset="any", algorithm="ERM", **{name: value})
        hyperparameters = values.get("hyperparameters", {})
        for name, value in hyperparameters.items():
            with self._at((*place, "hyperparameters", name)):
                for algorithm in algorithms:
                    get_algorithm(algorithm).choose_hyperparameters(**{name: value})
        return {**settings, "hyperparameters": hyperparameters} if hyperparameters else settings

    def _adjustments(self, algorithms: Sequence[str]) -> Iterator[Adjustment]:
        entries = self.values.get("adjust", [])
        self._check(("adjust",), check_type, "adjust", entries, list)
        for position, entry in enumerate(entries):
            place: Place = ("adjust", position)
            self._check(place, check_type, "each entry of adjust", entry, dict)
            for key in entry:
                self._check((*place, key), check_choice, "key of adjust", key, ADJUST_KEYS)
            only = entry.get("only", {})
            self._check(place, check_type, "only", only, dict)
            for name in only:
                with self._at((*place, "only", name)):
                    check_choice("condition", name, LISTED)
                    if name == "algorithm":
                        get_algorithm(only[name])
            concerned = [only["algorithm"]] if "algorithm" in only else algorithms
            yield Adjustment(only=only, settings=self._settings(entry, place, concerned))


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
