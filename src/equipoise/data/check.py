"""What is wrong with a folder tree of images, found before a run finds it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from equipoise.checks import check_choice, check_path
from equipoise.data.cache import choose_data_cache, count_threads
from equipoise.data.folders import LAYOUT, STRAYS, FolderTree, scan_folders, spell
from equipoise.data.images import digest_files, load_image
from equipoise.data.published import (
    ImageBenchmark,
    find_benchmark,
    get_image_benchmark,
    list_image_benchmarks,
)
from equipoise.progress import track

PROBLEMS = ("missing", "empty", *STRAYS, "unreadable", "duplicate", "count")


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: its kind, the folder or file, and a few words."""

    kind: str
    where: str
    what: str


@dataclass(frozen=True)
class FolderReport:
    """All that `check_folders` found; `counts` has a row for every environment."""

    root: Path
    dataset: str | None
    environment_names: tuple[str, ...]
    label_names: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    problems: tuple[Problem, ...]

    @property
    def n_images(self) -> int:
        return sum(map(sum, self.counts))

    def to_json(self) -> dict[str, Any]:
        """Plain values, as a JSON file has them."""
        return {**asdict(self), "root": str(self.root)}


def check_folders(
    root: str | Path,
    *,
    dataset: str | None = None,
    ignore: Sequence[str] = (),
    cache: str | Path | None = None,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> FolderReport:
    """Look through `root/<environment>/<class>/*.jpg`, opening every image.

    Parameters
    ----------
    dataset : str, optional
        The published set it should be; by default told from the directory's name.
    ignore : sequence of str
        Kinds of problems, of `PROBLEMS`, that are none here.
    """
    for kind in ignore:
        check_choice("kind of problem", kind, PROBLEMS)
    root = check_path("root", root)
    if root.is_file():
        raise ValueError(f"{root} is a file; expected a directory {root.name}/{LAYOUT}")
    benchmark: ImageBenchmark | None
    if dataset is not None:
        benchmark = get_image_benchmark(dataset)
        root = find_benchmark(benchmark, root) if root.is_dir() else root
    else:  # the published set that goes by the directory's name
        name, known = spell(root.resolve().name), list_image_benchmarks().values()
        benchmark = next((one for one in known if name in map(spell, one.folders)), None)
    tree = scan_folders(
        root,
        environment_names=benchmark.environment_names if benchmark else None,
        label_names=benchmark.classes if benchmark else None,
    )
    problems = list(_find_gaps(tree))
    for kind, paths in tree.strays.items():
        problems += [Problem(kind, path, STRAYS[kind][0]) for path in paths]
    problems += _open_images(tree, choose_data_cache(cache), n_jobs, verbose)
    if benchmark is not None:
        problems += _compare_counts(tree, benchmark)
    return FolderReport(
        root=root,
        dataset=benchmark.name if benchmark else None,
        environment_names=tree.environment_names,
        label_names=tree.label_names,
        counts=tuple(tuple(int(n) for n in row) for row in tree.count()),
        problems=tuple(problem for problem in problems if problem.kind not in ignore),
    )


def _find_gaps(tree: FolderTree) -> Iterator[Problem]:
    if not tree.environment_names:
        yield Problem("missing", ".", f"there are no folders; expected {LAYOUT}")
    for place, (name, row) in enumerate(zip(tree.environment_names, tree.count(), strict=True)):
        if (place, -1) not in tree.folders:
            yield Problem("missing", name, "there is no folder of this environment")
            continue
        if not row.any():
            yield Problem("empty", name, "an environment without images")
            continue
        for label, count in enumerate(row):
            where = f"{name}/{tree.label_names[label]}"
            if (place, label) not in tree.folders:
                yield Problem("missing", where, "this environment lacks the class")
            elif count == 0:
                yield Problem("empty", where, "a class without images")


def _open_images(
    tree: FolderTree, cache: Path, n_jobs: int | None, verbose: bool
) -> Iterator[Problem]:
    digests = digest_files(tree.root, tree.paths, cache=cache, n_jobs=n_jobs, verbose=verbose)
    same: dict[bytes, list[int]] = defaultdict(list)
    for place, digest in enumerate(digests):
        same[digest or str(place).encode()].append(place)
    with (
        ThreadPoolExecutor(count_threads(n_jobs)) as pool,
        track(len(same), "opening images", enabled=verbose) as tracker,
    ):
        files = [tree.root / tree.paths[places[0]] for places in same.values()]
        found = pool.map(lambda file: load_image(file, (1, 1)), files)
        for done, (places, fault) in enumerate(zip(same.values(), found, strict=True), start=1):
            tracker.reach(done)
            names = [tree.paths[i] for i in places]
            if isinstance(fault, str):
                yield from (Problem("unreadable", name, fault) for name in names)
            elif len(places) > 1:
                apart = (
                    ("under different classes", tree.labels),
                    ("in different environments", tree.environments),
                )
                where = [text for text, codes in apart if len(set(codes[places])) > 1]
                told = ", " * bool(where) + " and ".join(where)
                yield Problem("duplicate", names[0], f"the same as {', '.join(names[1:])}{told}")


def _compare_counts(tree: FolderTree, benchmark: ImageBenchmark) -> Iterator[Problem]:
    found = dict(zip(tree.environment_names, tree.count().sum(axis=1).tolist(), strict=True))
    if found in [dict(edition) for edition in benchmark.counts]:
        return
    for name, count in found.items():
        published = sorted({edition[name] for edition in benchmark.counts})
        if count not in published:
            expected = " or ".join(f"{n:,}" for n in published)
            yield Problem("count", name, f"{count:,} images, published are {expected}")
