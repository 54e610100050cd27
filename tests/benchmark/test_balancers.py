import multiprocessing
import os
import time

import numpy as np
import pytest

from equipoise.balancer import CausalBalancer
from equipoise.benchmark import split_for_run
from equipoise.benchmark.balancers import choose_cache, obtain_balancer
from equipoise.files import Locked, hold_lock

from .tiny import make_data, make_settings


@pytest.fixture
def fits(monkeypatch):
    """Counts how often anything is fitted."""
    counted = []
    fit = CausalBalancer.fit
    monkeypatch.setattr(
        CausalBalancer, "fit", lambda self, *a, **k: counted.append(1) or fit(self, *a, **k)
    )
    return counted


def obtain(cache, dataset=None, **changes):
    settings = make_settings(**changes)
    return obtain_balancer(settings, split_for_run(settings, dataset or make_data()), cache)


def test_one_fit_serves_every_run_on_the_same_data_settings_and_seed(tmp_path, fits):
    first = obtain(tmp_path)
    for changes in ({"algorithm": "CORAL"}, {"steps": 3}, {"n_matches": 1}):
        again = obtain(tmp_path, **changes)
        assert np.array_equal(again.matches_.indices, first.matches_.indices)
    assert len(fits) == 1


@pytest.mark.parametrize(
    "changes",
    [{"seed": 1}, {"balancer": {"max_steps": 10}}, {"test_environment": 0}, {"data_seed": 1}],
)
def test_what_changes_the_fit_is_fitted_anew(tmp_path, fits, changes):
    obtain(tmp_path)
    obtain(tmp_path, **changes)
    assert len(fits) == 2


def test_one_changed_value_in_the_data_is_other_data(tmp_path, fits):
    obtain(tmp_path)
    dataset = make_data()
    row = split_for_run(make_settings(), dataset).train.indices[17]
    dataset.source.x[row, 3] += 0.5
    obtain(tmp_path, dataset)
    assert len(fits) == 2


def test_a_damaged_balancer_is_fitted_again(tmp_path, fits):
    first = obtain(tmp_path)
    (path,) = tmp_path.glob("*.safetensors")
    path.write_bytes(b"gone")
    with pytest.warns(UserWarning, match="It is fitted again"):
        again = obtain(tmp_path)
    assert np.array_equal(again.matches_.indices, first.matches_.indices)
    assert len(fits) == 2


def test_a_damaged_unfinished_fit_of_a_vae_starts_over(tmp_path):
    vae = {"balance_on": "all", "max_steps": 20, "n_nearest": 5}
    whole = obtain(tmp_path / "whole", balancer=vae)
    (name,) = (path.stem for path in (tmp_path / "whole").glob("*.safetensors"))
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / f"{name}.unfinished").write_bytes(b"cut off")
    with pytest.warns(UserWarning, match="The fit starts over"):
        again = obtain(tmp_path / "cut", balancer=vae)
    assert np.array_equal(again.matches_.indices, whole.matches_.indices)


def test_the_cache_is_beside_the_run_or_where_the_user_says(tmp_path, monkeypatch):
    monkeypatch.delenv("EQUIPOISE_CACHE", raising=False)
    assert choose_cache(tmp_path / "run") == tmp_path / ".balancers"
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "shared"))
    assert choose_cache(tmp_path / "run") == tmp_path / "shared"


def _hold(path, taken):
    with hold_lock(path):
        taken.set()
        time.sleep(60)


def test_a_lock_is_free_once_its_owner_was_killed(tmp_path):
    path = tmp_path / "lock"
    spawned = multiprocessing.get_context("spawn")
    taken = spawned.Event()
    owner = spawned.Process(target=_hold, args=(path, taken))
    owner.start()
    assert taken.wait(60)
    with pytest.raises(Locked, match=str(owner.pid)), hold_lock(path):
        pass
    owner.kill()
    waited = []
    with hold_lock(path, on_wait=lambda: waited.append(1)):
        assert path.read_text() == str(os.getpid())
    owner.join()
