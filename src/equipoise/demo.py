"""The main job: balance, and train the same network with random and balanced batches."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from equipoise.algorithms import choose_device
from equipoise.balancer import CausalBalancer
from equipoise.benchmark import (
    RunData,
    RunResult,
    RunSettings,
    choose_cache,
    execute_run,
    make_batches,
    make_settings,
    obtain_balancer,
    split_for_run,
    tabulate_epoch,
)
from equipoise.data import EnvironmentDataset, get_dataset
from equipoise.diagnosis import mutual_information, same_covariate_rate
from equipoise.files import read_json, write_json
from equipoise.paper import find_accuracy
from equipoise.report import draw_batches, draw_tables, save_figure

Ints = NDArray[np.int64]

CEILING = {"ColoredMNIST10": 75.0, "ColoredMNIST": 75.0, "RotatedMNIST": 100.0}
#: Kinds of batches, and the rule that chooses a checkpoint: as usual, and as balancing allows.
RULES = {"random": "train-domain", "balanced": "balanced"}
SAMPLINGS = tuple(RULES)


def run_demo(
    output: str | Path,
    *,
    dataset: str = "ColoredMNIST10",
    steps: int | None = None,
    seed: int = 0,
    quick: bool = False,
    data_dir: str | Path | None = None,
    device: str = "cpu",
    console: Console | None = None,
) -> dict[str, Any]:
    """Run it all into `output` and return the content of `results.json`.

    Interrupted, the same call goes on where it stopped. `quick` takes a quarter of the steps,
    for Z as for the networks.
    """
    started = time.monotonic()
    console = console or Console()
    device = choose_device(device)
    output = Path(output)
    say = console.print
    say(f"[bold]1[/bold]  {escape(dataset)}: digits dealt into environments")
    environments = get_dataset(dataset, data_dir=data_dir)
    settings = _settings(dataset, environments, steps, seed, quick)
    data = split_for_run(settings["random"], environments)
    say(
        f"   train on {_names(environments, data.training_environments)}, "
        f"test on {_names(environments, (environments.n_environments - 1,))}; "
        f"{len(data.train):,} examples to learn from, {len(data.held_out):,} held out"
    )
    say("[bold]2[/bold]  find what to balance, score it, match on the score")
    # Named by their settings, so that another dataset or length never meets these runs.
    folders = {
        name: output / "runs" / f"{dataset}-{name}-{settings[name].digest}" for name in SAMPLINGS
    }
    already_done = all((folder / "result.json").is_file() for folder in folders.values())
    cache = choose_cache(folders["balanced"])
    balancer = obtain_balancer(settings["balanced"], data, cache, device=device, verbose=True)
    part = balancer.score_.part
    if part is not None:
        say(f"   {len(part)} dimensions have a link that varies (p = {part.p_value:.4f})")
    tables, facts = _examine(balancer, data, settings, say)
    say("[bold]3[/bold]  train the same network twice")
    how: dict[str, Any] = {"device": device, "cache": cache, "verbose": True}
    runs = {
        name: execute_run(settings[name], environments, folders[name], **how) for name in SAMPLINGS
    }
    batches = [make_batches(settings[name], data, balancer=balancer) for name in SAMPLINGS]
    figure = draw_batches(data.train, *(each.draw_step(0)[0] for each in batches))
    save_figure(figure, output / "batches.png")
    if tables is not None:
        labels, covariate = environments.label_names, environments.covariate_name
        figure = draw_tables(*tables, label_names=labels, covariate_name=covariate)
        save_figure(figure, output / "tables.png")
    verdict = balancer.diagnose(data.train).verdict
    facts |= {"recommendation": verdict.recommendation, "headline": verdict.headline}
    seconds = time.monotonic() - started
    if already_done:  # the time it took is that of the call that did the work
        with suppress(ValueError):  # missing or damaged: it is written again
            found = read_json(output / "results.json", {"dataset": str, "seconds": float})
            seconds = float(found["seconds"]) if found["dataset"] == dataset else seconds
    results = _summarise(dataset, runs, facts, seconds)
    write_json(output / "results.json", results)
    console.print(make_table(results))
    say(f"recommendation: [bold]{escape(results['recommendation'])}[/bold]")
    say(f"{escape(results['headline'])} (Small classifiers, training environments alone.)")
    say(f"pictures and results.json are in {output}/   ({results['seconds']:.0f} s)")
    return results


def _settings(
    dataset: str, environments: EnvironmentDataset, steps: int | None, seed: int, quick: bool
) -> dict[str, RunSettings]:
    """The same recipe for both kinds of batches; the last environment is the test one."""
    common: dict[str, Any] = {
        "dataset": dataset,
        "algorithm": "ERM",
        "test_environment": environments.environment_names[-1],
        "seed": seed,
        "input_shape": environments.input_shape,
        "balancer": {"n_jobs": -1, **({"max_steps": 150} if quick else {})},
    }
    made = {name: make_settings("quick", sampling=name, **common) for name in SAMPLINGS}
    full = made["random"].steps
    steps = steps or (full // 4 if quick else full)
    common |= {"steps": steps, "checkpoint_every": min(made["random"].checkpoint_every, steps)}
    return {name: make_settings("quick", sampling=name, **common) for name in SAMPLINGS}


def _names(environments: EnvironmentDataset, codes: tuple[int, ...]) -> str:
    return ", ".join(f"e={environments.environment_names[code]}" for code in codes)


def _examine(
    balancer: CausalBalancer, data: RunData, settings: dict[str, RunSettings], say: Any
) -> tuple[list[Ints] | None, dict[str, Any]]:
    """Compare matches and batches with the true covariate, which no estimator has seen.

    Gives tables of label and covariate in an epoch of random and of balanced batches.
    """
    facts: dict[str, Any] = {
        "n_varying": balancer.n_varying_,
        "same_covariate_rate": None,
        "mutual_information_ratio": None,
    }
    if data.train.covariate is None:
        say("   the true covariate of this dataset is not known: nothing to compare matches with")
        return None, facts
    rate = same_covariate_rate(balancer.matches_, data.train.covariate)
    tables = [tabulate_epoch(settings[name], data, balancer) for name in SAMPLINGS]
    random, balanced = map(mutual_information, tables)
    facts |= {"same_covariate_rate": rate, "mutual_information_ratio": balanced / random}
    name = data.train.covariate_name
    say(f"   {100 * rate:.2f} % of the matches have their anchor's true {name}")
    say(
        f"   mutual information of {name} and label: {random:.4f} nats in random batches, "
        f"{balanced:.4f} in balanced ones ({100 * balanced / random:.2g} %)"
    )
    return tables, facts


def _summarise(
    dataset: str, runs: dict[str, RunResult], facts: dict[str, Any], seconds: float
) -> dict[str, Any]:
    results: dict[str, Any] = {"dataset": dataset}
    for name, run in runs.items():
        record = run.selected[RULES[name]]
        by_train_domain = run.selected["train-domain"]
        results[name] = {
            "selection": RULES[name],
            "step": record.step,
            "train_domain_validation": _percent(record.validation_accuracy),
            "balanced_validation": _percent(record.balanced_validation_accuracy),
            "ood_accuracy": _percent(record.ood_accuracy),
            "ood_accuracy_by_train_domain_validation": _percent(by_train_domain.ood_accuracy),
        }
    results |= facts
    results["ceiling"] = CEILING.get(dataset)
    settings = runs["random"].settings
    results["paper"] = {}
    for name in SAMPLINGS:
        cell = {"dataset": dataset, "algorithm": settings.algorithm, "sampling": name}
        paper = find_accuracy(**cell, test_environment=str(settings.test_environment))
        results["paper"][name] = None if paper is None else paper.accuracy
    results |= {"seed": settings.seed, "steps": settings.steps, "seconds": round(seconds, 1)}
    return results


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 2)


def make_table(results: dict[str, Any]) -> Table:
    """The demo's closing table: ours, the ceiling, and the paper's numbers."""
    chosen = "; ".join(f"{name}: {rule} validation" for name, rule in RULES.items())
    table = Table(
        title=f"ERM on {results['dataset']}, accuracy in %",
        title_justify="left",
        caption=f"Checkpoint chosen by: {chosen}",
        caption_justify="left",
    )
    table.add_column("batches")
    for heading in ("train-domain\nvalidation", "balanced\nvalidation", "out of domain", "paper's"):
        table.add_column(heading, justify="right")
    for name in SAMPLINGS:
        row = results[name]
        numbers = (row["train_domain_validation"], row["balanced_validation"], row["ood_accuracy"])
        table.add_row(name, *map(_show, numbers), _show(results["paper"][name], "g"))
    table.add_row("best possible", "", "", _show(results["ceiling"]), "", style="dim")
    return table


def _show(number: float | None, digits: str = ".1f") -> str:
    return "–" if number is None else f"{number:{digits}}"
