"""What a resumed run needs, as flat tensors and plain values: safetensors and JSON, no pickle."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer


@dataclass(frozen=True)
class TrainingState:
    """Tensors (for safetensors) and values (for JSON) that together restore a training."""

    tensors: dict[str, Tensor]
    values: dict[str, Any]


def copy_tensor(tensor: Tensor) -> Tensor:
    """A copy that owns its memory, as safetensors asks for."""
    return tensor.detach().clone().contiguous()


def module_tensors(module: nn.Module, prefix: str) -> dict[str, Tensor]:
    """Copies of a module's weights and buffers, each name with ``prefix``."""
    return {prefix + name: copy_tensor(value) for name, value in module.state_dict().items()}


def take(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names start with ``prefix``, without it."""
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def optimizer_tensors(optimizer: Optimizer, prefix: str) -> dict[str, Tensor]:
    """An optimiser's moments as ``prefix + "<parameter number>.<moment>"``."""
    return {
        f"{prefix}{number}.{key}": copy_tensor(value)
        for number, parameter in enumerate(_parameters(optimizer))
        for key, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def load_optimizer(optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put moments written by `optimizer_tensors` (prefix taken off) back in place."""
    parameters = _parameters(optimizer)
    optimizer.state.clear()
    for name, value in tensors.items():
        number, key = name.split(".", 1)
        if int(number) >= len(parameters):
            raise ValueError(
                f"the saved optimiser has a parameter number {number}, this one only "
                f"{len(parameters)} parameters; was the run started with another network?"
            )
        parameter = parameters[int(number)]
        optimizer.state[parameter][key] = value.to(parameter.device, copy=True)


def _parameters(optimizer: Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
