"""`equipoise demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.errors import plain_errors


@plain_errors
def demo(
    dataset: Annotated[str, typer.Option(help="What to run it on.")] = "ColoredMNIST10",
    steps: Annotated[
        int | None, typer.Option(min=1, help="Training steps of each run; the recipe's if not set.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of model, batches and network.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="A quarter of the steps.")] = False,
    output: Annotated[Path, typer.Option(help="Directory for pictures and results.json.")] = Path(
        "demo"
    ),
    data_dir: Annotated[
        Path | None, typer.Option(help="Where the raw MNIST files lie; else EQUIPOISE_DATA.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, …")] = "cpu",
) -> None:
    """Watch balancing work: learn Z, match, train with random and with balanced batches."""
    from equipoise.demo import run_demo

    run_demo(
        output,
        dataset=dataset,
        steps=steps,
        seed=seed,
        quick=quick,
        data_dir=data_dir,
        device=device,
    )
