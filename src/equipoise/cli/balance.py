"""`equipoise balance`, `equipoise report` and `equipoise plot`: a balancer, and looking at it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from equipoise.cli.options import (
    arg,
    command,
    list_options,
    open_data,
    opt,
    plain_notes,
    print_json,
)

if TYPE_CHECKING:
    from equipoise.balance_job import BalanceResult
    from equipoise.report import Target


@command
def balance(
    *,
    data: str,
    output: Path = opt("Directory of the results; an interrupted fit resumes there.", ...),
    reading: dict[str, Any],
    leave_out: list[str] | None = opt("An environment to keep apart for testing; repeatable."),
    balance_on: str = opt(
        "varying, all (of Z, as the paper does) or given (covariates).", "varying"
    ),
    method: str = opt("match, overlap, entropy, or all to compare them.", "match"),
    covariates: str | None = opt("Columns that may be spurious, such as age,scanner."),
    covariate_table: Path | None = opt(
        "A table of covariates by file name (its first column), for images."
    ),
    exact: str | None = opt("Covariates in which matches must agree, such as sex."),
    n_matches: int | None = opt(
        "Other labels matched to each anchor; by default all, up to 9.", min=1
    ),
    latent_dim: str | None = opt(
        "Latent size (balance-on all), or auto; default: Theorem 3.3's maximum."
    ),
    caliper: float | None = opt("Largest distance of a match; no limit if not set.", min=0.0),
    metric: str = opt("kl, l1, l2 or linf.", "kl"),
    choices: list[str] | None = None,
    steps: int = opt("Training steps of the VAE, at most.", 600, min=1),
    seed: int = 0,
    device: str = "cpu",
    n_jobs: int = opt("Threads for matching; -1 for all.", -1),
    data_dir: Path | None = None,
    report: bool = opt("Write report.html.", True),
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Balance your own data: find what varies, match on it, and write matches and weights.

    \b
    The most common uses:
    \b
      a table
        equipoise balance patients.csv --label ill --environment hospital \\
          --output out
      images, as photos/ENVIRONMENT/CLASS/*.jpg, one environment kept for testing
        equipoise balance photos --image-size 64 --leave-out sketch --output out
      embeddings, as arrays x, y and environment
        equipoise balance embeddings.npz --output out
      a table in which you know what may be spurious
        equipoise balance patients.csv --label ill --environment hospital \\
          --covariates age,scanner --output out

    An interrupted command resumes when it is given again. OUTPUT then holds

    \b
      matches.parquet       anchor, match, label (of the match), environment,
                            distance; not for very many labels, which is said
      weights.parquet       example, label, environment, weight
      balancer.safetensors  for CausalBalancer.load
      summary.txt           tables and a verdict in words
      report.html           the same to look at, with a gallery of matches
    """
    from equipoise.algorithms import choose_device
    from equipoise.balance_job import balance_dataset, read_covariate_table
    from equipoise.balancing import METHODS
    from equipoise.benchmark import parse_value
    from equipoise.checks import check_choice
    from equipoise.diagnosis import summarise_balance

    check_choice("method", method, (*METHODS, "all"))
    parameters: dict[str, Any] = {
        "balance_on": balance_on,
        "method": "match" if method == "all" else method,
        "exact": tuple(_split_names(exact)),
        "n_matches": n_matches,
        "latent_dim": None if latent_dim is None else parse_value(latent_dim),
        "caliper": caliper,
        "metric": metric,
        "max_steps": steps,
        "random_state": seed,
        "device": choose_device(device),
        "n_jobs": n_jobs,
        **_parse_parameters(choices or []),
    }
    with plain_notes(balance):
        dataset = open_data(data, data_dir, reading, verbose=not quiet)
        result = balance_dataset(
            dataset,
            output,
            leave_out=leave_out or (),
            covariates=read_covariate_table(
                dataset, data, _split_names(covariates), covariate_table
            ),
            compare=method == "all",
            report=report,
            verbose=not quiet,
            **parameters,
        )
    if as_json:
        print_json(_gather(result))
    elif not quiet:
        typer.echo(summarise_balance(result.diagnostics))
        page = " Open report.html to look at it." if report else ""
        typer.echo(f"\nWritten to {output}/.{page}")


def _gather(result: BalanceResult) -> dict[str, Any]:
    """The summary's content for programs: the verdict, and the tables it rests on."""
    from equipoise.balance import effective_sample_size

    found, weights = result.diagnostics, result.balancer.weights_
    tables = {
        "varying": found.varying,
        "balance": found.worst,
        "information": found.information,
        "overlap": found.overlap,
        "use": found.use,
    }
    if found.situations is not None:
        tables["situations"] = found.situations.rename_axis("situation").reset_index()
    return {
        "verdict": asdict(found.verdict),
        "n_examples": found.n_examples,
        "n_varying": result.balancer.n_varying_,
        "effective_sample_size": effective_sample_size(weights),
        "tables": {name: table.to_dict("records") for name, table in tables.items()},
        "notes": found.notes,
        "files": sorted(str(file) for file in result.output.iterdir() if file.name != ".lock"),
    }


def _split_names(names: str | None) -> list[str]:
    return [name.strip() for name in (names or "").split(",") if name.strip()]


def _parse_parameters(choices: list[str]) -> dict[str, Any]:
    """`name=value` texts as parameters of CausalBalancer that have no option of their own."""
    from equipoise.balancer import CausalBalancer
    from equipoise.benchmark import parse_value
    from equipoise.checks import check_choice

    own = list_options(balance) | {
        "max_steps": "--steps",
        "random_state": "--seed",
        "verbose": "--quiet",
    }
    others = [name for name in CausalBalancer().get_params() if name not in own]
    found = {}
    for choice in choices:
        name, equals, text = choice.partition("=")
        if not equals:
            raise ValueError(f"--set takes name=value, got {choice!r}")
        if name in own:
            raise ValueError(f"--set does not take {name}: use {own[name]}")
        check_choice("parameter", name, others)
        found[name] = parse_value(text)
    return found


@command
def report(
    *,
    target: Path,
    output: Path | None = opt("The page; by default report.html in or beside the target."),
    data: str | None = opt("The data, as for `balance`, if the target does not name them."),
    reading: dict[str, Any],
    data_dir: Path | None = None,
    cache: Path | None = None,
    title: str | None = opt("Title of the page."),
    seed: int = 0,
    device: str = "cpu",
    quiet: bool = False,
) -> None:
    """Write one HTML page on a run or a balancer: verdict, balance, matches, curves."""
    from equipoise.report import write_report

    opened = _open(target, data, reading, data_dir, cache, device, verbose=not quiet)
    if not quiet:
        for sentence in opened.missing:
            typer.echo(f"note: {sentence}", err=True)
    page = write_report(
        output or opened.folder / "report.html",
        opened.balancer,
        opened.examples,
        opened.labels,
        opened.environments,
        run=opened.run,
        title=title,
        seed=seed,
        verbose=not quiet,
    )
    if not quiet:
        typer.echo(page)


KINDS = (
    "situations, love, tables, overlap, gallery, counterfactuals, traversals, reuse or tuning; "
    "of a run also curves or confusions."
)


@command
def plot(
    *,
    kind: str = arg(KINDS),
    target: Path,
    output: Path = opt("The picture: .png, .pdf or .svg.", ...),
    place: str | None = opt("One environment, for love, tables and overlap.", flag="--in"),
    data: str | None = opt("The data, as for `balance`, if the target does not name them."),
    reading: dict[str, Any],
    data_dir: Path | None = None,
    cache: Path | None = None,
    seed: int = 0,
    device: str = "cpu",
) -> None:
    """Draw one picture of a run or a balancer, for a paper or a slide."""
    from equipoise.checks import check_choice
    from equipoise.report import PLOTS, check_format, draw_plot, save_figure

    check_choice("plot", kind, PLOTS)
    check_format(output)
    opened = _open(target, data, reading, data_dir, cache, device, verbose=True)
    save_figure(draw_plot(kind, opened, environment=place, seed=seed), output)
    typer.echo(output)


def _open(
    target: Path,
    data: str | None,
    reading: dict[str, Any],
    data_dir: Path | None,
    cache: Path | None,
    device: str,
    *,
    verbose: bool,
) -> Target:
    """The target, with its data where they were named."""
    from equipoise.algorithms import choose_device
    from equipoise.report import open_target

    if data is None and reading:
        raise ValueError(f"{', '.join(reading)} say how to read --data: name the data as well")
    dataset = None if data is None else open_data(data, data_dir, reading, verbose=verbose)
    return open_target(
        target, dataset, data_dir=data_dir, cache=cache, device=choose_device(device)
    )
