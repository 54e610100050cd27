"""`equipoise theory`: the paper's theorems, run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise.cli.errors import plain_errors

app = typer.Typer(
    name="theory",
    help="Run the paper's theorems as experiments: each ends in a table, a plot and a sentence.",
    epilog="Example: equipoise theory minimax --quick --output theory/minimax",
    no_args_is_help=True,
)

Seed = Annotated[int, typer.Option(min=0, help="The first seed; every draw follows from it.")]
Quick = Annotated[bool, typer.Option("--quick", help="Small sizes: a look, not a result.")]
Jobs = Annotated[int, typer.Option(help="Processes side by side; -1 takes every core.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress, no table.")]
Output = Annotated[Path, typer.Option(help="Directory of records, tables and plot; goes on there.")]


@app.command(epilog="Example: equipoise theory identifiability --jobs 2 --output theory/z")
@plain_errors
def identifiability(
    seed: Seed = 0,
    output: Output = Path("theory/identifiability"),
    quick: Quick = False,
    jobs: Jobs = 1,
    quiet: Quiet = False,
) -> None:
    """Theorem 3.3: is Z recovered from enough environments, and only then?"""
    from equipoise.theory import run_identifiability

    _carry_out(run_identifiability, output, seed, quick, jobs, quiet)


@app.command(epilog="Example: equipoise theory balance --seed 1 --output theory/balance")
@plain_errors
def balance(
    seed: Seed = 0,
    output: Output = Path("theory/balance"),
    quick: Quick = False,
    jobs: Jobs = 1,
    quiet: Quiet = False,
) -> None:
    """Theorems 3.6 and 3.7: which functions balance, and what share each label gets in batches."""
    from equipoise.theory import run_balance

    _carry_out(run_balance, output, seed, quick, jobs, quiet)


@app.command(epilog="Example: equipoise theory minimax --quick --output theory/minimax")
@plain_errors
def minimax(
    seed: Seed = 0,
    output: Output = Path("theory/minimax"),
    quick: Quick = False,
    jobs: Jobs = 1,
    quiet: Quiet = False,
) -> None:
    """Theorem 2.4: has the balanced Bayes classifier the least worst-case risk?"""
    from equipoise.theory import run_minimax

    _carry_out(run_minimax, output, seed, quick, jobs, quiet)


def _carry_out(
    run: Callable[..., Any], output: Path, seed: int, quick: bool, jobs: int, quiet: bool
) -> None:
    from rich.console import Console

    if jobs == 0:
        raise ValueError("--jobs 0 leaves nobody to work: give 1 or more, or -1 for every core")
    if output.exists() and not output.is_dir():
        raise ValueError(f"{output} is a file: --output must name a directory")
    outcome = run(output, seed=seed, quick=quick, n_jobs=jobs, verbose=not quiet)
    if not quiet:
        console = Console()
        outcome.show(console)
        console.print(f"records, tables and plot are in {output}/", highlight=False)
