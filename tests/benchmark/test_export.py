"""An exported network predicts what the run predicts, wherever it is opened."""

import json

import numpy as np
import pytest
import torch

from equipoise.benchmark import execute_run, load_run
from equipoise.benchmark.export import export_run

from .tiny import make_data, make_settings


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "run"
    execute_run(make_settings(), make_data(), path)
    return load_run(path)


@pytest.fixture
def x():
    return make_data().fetch(np.arange(7)).numpy()


def test_onnx_runtime_gives_the_same_probabilities_and_the_labels(run, x, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    session = onnxruntime.InferenceSession(export_run(run, tmp_path / "model.onnx"))
    (found,) = session.run(None, {"x": x})
    np.testing.assert_allclose(found, run.predict_proba(x), atol=1e-5)
    labels = json.loads(session.get_modelmeta().custom_metadata_map["labels"])
    assert labels == list(run.label_names)


def test_torch_gives_the_same_probabilities_and_the_labels(run, x, tmp_path):
    path = export_run(run, tmp_path / "model.pt2", format="torch")
    files = {"labels.json": ""}
    network = torch.export.load(path, extra_files=files).module()
    found = network(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(found, run.predict_proba(x), atol=1e-5)
    assert json.loads(files["labels.json"]) == list(run.label_names)


@pytest.mark.parametrize(
    ("name", "format", "message"),
    [
        ("m.pt", "onnx", "ends in .onnx, got"),
        ("m.onnx", "torch", "ends in .pt2, got"),
        ("m.onnx", "onx", "Did you mean 'onnx'"),
    ],
)
def test_another_format_or_ending_is_refused(run, tmp_path, name, format, message):
    with pytest.raises(ValueError, match=message):
        export_run(run, tmp_path / name, format=format)
    assert not list(tmp_path.iterdir())
