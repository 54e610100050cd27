"""`torchrun --nproc-per-node 2` against one process."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from equipoise.algorithms import Ranks

HERE = Path(__file__).parent


def torchrun(task, folder):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", str(HERE / "ranks_script.py"), task, str(folder)]
    path = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(HERE.parent)])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    for _ in range(3):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        # gloo's threads may abort a process that has finished its work on a busy machine.
        if "terminate called without an active exception" not in done.stderr:
            break
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    stopped = torchrun("stop", folder)
    assert stopped.returncode != 0
    assert not (folder / "cut" / "result.json").exists()
    ended = torchrun("weights", folder)
    assert ended.returncode == 0, ended.stderr
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["ERM", "CORAL"])
def test_two_ranks_equal_one_process_and_end_in_step(algorithm, folder):
    train_with = runpy.run_path(str(HERE / "ranks_script.py"))["train_with"]
    ranks = [load_file(folder / f"{algorithm}-{rank}.safetensors") for rank in (0, 1)]
    alone = train_with(algorithm, Ranks()).weights()
    for name, value in alone.items():
        assert torch.equal(ranks[0][name], ranks[1][name]), name
        assert torch.allclose(ranks[0][name], value, rtol=1e-4, atol=1e-5), name


@pytest.mark.slow
def test_a_run_of_two_ranks_goes_on_with_the_same_bits(folder):
    for name in ("records.jsonl", "result.json", "best/balanced.safetensors"):
        whole, cut = (folder / run / name for run in ("whole", "cut"))
        assert whole.read_bytes() == cut.read_bytes(), name
    steps = [json.loads(line)["step"] for line in (folder / "cut" / "records.jsonl").open()]
    assert steps == [4, 8, 12]
