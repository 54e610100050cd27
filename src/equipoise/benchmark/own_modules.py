"""Modules of a user's own, imported for the datasets and algorithms that they register."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path


def import_own(modules: tuple[str, ...]) -> None:
    """Import modules by name, or `.py` files by path, for what they register."""
    for module in modules:
        if not module.endswith(".py"):
            importlib.import_module(module)
            continue
        path = Path(module).absolute()
        name = f"equipoise_own_{path.stem}"
        if name in sys.modules:
            continue
        if not path.is_file():
            raise ValueError(f"imports names {module}, but there is no such file")
        described = importlib.util.spec_from_file_location(name, path)
        assert described is not None
        assert described.loader is not None  # as for every .py file
        loaded = importlib.util.module_from_spec(described)
        sys.modules[name] = loaded
        described.loader.exec_module(loaded)
