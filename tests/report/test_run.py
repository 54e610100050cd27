"""A run as the page tells it."""

import re
import shlex
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from benchmark.tiny import make_settings as make_tiny_settings
from equipoise.benchmark import RunSettings, make_settings, split_for_run, train
from equipoise.benchmark.directory import RunDescription, RunDirectory
from equipoise.cli import app
from equipoise.report import open_target, write_report
from equipoise.report.run import tell_run, write_command
from report.subjects import train_tiny


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "tiny"
    return path, train_tiny(path)


def repeat(command: str, input_shape: tuple[int, ...]) -> RunSettings:
    """What `equipoise train` makes of a command, read by the command itself."""
    words = shlex.split(command)
    assert words[0] == "equipoise"
    with patch("equipoise.benchmark.train_run") as called:
        done = CliRunner().invoke(app, [*words[1:], "--quiet"])
    assert done.exit_code == 0, done.output
    given = dict(called.call_args.kwargs)
    for name in ("reading", "device", "data_dir", "num_workers", "trackers", "verbose"):
        del given[name]
    if given["featurizer"] is None:
        del given["featurizer"]
    return make_settings(given.pop("profile"), input_shape=input_shape, **given)


@settings(deadline=None, max_examples=60)
@given(
    profile=st.sampled_from(["quick", "domainbed"]),
    algorithm=st.sampled_from(["ERM", "IRM", "MMD"]),
    sampling=st.sampled_from(["random", "balanced"]),
    test=st.sampled_from(["0.9", "a b's", None]),
    changes=st.fixed_dictionaries(
        {},
        optional={
            "steps": st.integers(1, 9000),
            "warm_up": st.integers(0, 9),
            "weight_average": st.none() | st.floats(0, 0.999),
            "featurizer": st.sampled_from(["mlp", "small-cnn"]),
            "hyperparameters": st.fixed_dictionaries(
                {}, optional={"lr": st.floats(1e-5, 1e-1), "batch_size": st.integers(8, 64)}
            ),
            "balancer": st.fixed_dictionaries(
                {}, optional={"metric": st.sampled_from(["kl", "l1"]), "max_steps": st.just(7)}
            ),
            "selections": st.just(("balanced", "train-domain")),
        },
    ),
    shape=st.sampled_from([(6,), (2, 28, 28), (3, 224, 224)]),
)
def test_the_command_repeats_the_settings(profile, algorithm, sampling, test, changes, shape):
    wanted = make_settings(
        profile,
        input_shape=shape,
        dataset="ColoredMNIST",
        algorithm=algorithm,
        sampling=sampling,
        test_environment=test,
        seed=3,
        **changes,
    )
    assert repeat(write_command(wanted, shape, "runs/x y"), shape) == wanted


def test_records_and_choices_are_those_of_the_directory(run):
    path, _ = run
    story = tell_run(path)
    result = RunDirectory(path).load_result()
    assert story.records == result.records
    assert story.selected == result.selected
    assert story.finished
    assert story.confusions == ()


def test_confusions_agree_with_the_recorded_accuracies(run):
    path, data = run
    target = open_target(path, data)
    story = target.run
    record = story.selected[story.selection]
    percent = [float(re.search(r": ([\d.]+)", heat.title)[1]) for heat in story.confusions]
    plain, balanced, out = np.array(percent) / 100
    assert out == pytest.approx(record.ood_accuracy, abs=5e-4)
    # The record takes the mean over environments, the table all examples together.
    assert plain == pytest.approx(record.validation_accuracy, abs=0.03)
    assert balanced == pytest.approx(record.balanced_validation_accuracy, abs=0.05)
    for heat in story.confusions:
        np.testing.assert_allclose(heat.cells.sum(axis=1), 1.0)


def test_the_page_of_a_run_has_its_curves_settings_seed_and_command(run, tmp_path):
    path, data = run
    target = open_target(path, data)
    page = write_report(tmp_path / "run.html", target.balancer, target.examples, run=target.run)
    text = page.read_text()
    names = re.findall(r'<section id="([\w-]+)">', text)
    assert names[:3] == ["curves", "confusions", "varying"]
    assert "equipoise train --dataset tiny" in text
    assert "<td>seed</td>" in text
    assert text.count('class="curve ') >= 3
    for record in target.run.records:
        assert f"at {record.step}" in text


def test_a_run_without_its_data_shows_its_records(run, tmp_path):
    path, _ = run
    target = open_target(path)
    assert target.balancer is None
    assert "--data" in target.missing[0]
    text = write_report(tmp_path / "x.html", run=target.run).read_text()
    assert 'id="curves"' in text
    assert 'id="gallery"' not in text


def test_other_data_are_refused(run):
    path, data = run
    with pytest.raises(ValueError, match=r"not the data that .* was trained on"):
        open_target(path, data.subset(np.arange(300)))


def test_a_lost_balancer_is_said(run, tmp_path):
    path, data = run
    target = open_target(path, data, cache=tmp_path)
    assert target.balancer is None
    assert "--cache" in target.missing[0]
    assert len(target.run.confusions) == 2


def test_an_unfinished_run_says_how_far_it_is(tmp_path, run):
    _, data = run
    settings = make_tiny_settings(steps=12)
    directory = RunDirectory(tmp_path)
    directory.claim(RunDescription.of(settings, split_for_run(settings, data)))
    with pytest.raises(ValueError, match="no records yet: let the run reach its first checkpoint"):
        tell_run(tmp_path)
    directory.restore_records(train(settings, data).records[:2])
    story = tell_run(tmp_path, split_for_run(settings, data))
    assert not story.finished
    assert story.confusions == ()
    text = write_report(tmp_path / "x.html", run=story).read_text()
    assert "It has come to step 8 of 12." in text
