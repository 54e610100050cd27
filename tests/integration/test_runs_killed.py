"""Kill -9 at random moments changes nothing; `benchmarks/killed_run.py` does it twenty times."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "killed_run.py"


@pytest.mark.slow
def test_a_run_killed_again_and_again_ends_bit_identical():
    ended = subprocess.run(
        [sys.executable, str(SCRIPT), "--kills", "4"], capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "4 kills" in ended.stdout
    assert "bit-identical" in ended.stdout
