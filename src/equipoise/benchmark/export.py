"""A trained network as one file for other programs, with the names of its labels."""

from __future__ import annotations

import json
import logging
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from equipoise.algorithms import Algorithm
from equipoise.benchmark.trained import TrainedRun
from equipoise.checks import check_choice, check_path, require
from equipoise.files import write_whole

FORMATS = {"onnx": ".onnx", "torch": ".pt2"}


class Predictor(nn.Module):
    """The network as `TrainedRun.predict_proba` uses it: examples -> probabilities [N, m]."""

    def __init__(self, algorithm: Algorithm) -> None:
        super().__init__()
        self.algorithm = algorithm

    def forward(self, x: Tensor) -> Tensor:
        return self.algorithm.predict(x).softmax(dim=1)


def export_run(run: TrainedRun, path: str | Path, *, format: str = "onnx") -> Path:
    """Write the network of a run with its labels.

    Parameters
    ----------
    run : TrainedRun
        As `load_run` gives it.
    path : str or Path
        The file, .onnx or .pt2.
    format : str
        "onnx" for ONNX Runtime and its like, labels under the metadata key `labels`; "torch" for
        `torch.export.load`, labels as the extra file `labels.json`. Pixels are in 0…1.
    """
    check_choice("format", format, FORMATS)
    path = check_path("path", path)
    if path.suffix != FORMATS[format]:
        raise ValueError(f"a file of the format {format} ends in {FORMATS[format]}, got {path}")
    if path.is_dir():
        raise ValueError(f"{path} is a directory; name a file")
    facts = {
        "labels": json.dumps(list(run.label_names)),
        "features": json.dumps(run.feature_names and list(run.feature_names)),
        "equipoise": repr(run),
    }
    if format == "onnx":
        onnx = require("onnx", extra="onnx")
        require("onnxscript", extra="onnx")
    example = torch.zeros(2, *run.input_shape)
    rows = {0: torch.export.Dim.DYNAMIC}
    network = Predictor(run.algorithm).cpu().eval()
    with warnings.catch_warnings(), _quiet_logs():
        warnings.simplefilter("ignore")  # of torch about itself
        try:
            program = torch.export.export(network, (example,), dynamic_shapes=(rows,))
        except Exception as error:  # whatever a network does that cannot be traced
            raise ValueError(f"the network of {run!r} cannot be exported: {error}") from error
        with write_whole(path) as temporary:
            if format == "torch":
                torch.export.save(program, temporary, extra_files=_name_files(facts))
                return path
            made = torch.onnx.export(
                program,
                dynamo=True,
                input_names=["x"],
                output_names=["probabilities"],
                verbose=False,
            )
            assert made is not None  # as of every call without a file
            model = made.model_proto
            onnx.helper.set_model_props(model, facts)
            temporary.write_bytes(model.SerializeToString())
    return path


def _name_files(facts: dict[str, str]) -> dict[str, Any]:
    return {f"{name}.json": text for name, text in facts.items()}


class _quiet_logs:
    """Without torch's notes on packages that are not needed here."""

    def __enter__(self) -> None:
        self._before = logging.root.manager.disable
        logging.disable(logging.WARNING)

    def __exit__(self, *_: object) -> None:
        logging.disable(self._before)
