"""CPU time of `from equipoise import CausalBalancer` against `import torch`, in new processes.

python -m benchmarks import-time
"""

from __future__ import annotations

import resource
import subprocess
import sys

IMPORTS = {
    "torch": "import torch",
    "torch and sklearn.base": "import torch, sklearn.base",
    "equipoise": "import equipoise",
    "CausalBalancer": "from equipoise import CausalBalancer",
}


def run(quick: bool) -> None:
    """Print the least CPU time of each import over several rounds, and its ratio to torch's."""
    seconds: dict[str, list[float]] = {name: [] for name in IMPORTS}
    for _ in range(2 if quick else 7):
        for name, code in IMPORTS.items():
            seconds[name].append(_measure(code))
    for name, times in seconds.items():
        ratio = min(times) / min(seconds["torch"])
        print(f"{name:24s} {min(times):6.3f} s   {ratio:5.2f} × torch")


def _measure(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
