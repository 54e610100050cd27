"""The balancer of an exhibit that looks at batches or at z: the one its runs share."""

from __future__ import annotations

from dataclasses import dataclass

from equipoise.balancer import CausalBalancer
from equipoise.benchmark import (
    RunData,
    RunSettings,
    choose_cache,
    obtain_balancer,
    plan_sweep,
    split_for_run,
)
from equipoise.data import get_dataset
from equipoise.exhibits.request import ExhibitRequest
from equipoise.exhibits.table1 import SAMPLINGS, TEST_ENVIRONMENT


@dataclass(frozen=True)
class FittedBalancer:
    """Settings of the runs by sampling, the data they see, and the balancer fitted on them."""

    settings: dict[str, RunSettings]
    data: RunData
    balancer: CausalBalancer


def fit_exhibit(request: ExhibitRequest, dataset: str) -> FittedBalancer:
    """Load the balancer of the first seed, or fit it; runs of Table 1 find it later."""
    spec = request.describe_sweep(
        datasets=(dataset,),
        algorithms=("ERM",),
        samplings=SAMPLINGS,
        test_environments=(TEST_ENVIRONMENT,),
        seeds=(0,),
    )
    runs = plan_sweep(spec, data_dir=request.data_dir)
    settings = {run.settings.sampling: run.settings for run in runs}
    chosen = settings["balanced"]
    opened = get_dataset(dataset, data_dir=request.data_dir, data_seed=chosen.data_seed)
    data = split_for_run(chosen, opened)
    balancer = obtain_balancer(
        chosen,
        data,
        choose_cache(request.runs / runs[0].name),
        device=request.device,
        verbose=request.verbose,
    )
    return FittedBalancer(settings, data, balancer)
