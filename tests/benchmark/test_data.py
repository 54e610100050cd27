import numpy as np
import pytest

from equipoise.benchmark import split_for_run
from equipoise.benchmark.data import find_environment
from equipoise.data import Examples, save_dataset

from .tiny import make_data, make_settings


def test_training_reaches_only_train_parts_of_training_environments():
    dataset = make_data()
    data = split_for_run(make_settings(), dataset)
    assert data.test_environment == 2
    assert set(data.train.environments) == set(data.held_out.environments) == {0, 1}
    assert not set(data.train.indices) & set(data.held_out.indices)


def test_parts_are_everything_once():
    dataset = make_data()
    data = split_for_run(make_settings(), dataset)
    parts = np.concatenate([*data.train_parts, *data.held_out_parts])
    assert np.array_equal(np.sort(parts), np.arange(len(dataset)))


def test_the_split_depends_on_the_data_seed_alone():
    dataset = make_data()
    rows = [
        split_for_run(make_settings(**changes), dataset).train.indices
        for changes in ({}, {"seed": 5}, {"data_seed": 5})
    ]
    assert np.array_equal(rows[0], rows[1])
    assert not np.array_equal(rows[0], rows[2])


@pytest.mark.parametrize(("wanted", "position"), [("south", 2), (0, 0), ("1", 1), (None, None)])
def test_an_environment_is_found_by_name_or_position(wanted, position):
    data = split_for_run(make_settings(test_environment=wanted), make_data())
    assert data.test_environment == position


@pytest.mark.parametrize("wanted", [3, -1, "west", "7", 1.0, 0.5, "1.0"])
def test_an_environment_that_is_not_there_is_refused(wanted):
    with pytest.raises(ValueError, match=r"choose one of 0 \(east\), 1 \(north\), 2 \(south\)"):
        split_for_run(make_settings(test_environment=wanted), make_data())


@pytest.mark.parametrize(
    ("wanted", "position"),
    [(2, 1), ("2", 1), (np.int64(3), 2), (0, 0), (0.9, 3), ("0.9", 3), (np.float64(0.9), 3)],
)
def test_a_name_that_looks_like_a_number_comes_before_a_position(wanted, position):
    names = np.array(["1", "2", "3", "0.9"])[np.arange(80) % 4]
    data = Examples(np.zeros((80, 2)), np.arange(80) // 4 % 2, names)
    where = data.environment_names.index(["1", "2", "3", "0.9"][position])
    if wanted == 0:  # no such name: the position
        where = 0
    assert find_environment(data, wanted) == where


def test_an_environment_too_small_to_hold_out_is_refused():
    data = Examples(np.zeros((12, 2)), [0, 1] * 6, [0] * 10 + [1] * 2)
    with pytest.raises(ValueError, match=r"'1' has 2 examples to train on and 0 held out"):
        split_for_run(make_settings(test_environment=0), data)


def test_a_single_environment_cannot_be_the_test_environment():
    data = Examples(np.zeros((10, 2)), [0, 1] * 5, [0] * 10)
    with pytest.raises(ValueError, match="nothing to train on"):
        split_for_run(make_settings(test_environment=0), data)


def save_features(path, data, columns=slice(None), rows=slice(None), **changes):
    """Some columns of `make_data` as other features of its examples."""
    names = np.array(data.environment_names)[data.environments]
    x = data.fetch(np.arange(len(data))).numpy()[:, columns]
    made = Examples(x[rows], changes.get("labels", data.labels)[rows], names[rows])
    save_dataset(made, path)
    return str(path)


def test_a_balancer_may_see_other_features_of_the_same_examples(tmp_path):
    dataset = make_data()
    place = save_features(tmp_path / "clear", dataset, slice(3))
    data = split_for_run(make_settings(balance_features=place), dataset)
    shown = data.show_balancer(data.train)
    assert shown.input_shape == (3,)
    rows = np.arange(len(data.train))
    assert np.array_equal(shown.fetch(rows), data.train.fetch(rows)[:, :3])
    assert np.array_equal(shown.labels, data.train.labels)
    plain = split_for_run(make_settings(), dataset)
    assert plain.show_balancer(plain.train) is plain.train
    assert data.fingerprint != plain.fingerprint


def test_features_of_other_examples_are_refused(tmp_path):
    dataset = make_data()

    def refuse(name, message, **changes):
        place = save_features(tmp_path / name, dataset, **changes)
        with pytest.raises(ValueError, match=message):
            split_for_run(make_settings(balance_features=place), dataset)

    refuse("few", "few has 500, the dataset 600", rows=slice(500))
    wrong = dataset.labels.copy()
    wrong[7] = (wrong[7] + 1) % 3
    refuse(
        "wrong", f"the label '{wrong[7]}' in row 7, the dataset '{dataset.labels[7]}'", labels=wrong
    )
    refuse("mixed", "the (label|environment) .* in row", rows=np.arange(600)[::-1])
    with pytest.raises(ValueError, match="there is no data at nowhere"):
        split_for_run(make_settings(balance_features="nowhere"), dataset)


def test_features_of_other_files_are_refused(tmp_path):
    dataset = make_data()
    dataset.paths = tuple(f"{row}.jpg" for row in range(len(dataset)))
    save_dataset(dataset, tmp_path / "features")
    settings = make_settings(balance_features=str(tmp_path / "features"))
    assert split_for_run(settings, dataset).features is not None
    dataset.paths = (*dataset.paths[:-1], "other.jpg")
    with pytest.raises(ValueError, match=r"'599\.jpg' in row 599, the dataset 'other\.jpg'"):
        split_for_run(settings, dataset)
