"""`equipoise balance`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.cli.errors import plain_errors, plain_notes
from equipoise.cli.options import (
    Choices,
    Data,
    DataDir,
    Device,
    Environment,
    Features,
    Files,
    ImageSize,
    Json,
    Label,
    Quiet,
    Seed,
    collect_options,
    open_data,
    print_json,
)

if TYPE_CHECKING:
    from equipoise.balance_job import BalanceResult


@plain_errors
def balance(
    data: Data,
    output: Annotated[Path, typer.Option(help="Directory for the results; a begun one goes on.")],
    path: Files = None,
    label: Label = None,
    environment: Environment = None,
    features: Features = None,
    leave_out: Annotated[
        list[str] | None,
        typer.Option(help="An environment to keep apart for testing; repeatable."),
    ] = None,
    balance_on: Annotated[
        str, typer.Option(help="varying, all (of Z, as the paper does) or given (covariates).")
    ] = "varying",
    method: Annotated[
        str, typer.Option(help="match, overlap, entropy, or all to compare them.")
    ] = "match",
    covariates: Annotated[
        str | None, typer.Option(help="Columns that may be spurious, such as age,scanner.")
    ] = None,
    covariate_table: Annotated[
        Path | None,
        typer.Option(help="A table of covariates by file name (its first column), for images."),
    ] = None,
    exact: Annotated[
        str | None, typer.Option(help="Covariates in which matches must agree, such as sex.")
    ] = None,
    n_matches: Annotated[
        int | None, typer.Option(min=1, help="Other labels for each anchor; all, up to 9.")
    ] = None,
    latent_dim: Annotated[
        str | None,
        typer.Option(help="Latent size (balance-on all), or auto; default: Theorem 3.3's maximum."),
    ] = None,
    caliper: Annotated[
        float | None, typer.Option(min=0.0, help="Largest distance of a match; any if not set.")
    ] = None,
    metric: Annotated[str, typer.Option(help="kl, l1, l2 or linf.")] = "kl",
    choices: Choices = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps of learning Z, at most.")] = 600,
    image_size: ImageSize = None,
    seed: Seed = 0,
    device: Device = "cpu",
    n_jobs: Annotated[int, typer.Option(help="Threads for matching; -1 takes all.")] = -1,
    data_dir: DataDir = None,
    report: Annotated[bool, typer.Option(help="Write report.html.")] = True,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Balance your own data: find links that vary, match, write what to train with.

    \b
    The three most common uses:
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

    Interrupted, the same command goes on where it stopped. OUTPUT then holds

    \b
      matches.parquet       anchor, match, label (of the match), environment,
                            distance
      weights.parquet       example, label, environment, weight
      balancer.safetensors  for CausalBalancer.load
      summary.txt           tables and a verdict in words
      report.html           the same to look at, with a gallery of matches
    """
    from equipoise.algorithms import choose_device
    from equipoise.balance_job import balance_dataset, read_covariate_table
    from equipoise.balancer_checks import METHODS
    from equipoise.benchmark import parse_value
    from equipoise.checks import check_choice
    from equipoise.diagnosis import summarise_balance

    options = collect_options(
        path=path, label=label, environment=environment, features=features, image_size=image_size
    )
    chosen = _parse_parameters(choices or [])
    check_choice("method", method, (*METHODS, "all"))
    with plain_notes(balance):
        dataset = open_data(data, data_dir, options, verbose=not quiet)
    parameters: dict[str, Any] = {
        "balance_on": balance_on,
        "method": "match" if method == "all" else method,
        "exact": tuple(split_names(exact)),
        "n_matches": n_matches,
        "latent_dim": None if latent_dim is None else parse_value(latent_dim),
        "caliper": caliper,
        "metric": metric,
        "max_steps": steps,
        "random_state": seed,
        "device": choose_device(device),
        "n_jobs": n_jobs,
    }
    with plain_notes(balance):
        result = balance_dataset(
            dataset,
            output,
            leave_out=leave_out or (),
            covariates=read_covariate_table(
                dataset, data, split_names(covariates), covariate_table
            ),
            compare=method == "all",
            report=report,
            verbose=not quiet,
            **parameters | chosen,
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


# Parameters of CausalBalancer that have an option of their own.
OWN_OPTIONS = {
    "balance_on": "--balance-on",
    "method": "--method",
    "exact": "--exact",
    "n_matches": "--n-matches",
    "latent_dim": "--latent-dim",
    "caliper": "--caliper",
    "metric": "--metric",
    "max_steps": "--steps",
    "random_state": "--seed",
    "device": "--device",
    "n_jobs": "--n-jobs",
    "verbose": "--quiet",
}
WORDS, COUNTS = ("prior", "reading"), ("n_nearest", "reuse_max", "batch_size")


def split_names(names: str | None) -> list[str]:
    """Names that stand between commas."""
    return [name.strip() for name in (names or "").split(",") if name.strip()]


def _parse_parameters(choices: list[str]) -> dict[str, Any]:
    """`name=value` texts as parameters of CausalBalancer that have no option of their own."""
    from equipoise.balancer import CausalBalancer
    from equipoise.benchmark import parse_value
    from equipoise.checks import check_choice

    others = [name for name in CausalBalancer().get_params() if name not in OWN_OPTIONS]
    found = {}
    for choice in choices:
        name, equals, text = choice.partition("=")
        if name in OWN_OPTIONS:
            raise ValueError(f"--set does not take {name}: use {OWN_OPTIONS[name]}")
        check_choice("parameter", name, others)
        value = parse_value(text)
        if not equals or not _is_possible(name, value):
            raise ValueError(
                f"--set takes name=value, where {name} is {_describe(name)}; got {choice!r}"
            )
        found[name] = tuple(value) if isinstance(value, list) else value
    return found


def _is_possible(name: str, value: Any) -> bool:
    if name in WORDS:
        return isinstance(value, str)
    if name == "hidden":
        widths = value if isinstance(value, list) else [value]
        return value is None or all(type(width) is int for width in widths)
    if name in COUNTS:
        return type(value) is int or (value is None and name == "reuse_max")
    return isinstance(value, int | float) or (value is None and name == "tolerance")


def _describe(name: str) -> str:
    """What may follow `name=`."""
    from equipoise.latent import READINGS, PriorFamily

    if name == "hidden":
        return "a width of layers such as 64, or several such as [64,64]"
    if name in WORDS:
        words = tuple(PriorFamily.families) if name == "prior" else READINGS
        return "a word: " + ", ".join(("auto", *words))
    if name == "common_support":
        return "true, false or a number such as 0.1"
    return "a whole number" if name in COUNTS else "a number"
