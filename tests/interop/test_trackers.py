"""A run followed by the real TensorBoard, MLflow and Weights & Biases, and by one's own tracker."""

import sys

import pytest

from benchmark.tiny import make_data, make_settings
from equipoise.benchmark import execute_run


def train(folder, *trackers):
    return execute_run(make_settings(), make_data(), folder / "run", trackers=trackers)


class Diary:
    def __init__(self, fail_at=None):
        self.told, self.fail_at = [], fail_at

    def start(self, settings, directory, first_step):
        self.told.append(("start", settings["algorithm"], directory.name, first_step))

    def metrics(self, values, step):
        if step == self.fail_at:
            raise RuntimeError("the disk is full")
        self.told.append((step, values["selection/train-domain"]))

    def end(self):
        self.told.append("end")


def test_a_tracker_of_ones_own_is_told_start_metrics_and_end(tmp_path):
    diary = Diary()
    result = train(tmp_path, diary)
    expected = [(record.step, record.validation_accuracy) for record in result.records]
    assert diary.told == [("start", make_settings().algorithm, "run", 0), *expected, "end"]


def test_an_error_still_ends_the_tracker(tmp_path):
    diary = Diary(fail_at=8)
    with pytest.raises(RuntimeError, match="disk is full"):
        train(tmp_path, diary)
    assert diary.told[-1] == "end"


def test_tensorboard_shows_the_records(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = train(tmp_path, "tensorboard")
    curve = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    points = curve.Scalars("selection/train-domain")
    assert [point.step for point in points] == [record.step for record in result.records]
    expected = [record.validation_accuracy for record in result.records]
    assert [point.value for point in points] == pytest.approx(expected)


@pytest.mark.slow
def test_mlflow_shows_the_records(tmp_path, monkeypatch):
    import mlflow

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())
    result = train(tmp_path, "mlflow")
    client = mlflow.MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("equipoise").experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params["algorithm"] == result.settings.algorithm
    last = run.data.metrics["selection/train-domain"]
    assert last == pytest.approx(result.records[-1].validation_accuracy)


@pytest.mark.slow
def test_weights_and_biases_writes_the_run_offline(tmp_path):
    train(tmp_path, "wandb")
    (folder,) = (tmp_path / "run" / "wandb").glob("offline-run-*")
    assert any(folder.glob("run-*.wandb"))


def test_a_missing_package_names_its_extra_and_an_unknown_tracker_the_known(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ImportError, match=r"equipoise\[tensorboard\]"):
        train(tmp_path, "tensorboard")
    with pytest.raises(ValueError, match="Did you mean 'wandb'"):
        train(tmp_path, "wandbs")
