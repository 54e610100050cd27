"""A full disk, a read-only place and a second process: a sentence, and nothing lost."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from equipoise.cli import app
from equipoise.data import Examples, open_dataset, save_dataset

FORKS = hasattr(os, "fork")
pytestmark = pytest.mark.skipif(not FORKS, reason="limits are set in a forked process")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    labels, sites = rng.integers(2, size=400), rng.integers(3, size=400)
    frame = pd.DataFrame(rng.normal(size=(400, 30)) + labels[:, None]).add_prefix("x")
    path = tmp_path_factory.mktemp("tables") / "t.csv"
    frame.assign(label=labels, environment=sites).to_csv(path, index=False)
    return path


@pytest.fixture
def commands(table, tmp_path):
    """Every command that writes, with what it takes to be quick."""
    save_dataset(open_dataset(table), tmp_path / "in")
    (tmp_path / "backbone.py").write_text(
        "import torch\ntorch.manual_seed(0)\nnet = torch.nn.Linear(30, 8)\n"
    )
    (tmp_path / "sweep.yaml").write_text(
        f"datasets: {tmp_path / 'in'}\nalgorithms: [ERM, CORAL]\nsamplings: [random, balanced]\n"
        "test_environments: [0]\nseeds: 1\n"
        "settings: {steps: 4, checkpoint_every: 2, balancer: {max_steps: 5, hidden: 8}}\n"
    )
    quick = ["--set", "hidden=8", "--steps", "5", "--no-report", "--quiet"]
    train = ["--dataset", tmp_path / "in", "--algorithm", "ERM", "--test-environment", "none"]
    return {
        "balance": ["balance", table, "--output", tmp_path / "out", *quick],
        "pack": ["data", "pack", table, "--output", tmp_path / "out", "--quiet"],
        "features": [
            *("data", "features", tmp_path / "in", "--output", tmp_path / "out", "--quiet"),
            *("--backbone", f"{tmp_path}/backbone.py:net"),
        ],
        "sweep": [
            *("sweep", tmp_path / "sweep.yaml", "--output", tmp_path / "out"),
            *("--workers", "2", "--quiet"),
        ],
        "train": [
            *("train", *train, "--output", tmp_path / "out", "--sampling", "random"),
            *("--steps", "2", "--checkpoint-every", "1", "--quiet"),
        ],
    }


def invoke(arguments):
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, " ".join(result.output.split())


def invoke_limited(arguments, limit):
    """The command in a forked process that may write no file larger than `limit` bytes."""
    import resource

    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code, said = 99, ""
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            code, said = invoke(arguments)
        except BaseException as error:
            said = repr(error)
        os.write(writer, said.encode()[:4000])
        os._exit(code)
    os.close(writer)
    said = b""
    while part := os.read(reader, 4096):
        said += part
    os.close(reader)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), said.decode()


def list_files(folder):
    """The content of every file but locks and times."""
    left_out = (".lock", "times.json")
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in left_out
    }


@pytest.mark.parametrize("name", ["balance", "pack", "features", "train"])
def test_on_a_full_disk_a_command_says_so_and_then_finishes(name, commands, tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
    sizes = [0, 300, 3000, 9000, 40_000]
    failed = 0
    for limit in sizes:
        code, said = invoke_limited(commands[name], limit)
        assert code in (0, 2), said
        if code == 2:
            failed += 1
            assert "could not be written" in said
            assert "Make room and give the same command again" in said
            assert not list((tmp_path / "out").rglob("*.part"))
    assert failed >= 3
    code, said = invoke(commands[name])
    assert code == 0, said
    finished = list_files(tmp_path / "out")
    undisturbed = [tmp_path / "other" if a == tmp_path / "out" else a for a in commands[name]]
    assert invoke(undisturbed)[0] == 0
    assert list_files(tmp_path / "other") == finished


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
@pytest.mark.parametrize("name", ["balance", "pack", "features", "train"])
def test_a_read_only_place_is_told(name, commands, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out").chmod(0o500)
    code, said = invoke(commands[name])
    assert code == 2
    assert "Choose another place" in said


@pytest.mark.parametrize("name", ["balance", "pack", "train"])
def test_a_place_below_a_file_is_told(name, commands, tmp_path):
    (tmp_path / "out").write_text("mine")
    below = [a / "deeper" if a == tmp_path / "out" else a for a in commands[name]]
    code, said = invoke(below)
    assert code == 2, said
    assert (tmp_path / "out").read_text() == "mine"


SAVE = """
import sys, numpy as np
from equipoise.data import Examples, save_dataset
rng = np.random.default_rng(0)
x = rng.normal(size=(200_000, 20))
data = Examples(x, np.arange(200_000) % 2, np.arange(200_000) % 3)
print("ready", flush=True)
sys.stdin.readline()
try:
    save_dataset(data, sys.argv[1])
except ValueError as error:
    print(error)
"""


def test_two_that_save_to_one_place_leave_one_whole_dataset(tmp_path):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SAVE, str(tmp_path / "out")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    for each in filter(None, said):
        assert "is writing to" in each
    saved = open_dataset(tmp_path / "out")
    assert saved.fetch(np.arange(len(saved))).shape == (200_000, 20)
    assert not list((tmp_path / "out").glob("*.part"))


def test_a_place_in_use_is_refused_with_its_owner(table, tmp_path):
    held = (
        "import sys, time\nfrom equipoise.files import own_directory\n"
        "with own_directory(sys.argv[1]):\n    print('held', flush=True)\n    time.sleep(60)\n"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", held, str(tmp_path / "out")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert owner.stdout.readline() == "held\n"
        for command in (["balance", table], ["data", "pack", table]):
            code, said = invoke([*command, "--output", tmp_path / "out", "--quiet"])
            assert code == 2
            assert f"process {owner.pid} is writing to" in said
    finally:
        owner.kill()
        owner.wait()
    code, said = invoke(["data", "pack", table, "--output", tmp_path / "out", "--quiet"])
    assert code == 0, said


N_KILLS = int(os.environ.get("EQUIPOISE_KILLS", "4"))


@pytest.mark.parametrize("name", ["balance", "pack", "features", "sweep"])
def test_killed_anywhere_the_same_command_ends_with_the_same_bytes(
    name, commands, tmp_path, monkeypatch
):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
    undisturbed = [tmp_path / "other" if a == tmp_path / "out" else a for a in commands[name]]
    started = time.monotonic()
    code, said = invoke(undisturbed)
    assert code == 0, said
    needed = time.monotonic() - started
    rng = np.random.default_rng(0)
    killed = finished = 0
    while killed < N_KILLS:
        monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / f"cache{killed}"))
        child = os.fork()
        if child == 0:
            code = 99
            try:
                os.setsid()
                code, _ = invoke(commands[name])
            finally:
                os._exit(code)
        time.sleep(rng.uniform(0, needed))
        # Every other time with its workers; else they must notice that their parent is gone.
        if kill(child, with_group=killed % 2 == 0) == 0:  # it was done: begin once more
            finished += 1
            assert list_files(tmp_path / "out") == list_files(tmp_path / "other")
            shutil.rmtree(tmp_path / "out")
        else:
            killed += 1
    code, said = invoke(commands[name])
    assert code == 0, said
    assert list_files(tmp_path / "out") == list_files(tmp_path / "other")
    print(f"{name}: {killed} kills, {finished + 1} times to the end, the same bytes each time")


def kill(child, *, with_group):
    """End a child, or find it ended; gives how it ended."""
    try:
        (os.killpg if with_group else os.kill)(child, signal.SIGKILL)
    except ProcessLookupError:  # it had no time to become a group of its own
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return status


def test_names_are_data_and_not_markup(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    names = np.array(["[/red]", "x[bold]"])
    labels, sites = rng.integers(2, size=200), rng.integers(2, size=200)
    x = rng.normal(size=(200, 2)) + labels[:, None]
    frame = pd.DataFrame(x, columns=["a[/red]", "[link]b"])
    frame = frame.assign(label=names[labels], environment=names[sites])
    frame.to_csv(tmp_path / "t.csv", index=False)
    out = tmp_path / "o[/red]"
    code, said = invoke(
        ["balance", tmp_path / "t.csv", "--output", out, "--steps", 5, "--set", "hidden=8"]
    )
    assert code == 0, said
    assert invoke(["data", "pack", tmp_path / "t.csv", "--output", tmp_path / "p[/red]"])[0] == 0
    train = ["train", "--dataset", tmp_path / "p[/red]", "--algorithm", "ERM", "--steps", 2]
    train += ["--test-environment", "[/red]", "--sampling", "random", "--checkpoint-every", 1]
    code, said = invoke([*train, "--output", tmp_path / "r[/red]"])
    assert code == 0, said
    assert invoke(["table", tmp_path / "r[/red]"])[0] == 0
    assert isinstance(Examples(x, names[labels], names[sites]).label_names[0], str)
    assert Path(out).is_dir()
