"""Whether the answer depends on how a table is written: the order, scale and code of its columns.

One world of the battery with a categorical column, fitted as it is and in many other forms.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.worlds import make_world

Floats = NDArray[np.float64]
WORLD = "four values, one-hot"
VALUES = 4


def main(options: Sequence[str] = ()) -> None:
    """Print one line for each way of writing, and how many agree with the first."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks column-orders", description=__doc__)
    parser.add_argument("--orders", type=int, default=20, help="random orders [default: 20]")
    parser.add_argument("--seed", type=int, default=0, help="of the world and of the balancer")
    parser.add_argument("--quick", action="store_true", help="two orders")
    arguments = parser.parse_args(options)
    compare(2 if arguments.quick else arguments.orders, arguments.seed)


def compare(
    n_orders: int, seed: int = 0, make_balancer: Callable[..., Any] | None = None
) -> dict[str, tuple[int, str]]:
    """Form -> directions found and recommendation, printed on the way."""
    if make_balancer is None:
        from equipoise import CausalBalancer as make_balancer
    world = make_world(WORLD, seed)
    found: dict[str, tuple[int, str]] = {}
    first: Floats | None = None
    print("form            found  advice            correlation of weights")
    for name, x in rewrite(world.X, n_orders, np.random.default_rng(seed)):
        balancer = make_balancer(random_state=seed).fit(x, world.y, world.environments)
        verdict = balancer.diagnose().verdict
        found[name] = (int(balancer.n_varying_), verdict.recommendation)
        weights = np.asarray(balancer.weights_, dtype=float)
        first = weights if first is None else first
        alike = np.corrcoef(first, weights)[0, 1] if weights.std() > 0 < first.std() else 1.0
        print(f"{name:<15} {found[name][0]:>5}  {found[name][1]:<17} {alike:.4f}", flush=True)
    same = sum(answer == found["as it is"] for answer in found.values())
    print(f"{same} of {len(found)} forms give the same number and the same advice")
    return found


def rewrite(x: Floats, n_orders: int, rng: np.random.Generator) -> Iterator[tuple[str, Floats]]:
    """The same table in other forms; the one-hot columns are found by their two values."""
    yield "as it is", x
    for order in range(n_orders):
        yield f"order {order + 1}", x[:, rng.permutation(x.shape[1])]
    yield "scale", x * 10 ** rng.uniform(-4, 4, x.shape[1]) + rng.normal(size=x.shape[1])
    hot = np.array([len(np.unique(column)) == 2 for column in x.T])
    if hot.sum() == VALUES:
        code = rng.permutation(VALUES)[(x[:, hot] > 0).argmax(axis=1)]
        yield "coded", np.concatenate([x[:, ~hot], code[:, None]], axis=1)
