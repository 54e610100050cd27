"""Rooms stand in an order, and no room imports one that comes after it."""

from __future__ import annotations

import ast
from pathlib import Path

import equipoise

ROOT = Path(equipoise.__file__).parent
# In the order data walks through them; what stands side by side shares a number.
ORDER = {
    "checks": 0, "files": 0, "progress": 0, "paper": 0,
    "data": 1,
    "latent": 2,
    "balance": 2,
    "diagnosis": 3,
    "scoring": 4, "balancing": 4, "balancer_checks": 4, "balancer_files": 4,
    "examining": 5,
    "balancer": 6,
    "algorithms": 7,
    "benchmark": 8,
    "report": 9,
    "balance_job": 10, "exhibits": 10, "theory": 10, "lightning": 10,
    "demo": 11,
    "cli": 12, "__main__": 12,
}  # fmt: skip


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]


def list_imports(path: Path) -> set[str]:
    """Rooms that a file imports when it runs, also inside functions; not for types only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            node.body = [ast.Pass()]
    found = set()
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "equipoise" and len(parts) > 1:
                found.add(parts[1])
    return found


def test_every_room_has_a_place_in_the_order() -> None:
    rooms = {room_of(path) for path in ROOT.rglob("*.py")} - {"__init__"}
    assert rooms <= set(ORDER)


def test_no_room_imports_a_later_one() -> None:
    backward = []
    for path in ROOT.rglob("*.py"):
        own = room_of(path)
        if own == "__init__":  # the door of the package opens rooms on demand
            continue
        backward += [
            f"{path.relative_to(ROOT)} imports {other}"
            for other in sorted(list_imports(path))
            if ORDER[other] > ORDER[own]
        ]
    assert backward == []


def list_modules(path: Path, *, inside: bool) -> list[str]:
    """Modules of ours that a file imports at its top, or (`inside`) in its functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    hidden = {id(node) for function in functions for node in ast.walk(function)}
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            hidden |= {id(each) for each in node.body} if not inside else set()
    return [
        node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (id(node) in hidden) == inside
        if node.module and node.module.startswith("equipoise.")
    ]


def find_module(name: str) -> Path:
    place = ROOT.parent.joinpath(*name.split("."))
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def list_deep_imports(path: Path) -> list[str]:
    modules = list_modules(path, inside=False) + list_modules(path, inside=True)
    # "equipoise", the room, a file of it: nobody but the room itself goes past its door.
    return [name for name in modules if name.count(".") > 1 and name.split(".")[1] != room_of(path)]


def reach(start: Path) -> set[Path]:
    """All files that run when this one is imported."""
    found, waiting = set(), [start]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += [find_module(name) for name in list_modules(path, inside=False)]
    return found


def test_rooms_are_entered_by_their_doors() -> None:
    # Still to come: `diagnosis` reads files of `balance`.
    paths = [path for path in ROOT.rglob("*.py") if room_of(path) != "diagnosis"]
    assert {str(path): found for path in paths if (found := list_deep_imports(path))} == {}


def test_no_import_in_a_function_dodges_a_cycle() -> None:
    """At the top of its file it could stand as well: it is there for speed or an extra."""
    for path in ROOT.rglob("*.py"):
        for name in list_modules(path, inside=True):
            assert path not in reach(find_module(name)), f"{path} imports {name} in a function"


def test_a_deep_import_and_a_dodged_cycle_are_seen(tmp_path, monkeypatch) -> None:
    for room in ("data", "latent"):
        (tmp_path / "equipoise" / room).mkdir(parents=True)
        (tmp_path / "equipoise" / room / "__init__.py").write_text("")
    monkeypatch.setattr("tests.test_import_graph.ROOT", tmp_path / "equipoise")
    early = tmp_path / "equipoise" / "data" / "early.py"
    early.write_text("def f():\n    from equipoise.latent.late import g\n")
    late = tmp_path / "equipoise" / "latent" / "late.py"
    late.write_text("from equipoise.data.early import f\n")
    assert list_deep_imports(early) == ["equipoise.latent.late"]
    assert early in reach(find_module("equipoise.latent.late"))


def test_latent_and_balance_do_not_need_each_other() -> None:
    for room, other in (("latent", "balance"), ("balance", "latent")):
        for path in (ROOT / room).rglob("*.py"):
            assert other not in list_imports(path), path
