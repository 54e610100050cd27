"""A sweep of twelve short runs: whole, killed, on Ray, with runs that fail."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from equipoise.benchmark.directory import RunDirectory
from equipoise.benchmark.plan import plan_sweep
from equipoise.benchmark.selection import RULES, select_runs
from equipoise.benchmark.sweep import run_sweep
from equipoise.benchmark.sweep_file import read_sweep
from equipoise.benchmark.workers import InlineWorker, LocalWorkers
from equipoise.cli import app
from tests.benchmark.tiny import write_data, write_sweep


@pytest.fixture(scope="module")
def twelve(tmp_path_factory):
    """The file of the sweep."""
    folder = tmp_path_factory.mktemp("sweep")
    return write_sweep(folder / "twelve.yaml", write_data(folder / "tiny.npz"))


@pytest.fixture(scope="module")
def undisturbed(twelve, tmp_path_factory):
    """All of it, in this process."""
    runs = plan_sweep(read_sweep(twelve))
    return run_sweep(runs, tmp_path_factory.mktemp("whole"), workers=InlineWorker())


def tabulate(runs):
    result = CliRunner().invoke(app, ["table", str(runs), "--format", "csv"])
    assert result.exit_code == 0, result.output
    return result.output


def count_finished(folder):
    return len(list(folder.glob("*/result.json")))


def kill_after(command, folder, n_finished):
    """Kill the command, not its workers, as soon as so many runs are finished."""
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 900
    while count_finished(folder) < n_finished and process.poll() is None:
        assert time.monotonic() < deadline, "the sweep does not get on"
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.slow
def test_a_sweep_killed_twice_ends_with_the_same_table(twelve, undisturbed, tmp_path):
    arguments = ["sweep", str(twelve), "--output", str(tmp_path)]
    command = [sys.executable, "-m", "equipoise", *arguments, "--workers", "2"]
    kill_after(command, tmp_path, 2)
    assert 2 <= count_finished(tmp_path) < 12
    kill_after(command, tmp_path, 6)
    assert 6 <= count_finished(tmp_path) < 12
    ended = CliRunner().invoke(app, [*arguments, "--workers", "0"])
    assert ended.exit_code == 0, ended.output
    assert "12 of 12 runs are finished" in " ".join(ended.output.split())
    for name, result in undisturbed.results.items():
        assert RunDirectory(tmp_path / name).load_result() == result
    assert tabulate(tmp_path) == tabulate(undisturbed.directory)
    # The sweep's own file names the same runs, in the order of the sweep.
    by_sweep, by_folder = tabulate(tmp_path / "sweep-twelve.json"), tabulate(tmp_path)
    assert sorted(by_sweep.splitlines()) == sorted(by_folder.splitlines())


@pytest.mark.slow
def test_a_local_ray_instance_gives_the_same_numbers(twelve, undisturbed, tmp_path):
    ray = pytest.importorskip("ray")
    from equipoise.benchmark.workers import RayWorkers

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        runs = plan_sweep(read_sweep(twelve))
        swept = run_sweep(runs, tmp_path, workers=RayWorkers(cpus_per_run=1))
        with pytest.raises(ValueError, match="asks for 64 CPUs, but Ray has 2 in all"):
            run_sweep(runs, tmp_path / "other", workers=RayWorkers(cpus_per_run=64))
    finally:
        ray.shutdown()
    assert swept.errors == {}
    assert swept.results == undisturbed.results
    assert tabulate(tmp_path) == tabulate(undisturbed.directory)


def test_two_sweeps_share_what_is_finished(twelve, undisturbed, tmp_path):
    """Another sweep with some of the same runs trains only what is new."""
    shared = shutil.copytree(undisturbed.directory, tmp_path / "runs")
    spec = replace(read_sweep(twelve), algorithms=("CORAL", "GroupDRO"), seeds=(0,))
    trained = []

    class Counting(InlineWorker):
        def run(self, tasks, report):
            trained.extend(task.settings.algorithm for task in tasks)
            return super().run(tasks, report)

    swept = run_sweep(plan_sweep(spec), shared, workers=Counting())
    assert trained == ["GroupDRO", "GroupDRO"]
    assert len(swept.results) == 4
    # What was there is not part of the other sweep's table, but of the directory's.
    assert len(select_runs(swept.finished(), ["train-domain"])) == 4


def test_a_worker_that_dies_costs_its_run_only(tmp_path):
    (tmp_path / "deadly.py").write_text(
        "import os, signal\n"
        "from equipoise.algorithms import ERM\n\n\n"
        "class Deadly(ERM):\n"
        '    """Ends its process."""\n\n'
        "    def objective(self, batches):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    file = write_sweep(
        tmp_path / "s.yaml",
        write_data(tmp_path / "tiny.npz"),
        algorithms=["Deadly", "ERM"],
        samplings=["random"],
        seeds=1,
        imports=["deadly.py"],
    )
    arguments = ["sweep", str(file), "--output", str(tmp_path / "runs"), "--workers", "1"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert "1 of 2 runs are finished" in result.output
    assert "1 failed" in result.output
    assert " left" in result.output  # the time, after every run
    (error,) = (tmp_path / "runs").glob("*/error.json")
    assert "Deadly" in error.parent.name
    assert "SIGKILL" in json.loads(error.read_text())["error"]


def test_a_failed_run_keeps_its_error_and_a_later_success_removes_it(tmp_path, monkeypatch):
    spec = read_sweep(
        write_sweep(
            tmp_path / "s.yaml",
            write_data(tmp_path / "tiny.npz"),
            samplings=["random"],
            seeds=1,
        )
    )
    from equipoise.algorithms.feature_matching import CORAL

    with monkeypatch.context() as broken:
        broken.setattr(CORAL, "objective", lambda self, batches: 1 / 0)
        swept = run_sweep(plan_sweep(spec), tmp_path / "runs", workers=InlineWorker())
    assert len(swept.results) == 1
    (error,) = (tmp_path / "runs").glob("*/error.json")
    written = json.loads(error.read_text())
    assert written["error"] == "ZeroDivisionError: division by zero"
    assert "objective" in written["traceback"]
    again = run_sweep(plan_sweep(spec), tmp_path / "runs", workers=InlineWorker())
    assert (len(again.results), again.errors) == (2, {})
    assert not error.exists()


def test_a_sweep_with_pairs_gives_every_rule_its_number(tmp_path):
    spec = read_sweep(
        write_sweep(
            tmp_path / "s.yaml",
            write_data(tmp_path / "tiny.npz"),
            algorithms=["ERM"],
            samplings=["random"],
            test_environments="all",
            seeds=1,
            leave_one_domain_out=True,
        )
    )
    swept = run_sweep(plan_sweep(spec), tmp_path / "runs", workers=InlineWorker())
    # A single training environment cannot be balanced: the pairs have no balanced accuracy.
    assert swept.errors == {}
    chosen = select_runs(swept.finished(), list(RULES))
    by_rule = {rule: [c for c in chosen if c.selection == rule] for rule in RULES}
    assert {rule: len(found) for rule, found in by_rule.items()} == dict.fromkeys(RULES, 3)


def test_a_dry_run_lists_the_runs_and_trains_none(twelve, tmp_path):
    arguments = ["sweep", str(twelve), "--output", str(tmp_path / "runs"), "--dry-run"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert len(result.output.strip().splitlines()) == 12
    assert not (tmp_path / "runs").exists()


def test_a_typo_ends_with_the_line_and_exit_code_2(twelve, tmp_path):
    file = tmp_path / "typo.yaml"
    file.write_text(twelve.read_text().replace("samplings:", "sampling:"))
    result = CliRunner().invoke(app, ["sweep", str(file)])
    assert result.exit_code == 2
    assert "line 6" in result.output
    assert "Did you mean 'samplings'?" in " ".join(result.output.split())


def test_the_table_says_the_spread_and_writes_files(undisturbed, tmp_path):
    output = tmp_path / "table.md"
    arguments = ["table", str(undisturbed.directory), "--where", "algorithm=ERM"]
    result = CliRunner().invoke(
        app, [*arguments, "--selection", "balanced", "--spread", "error", "--output", str(output)]
    )
    assert result.exit_code == 0, result.output
    text = output.read_text()
    assert "standard error of the mean over seeds, 3 of them" in text
    assert "train-domain" not in text
    assert text.count("| balanced |") >= 1


def test_workers_are_as_many_as_asked_for_and_share_the_cores(monkeypatch):
    with pytest.raises(ValueError, match="workers must be at least 1"):
        LocalWorkers(0)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    assert [LocalWorkers(n).threads for n in (1, 3, 8, 20)] == [8, 2, 1, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert LocalWorkers(1).threads == 1


def test_ray_options_without_ray_are_refused(twelve):
    result = CliRunner().invoke(app, ["sweep", str(twelve), "--ray-address", "auto"])
    assert result.exit_code == 2
    assert "--ray" in result.output
