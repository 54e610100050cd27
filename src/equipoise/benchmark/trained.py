"""A trained model brought back from its directory, its predictions, and its export."""

import json
import logging
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from equipoise.algorithms import (
    Algorithm,
    Featurizer,
    choose_device,
    get_algorithm,
    make_featurizer,
)
from equipoise.benchmark.data import find_environment
from equipoise.benchmark.directory import RunDescription, RunDirectory
from equipoise.benchmark.evaluation import BLOCK
from equipoise.benchmark.run import OWN_FEATURIZER
from equipoise.benchmark.settings import RunSettings
from equipoise.checks import check_choice, check_path, require
from equipoise.data import (
    align_features,
    as_source,
    get_dataset,
    read_features,
    read_frame,
    read_images,
)
from equipoise.files import check_regular, list_arrays, load_state, read_array, write_whole

# Without test data the balanced rule estimates accuracy elsewhere best.
PREFERRED = ("balanced", "train-domain")


class TrainedRun:
    """A model at the checkpoint that a selection rule chose.

    `predict` gives codes: positions in `label_names`. `MTL` and `ARM` look at the batch they
    predict, so give them examples of one environment at a time.
    """

    def __init__(
        self, description: RunDescription, algorithm: Algorithm, selection: str, step: int
    ) -> None:
        self.settings: RunSettings = description.settings
        self.label_names = description.label_names
        self.environment_names = description.environment_names
        self.input_shape, self.feature_names = description.input_shape, description.feature_names
        self.role_names = description.role_names
        self.algorithm, self.selection, self.step = algorithm, selection, step

    def predict(self, x: Any) -> NDArray[np.int64]:
        """The most probable label [N] of arrays, tensors, data frames or datasets."""
        return np.asarray(self.predict_proba(x).argmax(axis=1), dtype=np.int64)

    @torch.no_grad()
    def predict_proba(self, x: Any) -> NDArray[np.float64]:
        """The probability of every label [N, m]. uint8 is taken for pixels, as in training.

        Columns of a data frame are matched by name with those that the model was trained on.
        """
        source = as_source(align_features(x, self.feature_names))
        device = next(self.algorithm.parameters()).device
        blocks = []
        for start in range(0, len(source), BLOCK):
            rows = source.fetch(np.arange(start, min(start + BLOCK, len(source))))
            self._check_shape(rows.shape[1:])
            logits = self.algorithm.predict(rows.float().to(device))
            blocks.append(logits.double().softmax(dim=1).cpu().numpy())
        return np.concatenate(blocks) if blocks else np.zeros((0, len(self.label_names)))

    def _check_shape(self, shape: Sequence[int]) -> None:
        if tuple(shape) != self.input_shape:
            raise ValueError(
                f"an example has the shape {tuple(shape)}, the model was trained on "
                f"{self.input_shape}"
            )

    def __repr__(self) -> str:
        return (
            f"TrainedRun({self.settings.algorithm} on {self.settings.dataset}, "
            f"{self.settings.sampling} batches, step {self.step} chosen by {self.selection!r})"
        )


def load_run(
    path: str | Path,
    *,
    selection: str | None = None,
    device: str = "cpu",
    featurizer: Featurizer | None = None,
) -> TrainedRun:
    """Bring back the model of a run, at the checkpoint chosen by `selection`.

    By default that is "balanced" where it was kept, else "train-domain". A run with a network
    of your own needs it again as `featurizer`.
    """
    directory = RunDirectory(path)
    description = directory.describe()
    settings = description.settings
    if settings.featurizer == OWN_FEATURIZER and featurizer is None:
        raise ValueError(f"{path} was trained with a network of your own: give it as featurizer")
    chosen = _choose_selection(directory, selection)
    weights, facts = load_state(directory.best(chosen))
    left_out = {settings.test_environment, settings.validation_environment} - {None}
    algorithm = get_algorithm(settings.algorithm)(
        description.input_shape,
        len(description.label_names),
        len(description.environment_names) - len(left_out),
        # Without pretrained weights, which the run's own replace at once.
        featurizer=featurizer
        or partial(make_featurizer, network=settings.featurizer, pretrained=False),
        seed=settings.seed,
        **settings.hyperparameters,
    )
    algorithm.load_state_dict(weights)
    algorithm.to(choose_device(device)).eval()
    return TrainedRun(description, algorithm, chosen, int(facts["step"]))


def _choose_selection(directory: RunDirectory, selection: str | None) -> str:
    kept = directory.kept_selections()
    if not kept:
        raise ValueError(f"{directory.path} has no trained weights yet: let it reach a checkpoint")
    if selection is not None:
        return check_choice(f"selection rule for {directory.path}", selection, kept)
    return next((name for name in PREFERRED if name in kept), kept[0])


TABLES = (".csv", ".parquet")
INPUTS = (".npy", ".npz", *TABLES)
OUTPUTS = (".csv", ".parquet", ".npz")


@dataclass(frozen=True)
class Examples:
    """Examples, anything that `TrainedRun.predict` takes, and what to call each."""

    x: Any
    names: list[str]


def read_examples(
    path: str | Path,
    key: str | None = None,
    *,
    features: Sequence[str] | None = None,
    roles: Sequence[str] | None = None,
    images: str | None = None,
    image_size: Sequence[int] = (),
) -> Examples:
    """Read examples from an .npy, .npz, .csv or .parquet file, or a folder of .npy files.

    An .npz may hold several arrays: `key` says which, by default "x" or the only one. A table
    holds an example in each row, and its columns are matched by name with `features` if these
    are known, without those called as one of `roles`; or its column `images` names files of
    images. In a folder each file is one example, in order of names.
    """
    path = Path(path)
    if not path.exists():
        raise ValueError(f"there is no input {path}")
    if path.is_dir():
        return _read_folder(path)
    check_choice("kind of input", path.suffix, INPUTS)
    if images is not None:
        if path.suffix not in TABLES or len(image_size) != 2:
            what = "no table" if path.suffix not in TABLES else "for a model that takes no images"
            raise ValueError(f"path={images!r} names a column of images, but {path} is {what}")
        found = read_images(path, path=images, image_size=image_size)
        return Examples(found, list(found.paths or ()))
    if path.suffix in TABLES and features is not None:
        x = read_features(path, features, roles or ())
        return _number(x)
    x = _read(path, key)
    if x.ndim == 0:
        raise ValueError(f"{path} holds a single value; expected an array of examples, [N, …]")
    return _number(x)


def read_dataset(
    name: str,
    environment: str | None = None,
    *,
    data_dir: str | Path | None = None,
    data_seed: int = 0,
) -> Examples:
    """All examples of a registered dataset, or those of one environment."""
    dataset = get_dataset(name, data_dir=data_dir, data_seed=data_seed)
    rows = np.arange(len(dataset))
    if environment is not None:
        rows = np.flatnonzero(dataset.environments == find_environment(dataset, environment))
    return Examples(dataset.subset(rows), list(map(str, rows)))


def predict_table(run: TrainedRun, examples: Examples) -> pd.DataFrame:
    """A row for each example: its name, the predicted label, and every label's probability."""
    probabilities = run.predict_proba(examples.x)
    table = {
        "example": examples.names,
        "label": np.asarray(run.label_names)[probabilities.argmax(axis=1)],
        "probability": probabilities.max(axis=1),
    }
    table |= {f"p({name})": probabilities[:, i] for i, name in enumerate(run.label_names)}
    return pd.DataFrame(table)


def check_predictions(path: str | Path) -> None:
    """Refuse a file that `write_predictions` could not write."""
    path = Path(path)
    check_choice("kind of output", path.suffix, OUTPUTS)
    if path.is_dir():
        raise ValueError(f"{path} is a directory; name a file for the predictions")


def write_predictions(table: pd.DataFrame, path: str | Path) -> None:
    """Write a table of predictions whole, as .csv, .parquet or .npz by the name's ending."""
    path = Path(path)
    check_predictions(path)
    with write_whole(path) as temporary:
        if path.suffix == ".csv":
            table.to_csv(temporary, index=False)
        elif path.suffix == ".parquet":
            table.to_parquet(temporary, index=False)
        else:
            columns = [name for name in table.columns if name.startswith("p(")]
            texts = {name: table[name].to_numpy(dtype=str) for name in ("example", "label")}
            with temporary.open("wb") as file:
                np.savez(file, **texts, probabilities=table[columns].to_numpy())


def _number(x: Any) -> Examples:
    return Examples(x, list(map(str, range(len(x)))))


def _read(path: Path, key: str | None = None) -> NDArray[Any]:
    try:
        check_regular(path)
        if path.suffix == ".npy":
            return read_array(path)
        if path.suffix == ".npz":
            return read_array(path, _choose_key(list_arrays(path), key))
        if path.suffix == ".csv":
            _check_header(path)
        return np.asarray(read_frame(path).to_numpy(dtype=np.float32))
    except Exception as error:  # readers raise all kinds on damaged content
        raise ValueError(f"{path} cannot be read: {error}") from error


def _check_header(path: Path) -> None:
    """Refuse a table without names: its first example would be taken for them.

    Names that only count the columns, as pandas gives them, are names.
    """
    first = pd.read_csv(path, header=None, nrows=1).iloc[0].tolist()
    numbers = all(isinstance(value, int | float) for value in first)
    if numbers and first != list(range(len(first))):
        raise ValueError(
            f"its first row must name the columns, but holds the numbers {first[:3]} …; add a row "
            "of names (and leave out a column that only counts the rows)"
        )


def _choose_key(names: list[str], key: str | None) -> str:
    if key is not None:
        return check_choice("array", key, names)
    found = names if len(names) == 1 else [name for name in ("x", "X") if name in names]
    if found:
        return found[0]
    raise ValueError(f"it holds the arrays {', '.join(names)}; say which with key")


def _read_folder(path: Path) -> Examples:
    files = sorted(path.glob("*.npy"))
    if not files:
        raise ValueError(f"the folder {path} has no .npy files; each should hold one example")
    rows = [_read(file) for file in files]
    shapes = {row.shape for row in rows}
    if len(shapes) > 1:
        raise ValueError(f"the examples in {path} differ in shape: {sorted(shapes)}")
    return Examples(np.stack(rows), [file.name for file in files])


EXPORTS = {"onnx": ".onnx", "torch": ".pt2"}


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
    check_choice("format", format, EXPORTS)
    path = check_path("path", path)
    if path.suffix != EXPORTS[format]:
        raise ValueError(f"a file of the format {format} ends in {EXPORTS[format]}, got {path}")
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
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # torch's notes on packages that are not needed here
    with warnings.catch_warnings(), ExitStack() as stack:
        stack.callback(logging.disable, before)
        warnings.simplefilter("ignore")  # of torch about itself
        try:
            program = torch.export.export(network, (example,), dynamic_shapes=(rows,))
        except Exception as error:  # whatever a network does that cannot be traced
            raise ValueError(f"the network of {run!r} cannot be exported: {error}") from error
        with write_whole(path) as temporary:
            if format == "torch":
                files: dict[str, Any] = {f"{name}.json": text for name, text in facts.items()}
                torch.export.save(program, temporary, extra_files=files)
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
