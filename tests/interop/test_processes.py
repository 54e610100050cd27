"""Two processes on gloo, with the real Accelerate and Lightning: right, or refused."""

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from interop.accelerate_script import make_sampler
from interop.lightning_script import make_module, train

HERE = Path(__file__).parent


def start(script, *arguments, **variables):
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(HERE.parents[1] / "src"), *sys.path]),
        **variables,
    }
    command = [sys.executable, str(HERE / script), *arguments]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def collect(folder, *processes):
    for process in processes:
        said, _ = process.communicate(timeout=240)
        assert process.returncode == 0, said
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


def start_group(script, *arguments):
    """Two processes as torchrun would start them."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    shared |= {"LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "test"}
    return [
        start(script, *arguments, RANK=str(rank), LOCAL_RANK=str(rank), **shared)
        for rank in range(2)
    ]


@pytest.fixture(scope="module")
def accelerated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("accelerate")
    return collect(folder, *start_group("accelerate_script.py", str(folder)))


def test_accelerate_deals_whole_batches_out_to_the_processes(accelerated):
    single = make_sampler()
    for epoch in range(2):
        expected = list(single)
        dealt = [accelerated[i % 2]["plain"][epoch][i // 2] for i in range(len(expected))]
        assert dealt == expected
        lengths = {len(rank["plain"][epoch]) for rank in accelerated}
        assert lengths == {-(-len(expected) // 2)}


REFUSED = {
    "own ranks": "shared out twice",
    "split": "split_batches",
    "dispatch": "dispatch_batches=True would cut balanced batches apart",
    "same batches": "all would train on the same batches",
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_repeat_or_cut_batches_is_refused_on_both_processes(accelerated, case):
    for rank in accelerated:
        assert isinstance(rank[case], str)
        assert REFUSED[case] in rank[case]


@pytest.fixture(scope="module")
def data():
    return make_module()


def test_a_lightning_trainer_keeps_the_model_with_the_best_balanced_accuracy(tmp_path, data):
    model, keep, trainer = train(data, str(tmp_path), 1)
    balanced = float(trainer.callback_metrics["balanced_accuracy"])
    assert float(keep.best_model_score) >= balanced
    x, y = data.held_out_set[range(len(data.held_out_set))]
    correct = (model(x).argmax(1) == y).double().numpy()
    weights = data.validation_weights
    assert balanced == pytest.approx(weights @ correct / weights.sum())
    plain = float(trainer.callback_metrics["plain_balanced_accuracy"])
    assert plain == pytest.approx(correct.mean())


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lightning")
    return collect(folder, *start_group("lightning_script.py", str(folder)))


@pytest.mark.slow
def test_two_lightning_processes_share_the_batches_of_one(tmp_path, data, trained):
    single, *_ = train(data, str(tmp_path), 1)
    for batch, *parts in zip(single.seen, trained[0]["seen"], trained[1]["seen"], strict=True):
        assert Counter(batch) == Counter(parts[0]) + Counter(parts[1])
        assert len(parts[0]) == len(parts[1])
    metrics = [rank["metrics"] for rank in trained]
    assert metrics[0]["balanced_accuracy"] == pytest.approx(metrics[1]["balanced_accuracy"])


@pytest.mark.slow
def test_lightning_that_would_rebuild_the_sampler_says_what_to_set(trained):
    assert all("use_distributed_sampler=False" in rank["error"] for rank in trained)
