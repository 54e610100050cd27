"""What a training step is given: one batch for each environment."""

from torch import Tensor

Batch = tuple[Tensor, Tensor]
"""Examples [N, …] and labels [N] of one environment."""


def check_batches(
    batches: list[Batch], *, n_environments: int, input_shape: tuple[int, ...]
) -> None:
    """Refuse batches that do not fit the algorithm, saying which and why."""
    if len(batches) != n_environments:
        raise ValueError(
            f"update needs one (x, y) for each of the {n_environments} training environments, "
            f"got {len(batches)}"
        )
    for environment, (x, y) in enumerate(batches):
        if len(x) != len(y) or len(y) == 0:
            raise ValueError(
                f"the batch of environment {environment} has {len(x)} examples and {len(y)} "
                "labels; both numbers must be equal and at least 1"
            )
        if tuple(x.shape[1:]) != input_shape:
            raise ValueError(
                f"the examples of environment {environment} have the shape "
                f"{tuple(x.shape[1:])}, the algorithm was built for {input_shape}"
            )
