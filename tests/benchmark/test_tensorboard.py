import builtins

import pytest

from equipoise.benchmark import execute_run

from .tiny import make_data, make_settings


def test_without_tensorboard_the_error_names_the_extra(tmp_path, monkeypatch):
    real = builtins.__import__

    def refuse(name, *arguments, **options):
        if name.startswith("torch.utils.tensorboard"):
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=r"equipoise\[tensorboard\]"):
        execute_run(make_settings(), make_data(), tmp_path / "run", tensorboard=True)


def test_curves_hold_the_records(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = execute_run(make_settings(), make_data(), tmp_path / "run", tensorboard=True)
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    curve = events.Scalars("selection/train-domain")
    assert [point.step for point in curve] == [4, 8, 12]
    expected = [record.validation_accuracy for record in result.records]
    assert [point.value for point in curve] == pytest.approx(expected)
