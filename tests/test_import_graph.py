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


def test_latent_and_balance_do_not_need_each_other() -> None:
    for room, other in (("latent", "balance"), ("balance", "latent")):
        for path in (ROOT / room).rglob("*.py"):
            assert other not in list_imports(path), path
