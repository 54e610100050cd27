"""A PACS-shaped tree from its files to a result, as a user types it; and what may be wrong."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from equipoise import CausalBalancer
from equipoise.benchmark import RunSettings, split_for_run
from equipoise.cli import app
from equipoise.data import open_dataset
from equipoise.diagnosis import cross_table, mutual_information, same_covariate_rate
from tests.data.image_tree import write_broken_images, write_image_tree

# A backbone as a user would write one: fixed random filters, nothing to download.
BACKBONE = """
import torch
from torch import nn

def make_backbone():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 4, stride=4), nn.ReLU(), nn.Flatten())
"""


@pytest.fixture(autouse=True)
def _own_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("EQUIPOISE_DATA", raising=False)
    monkeypatch.chdir(tmp_path)


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def train(dataset, output, *words, steps=20):
    options = ["--algorithm", "ERM", "--test-environment", "sketch", "--quick", "--steps", steps]
    options += ["--checkpoint-every", "10", "--set", "balancer.max_steps=40"]
    return invoke("train", "--dataset", dataset, "--output", output, *options, *words)


@pytest.fixture
def backbone(tmp_path):
    (tmp_path / "backbone.py").write_text(BACKBONE)
    return f"{tmp_path / 'backbone.py'}:make_backbone"


def test_a_pacs_shaped_tree_goes_from_files_to_a_result(tmp_path, backbone):
    backgrounds = write_image_tree(tmp_path / "photos", per_class=20, size=16)
    checked = invoke("data", "check", tmp_path / "photos")
    assert checked.exit_code == 0, checked.output
    assert "560 images, no problems" in checked.output

    words = ("--backbone", backbone, "--image-size", "16", "--output", tmp_path / "features")
    computed = invoke("data", "features", tmp_path / "photos", *words)
    assert computed.exit_code == 0, computed.output
    assert "560 examples of 128 numbers, 7 labels" in computed.output

    data = open_dataset(tmp_path / "features")
    covariate = np.array([backgrounds[path] for path in data.paths])
    training = np.flatnonzero(data.environments != data.environment_names.index("sketch"))
    balancer = CausalBalancer("all", max_steps=150, random_state=0).fit(data.subset(training))
    batches = np.concatenate(list(balancer.batch_sampler(8)))
    rows = training[batches]
    before = mutual_information(cross_table(data.labels[training], covariate[training]))
    after = mutual_information(cross_table(data.labels[rows], covariate[rows]))
    assert after < 0.5 * before  # the planted background says less about the class

    ended = train(tmp_path / "features", tmp_path / "run", "--sampling", "balanced")
    assert ended.exit_code == 0, ended.output
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["selections"]["balanced"]["ood_accuracy"] > 2 / 7
    again = train(tmp_path / "features", tmp_path / "run", "--sampling", "balanced")
    assert again.exit_code == 0, again.output


def test_a_balancer_sees_statistics_while_the_network_sees_images(tmp_path, backbone):
    backgrounds = write_image_tree(
        tmp_path / "photos",
        ("art", "photo", "sketch"),
        ("cat", "dog"),
        150,
        size=16,
        strengths=(0.9, 0.7, 0.1),
    )
    words = ("--backbone", backbone, "--image-size", "16", "--statistics", "--output", "features")
    computed = invoke("data", "features", "photos", *words)
    assert computed.exit_code == 0, computed.output
    assert "features/statistics: 900 examples of 22 numbers" in " ".join(computed.output.split())

    words = ("--sampling", "balanced", "--image-size", 16)
    words += ("--balance-features", "features/statistics")
    ended = train("photos", tmp_path / "run", *words)
    assert ended.exit_code == 0, ended.output
    described = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert described["input_shape"] == [3, 16, 16]
    assert described["settings"]["balance_features"] == "features/statistics"
    (saved,) = (tmp_path / "cache").glob("balancer-*.safetensors")
    balancer = CausalBalancer.load(saved)
    assert balancer.n_varying_ == 1
    data = open_dataset("features/statistics")
    settings = RunSettings.from_json(described["settings"])
    train_part = split_for_run(settings, data).train
    background = np.array([backgrounds[path] for path in train_part.paths])
    assert same_covariate_rate(balancer.matches_, background) > 0.75  # 0.3 by chance
    reported = invoke("report", tmp_path / "run", "--data", "photos", "--image-size", 16)
    assert reported.exit_code == 0, reported.output

    write_image_tree(tmp_path / "others", ("art", "photo", "sketch"), ("cat", "dog"), 20, size=16)
    refused = train("others", tmp_path / "other-run", *words)
    assert refused.exit_code == 2
    assert "must be of the same examples" in " ".join(refused.output.split())


def test_a_published_set_trains_by_name_on_its_pixels(tmp_path):
    write_image_tree(tmp_path / "data" / "PACS", per_class=2, size=28)
    words = ("--data-dir", tmp_path / "data", "--sampling", "random", "--select", "train-domain")
    words += ("--set", "batch_size=2", "--augmentation", "none")
    ended = train("PACS", tmp_path / "run", *words, steps=2)
    assert ended.exit_code == 0, ended.output
    described = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert described["environment_names"] == ["art_painting", "cartoon", "photo", "sketch"]
    assert described["input_shape"] == [3, 224, 224]


def test_images_packed_at_a_size_train_as_a_dataset(tmp_path):
    write_image_tree(tmp_path / "photos", per_class=2, size=28)
    packed = invoke("data", "pack", "photos", "--image-size", 12, "--output", "packed")
    assert packed.exit_code == 0, packed.output
    words = ("--sampling", "random", "--select", "train-domain", "--set", "batch_size=4")
    ended = train("packed", tmp_path / "run", *words, steps=2)
    assert ended.exit_code == 0, ended.output
    described = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert described["input_shape"] == [3, 12, 12]


def test_a_named_set_without_files_says_where_to_put_them(tmp_path):
    ended = train("PACS", tmp_path / "run", "--data-dir", tmp_path)
    assert ended.exit_code == 2
    told = " ".join(ended.output.split())
    assert "PACS is not in" in told
    assert "DIR/PACS/<environment>/<class>/*.jpg" in told
    assert not (tmp_path / "run").exists()


def test_a_class_missing_in_one_environment_is_matched_where_it_is(tmp_path, backbone):
    write_image_tree(tmp_path / "photos", per_class=8, size=16)
    shutil.rmtree(tmp_path / "photos" / "cartoon" / "dog")
    for path in (tmp_path / "photos" / "photo" / "house").iterdir():
        path.unlink()
    checked = invoke("data", "check", tmp_path / "photos")
    assert checked.exit_code == 1
    assert "missing: cartoon/dog" in checked.output
    assert "empty: photo/house" in checked.output
    words = ("--backbone", backbone, "--image-size", "16", "--output", "features")
    assert invoke("data", "features", tmp_path / "photos", *words).exit_code == 0

    data = open_dataset("features")
    balancer = CausalBalancer(max_steps=20, random_state=0).fit(data)
    dog, cartoon = data.label_names.index("dog"), data.environment_names.index("cartoon")
    for batch in balancer.batch_sampler(4):
        assert not ((data.labels[batch] == dog) & (data.environments[batch] == cartoon)).any()
    assert (data.labels[np.concatenate(list(balancer.batch_sampler(4)))] == dog).any()

    ended = train("features", tmp_path / "run", "--sampling", "balanced")
    assert ended.exit_code == 0, ended.output


def test_damaged_files_stop_a_run_in_one_sentence_and_are_left_out_where_asked(tmp_path, backbone):
    write_image_tree(tmp_path / "photos", per_class=3, size=16)
    (tmp_path / "photos" / "photo" / "dog" / "notes.txt").write_text("not a picture")
    write_broken_images(tmp_path / "photos" / "photo" / "dog")
    checked = invoke("data", "check", "photos", "--output", "report.json", "--quiet")
    assert checked.exit_code == 1
    assert checked.stdout == ""
    report = tmp_path / "report.json"
    kinds = [problem["kind"] for problem in json.loads(report.read_text())["problems"]]
    assert sorted(kinds) == ["no-image", "unreadable", "unreadable", "unreadable"]
    words = ("--backbone", backbone, "--image-size", "16", "--output", "features")
    with pytest.warns(UserWarning, match=r"notes\.txt"):
        stopped = invoke("data", "features", "photos", *words)
    assert stopped.exit_code == 2
    assert "3 of 87 images" in " ".join(stopped.output.split())
    assert "Traceback" not in stopped.output
    with pytest.warns(UserWarning, match="They are left out"):
        went_on = invoke("data", "features", "photos", *words, "--on-broken", "skip")
    assert went_on.exit_code == 0, went_on.output
    assert "84 examples" in went_on.output


def test_a_table_is_packed_with_its_columns_and_trains(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(240, 3)), columns=["a", "b", "c"])
    table["ill"] = np.where(rng.random(240) < 0.5, "yes", "no")
    table["hospital"] = np.array(["north", "south", "sketch"])[np.arange(240) % 3]
    table["patient"] = [f"p{i}" for i in range(240)]
    table.to_csv("patients.csv", index=False)
    names = ("--label", "ill", "--environment", "hospital", "--output", "patients")
    refused = invoke("data", "pack", "patients.csv", *names)
    assert refused.exit_code == 2
    assert "column 'patient' of patients.csv holds 240 different names" in " ".join(
        refused.output.split()
    )
    columns = ("--features", "a", "--features", "b,c")
    packed = invoke("data", "pack", "patients.csv", *names, *columns)
    assert packed.exit_code == 0, packed.output
    ended = train("patients", tmp_path / "run", "--sampling", "balanced")
    assert ended.exit_code == 0, ended.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("check", "nothing"), "there is no directory nothing"),
        (("features", ".", "--output", "backbone.py"), "is a file; a dataset is saved as"),
        (("pack", ".", "--output", "backbone.py"), "is a file; a dataset is saved as"),
        (("check", ".", "--dataset", "PAC"), "Did you mean 'PACS'"),
        (("features", "nothing", "--output", "f"), "unknown dataset 'nothing'"),
        (("features", "PACS", "--output", "f", "--label", "y"), "--label is no option of"),
        (("features", ".", "--output", "f", "--backbone", "resnet"), "a backbone is timm/NAME"),
        (("pack", "data.csv", "--output", "f"), "there is no data at data.csv"),
        (
            ("pack", "ColoredMNIST", "--output", "f", "--image-size", "3"),
            "--image-size is no option",
        ),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(words, message, backbone):
    if words[0] == "features" and "--backbone" not in words:
        words = (*words, "--backbone", backbone)
    ended = invoke("data", *words)
    assert ended.exit_code == 2
    assert message in " ".join(ended.output.split())
    assert "Traceback" not in ended.output


@pytest.mark.parametrize("command", ["check", "features", "pack"])
def test_every_command_shows_an_example(command):
    shown = invoke("data", command, "--help")
    assert f"Example: equipoise data {command}" in " ".join(shown.output.split())
