"""A saved balancer is the same balancer when it is loaded."""

import numpy as np
import pandas as pd
import pytest

from equipoise import CausalBalancer
from equipoise.balance import LazyMatches, large
from tests.conftest import make_spurious


@pytest.mark.parametrize("exact", [(), ("ward",)])
def test_a_balancer_with_matches_on_demand_is_loaded_with_the_same_matches(
    exact, tmp_path, monkeypatch
):
    monkeypatch.setattr(large, "MOST_MEASURED", 1_000)
    data = make_spurious(n=400, n_labels=3)
    known = pd.DataFrame({"ward": np.where(np.arange(400) % 2, "a", "b")})
    fitted = CausalBalancer("given", random_state=0, exact=exact).fit(data, covariates=known)
    assert isinstance(fitted.matches_, LazyMatches)
    fitted.save(tmp_path / "balancer.safetensors")
    loaded = CausalBalancer.load(tmp_path / "balancer.safetensors")
    assert isinstance(loaded.matches_, LazyMatches)
    everyone = np.arange(400)
    before, after = fitted.matches_.take(everyone), loaded.matches_.take(everyone)
    np.testing.assert_array_equal(after.indices, before.indices)
    np.testing.assert_array_equal(after.distances, before.distances)
    batches = [np.concatenate(list(each.batch_sampler(8))) for each in (fitted, loaded)]
    np.testing.assert_array_equal(*batches)
