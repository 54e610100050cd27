import json

import numpy as np
import pandas as pd
import pytest
import torch

from equipoise.algorithms import make_featurizer
from equipoise.benchmark import execute_run, load_run
from equipoise.benchmark.trained import export_run, predict_table, read_examples, write_predictions
from equipoise.data import open_dataset

from .tiny import make_data, make_settings


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "run"
    execute_run(make_settings(weight_average=0.9), make_data(), path)
    return path


@pytest.fixture
def x():
    return np.asarray(make_data().fetch(np.arange(5)))


def test_a_model_comes_back_at_the_checkpoint_that_was_chosen(path):
    trained = load_run(path)
    assert trained.selection == "train-domain"
    assert load_run(path, selection="test-domain").step == 12
    with pytest.raises(ValueError, match="Did you mean 'train-domain'"):
        load_run(path, selection="traindomain")


def test_probabilities_add_up_and_the_label_is_the_most_probable(path, x):
    trained = load_run(path)
    probabilities = trained.predict_proba(x)
    assert probabilities.shape == (5, 3)
    assert np.allclose(probabilities.sum(axis=1), 1)
    assert np.array_equal(trained.predict(x), probabilities.argmax(axis=1))


def test_arrays_tensors_and_frames_are_the_same_to_a_model(path, x):
    trained = load_run(path)
    expected = trained.predict_proba(x)
    for same in (torch.from_numpy(x), pd.DataFrame(x), x.tolist(), make_data().subset(range(5))):
        assert np.allclose(trained.predict_proba(same), expected)


def test_examples_of_another_shape_are_refused(path):
    with pytest.raises(ValueError, match=r"the shape \(4,\), the model was trained on \(6,\)"):
        load_run(path).predict(np.zeros((2, 4)))


def test_a_directory_without_a_run_is_refused(tmp_path):
    with pytest.raises(ValueError, match="holds no run"):
        load_run(tmp_path)


@pytest.mark.parametrize("kind", ["npy", "npz", "csv", "parquet", "folder"])
def test_examples_are_read_from_what_people_have(tmp_path, x, kind):
    target = tmp_path / f"x.{kind}"
    if kind == "npy":
        np.save(target, x)
    elif kind == "npz":
        np.savez(target, x=x, y=np.arange(5))
    elif kind == "folder":
        target.mkdir()
        for row in range(5):
            np.save(target / f"{row}.npy", x[row])
    else:
        frame = pd.DataFrame(x, columns=[f"f{i}" for i in range(6)])
        frame.to_csv(target, index=False) if kind == "csv" else frame.to_parquet(target)
    found = read_examples(target)
    assert np.allclose(found.x, x)
    assert len(found.names) == 5


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.txt", b"", "unknown kind of input '.txt'"),
        ("x.npy", b"nonsense", "cannot be read"),
        ("x.csv", b"a,b\n1,two\n", "cannot be read"),
        ("none.npy", None, "there is no input"),
        ("x.npz", b"PK\x03\x04nonsense", r"x\.npz cannot be read"),
        ("x.csv", b"1.5,2.5\n3.5,4.5\n", "first row must name the columns"),
        ("x.csv", b",0,1\n0,3.5,4.5\n", "first row must name the columns"),
        ("x.csv", b"", "cannot be read"),
        ("x.parquet", b"nonsense", r"x\.parquet cannot be read"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_examples(tmp_path / name)


def test_a_single_value_is_no_array_of_examples(tmp_path):
    np.save(tmp_path / "x.npy", np.float32(3))
    with pytest.raises(ValueError, match=r"x\.npy holds a single value"):
        read_examples(tmp_path / "x.npy")


def test_a_file_of_a_folder_that_cannot_be_read_is_named(tmp_path, x):
    np.save(tmp_path / "a.npy", x[0])
    (tmp_path / "b.npy").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"b\.npy cannot be read"):
        read_examples(tmp_path)


def test_columns_that_pandas_numbered_are_named(tmp_path, x):
    pd.DataFrame(x).to_csv(tmp_path / "x.csv", index=False)
    assert np.allclose(read_examples(tmp_path / "x.csv").x, x)


def test_a_model_comes_back_without_pretrained_weights(path, monkeypatch):
    asked = []
    make = make_featurizer

    def record(*arguments, pretrained=True, **options):
        asked.append(pretrained)
        return make(*arguments, pretrained=pretrained, **options)

    for module in ("algorithms.base", "benchmark.trained"):
        monkeypatch.setattr(f"equipoise.{module}.make_featurizer", record)
    load_run(path)
    assert asked == [False]


def test_an_npz_of_several_arrays_asks_which(tmp_path, x):
    np.savez(tmp_path / "x.npz", a=x, b=x + 1)
    with pytest.raises(ValueError, match="arrays a, b; say which with key"):
        read_examples(tmp_path / "x.npz")
    assert np.array_equal(read_examples(tmp_path / "x.npz", "b").x, x + 1)


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".npz"])
def test_predictions_are_written_as_they_are(path, tmp_path, x, ending):
    np.save(tmp_path / "x.npy", x)
    trained = load_run(path)
    table = predict_table(trained, read_examples(tmp_path / "x.npy"))
    target = tmp_path / f"labels{ending}"
    write_predictions(table, target)
    if ending == ".npz":
        written = np.load(target)
        labels, probabilities = written["label"], written["probabilities"]
    else:
        frame = pd.read_csv(target) if ending == ".csv" else pd.read_parquet(target)
        labels = frame["label"].astype(str)
        probabilities = frame[["p(0)", "p(1)", "p(2)"]].to_numpy()
    assert np.allclose(probabilities, trained.predict_proba(x))
    assert list(labels) == [trained.label_names[code] for code in trained.predict(x)]


def test_an_unknown_kind_of_output_is_refused(path, tmp_path, x):
    with pytest.raises(ValueError, match=r"Known: \.csv, \.parquet, \.npz"):
        write_predictions(pd.DataFrame(), tmp_path / "labels.xls")


@pytest.fixture(scope="module")
def by_name(tmp_path_factory):
    """A run on a table with a column of names."""
    folder = tmp_path_factory.mktemp("named")
    data = make_data()
    frame = pd.DataFrame(data.fetch(np.arange(600)).numpy(), columns=list("abcdef"))
    frame["scanner"] = np.array(["new", "old", "rented"])[np.arange(600) % 3]
    frame["label"], frame["environment"] = data.labels, data.environments
    frame.to_csv(folder / "t.csv", index=False)
    execute_run(make_settings(test_environment="2"), open_dataset(folder / "t.csv"), folder / "run")
    return load_run(folder / "run"), frame.drop(columns=["label", "environment"]).head(20)


def predict_file(trained, frame, path):
    frame.to_csv(path, index=False)
    found = read_examples(path, features=trained.feature_names)
    return predict_table(trained, found)["probability"].to_numpy()


def test_columns_of_a_file_are_matched_by_name(by_name, tmp_path):
    trained, frame = by_name
    expected = predict_file(trained, frame, tmp_path / "a.csv")
    swapped = predict_file(trained, frame[frame.columns[::-1]], tmp_path / "b.csv")
    np.testing.assert_array_equal(swapped, expected)
    expanded = read_examples(tmp_path / "b.csv", features=trained.feature_names).x
    turned = expanded[expanded.columns[::-1]]
    np.testing.assert_allclose(trained.predict_proba(turned).max(axis=1), expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop(columns="c"), "has no column 'c'"),
        (lambda f: f.assign(z=1), "has 'z', which the model does not know"),
        (lambda f: f.rename(columns={"c": "C"}), "has no column 'c' and has 'C'"),
    ],
)
def test_unknown_and_missing_columns_are_refused(by_name, tmp_path, change, message):
    trained, frame = by_name
    with pytest.raises(ValueError, match=message):
        predict_file(trained, change(frame), tmp_path / "a.csv")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "run"
    execute_run(make_settings(), make_data(), path)
    return load_run(path)


def test_onnx_runtime_gives_the_same_probabilities_and_the_labels(exported, x, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    session = onnxruntime.InferenceSession(export_run(exported, tmp_path / "model.onnx"))
    (found,) = session.run(None, {"x": x})
    np.testing.assert_allclose(found, exported.predict_proba(x), atol=1e-5)
    labels = json.loads(session.get_modelmeta().custom_metadata_map["labels"])
    assert labels == list(exported.label_names)


def test_torch_gives_the_same_probabilities_and_the_labels(exported, x, tmp_path):
    path = export_run(exported, tmp_path / "model.pt2", format="torch")
    files = {"labels.json": ""}
    network = torch.export.load(path, extra_files=files).module()
    found = network(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(found, exported.predict_proba(x), atol=1e-5)
    assert json.loads(files["labels.json"]) == list(exported.label_names)


@pytest.mark.parametrize(
    ("name", "format", "message"),
    [
        ("m.pt", "onnx", "ends in .onnx, got"),
        ("m.onnx", "torch", "ends in .pt2, got"),
        ("m.onnx", "onx", "Did you mean 'onnx'"),
    ],
)
def test_another_format_or_ending_is_refused(exported, tmp_path, name, format, message):
    with pytest.raises(ValueError, match=message):
        export_run(exported, tmp_path / name, format=format)
    assert not list(tmp_path.iterdir())
