"""A function of the user's in PyTorch: what it returned as a workload, and what it left changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from timeroof.study import case as k
from timeroof.study.case import Case, Kernel, Setting, Workload
from timeroof.study.worker.counting import Used
from timeroof.study.worker.own import Made, Own, OwnError, leak_labels
from timeroof.study.worker.torch_passes import every_tensor

if TYPE_CHECKING:
    import torch

PASSES = {
    k.FORWARD: "what make returned, called once: a module without recording gradients, a function"
    " without inputs as it is written",
    k.BACKWARD: "the gradients of inputs and weights from a given gradient of the results; the"
    " forward pass ran before and is not in the time",
    k.BACKWARD_INPUT: "the gradients of the inputs alone; the forward pass is not in the time",
    k.BACKWARD_WEIGHT: "the gradients of the weights alone; the forward pass is not in the time",
}


class OwnKernel:
    """A user's function as a kernel of a study."""

    def __init__(self, own: Own) -> None:
        self._own = own
        # What making a case left changed, by name of the setting.
        self._left: dict[str, str] = {}
        self.kernel = Kernel(
            own.name,
            (),
            self._prepare,
            PASSES,
            contraction=lambda params, pass_name: None,
            precisions=("",),
            variants=k.COMMON_VARIANTS,
        )

    def _prepare(self, given: Setting) -> Workload:
        with same_state(self._left):
            return workload(self._own.made(given.params), given.device)

    def labels(self, case: Case, count: Used, again: Callable[[Case], Used]) -> dict[str, str]:
        """What a case leaves behind for the next one, as far as it shows."""
        settings = [f"torch's {name} at {value}" for name, value in self._left.items()]
        return leak_labels(self._own, settings, case, count, again)


def workload(made: Made, device: str) -> Workload:
    """What a user's function returned, as the study's own kernels are."""
    import torch

    function = partial(made.function, **made.named) if made.named else made.function
    weights: tuple[torch.Tensor, ...] = ()
    if isinstance(made.function, torch.nn.Module):
        weights = tuple(made.function.parameters())
    held = every_tensor((made.inputs, dict(made.named), weights, held_by(made.function)))
    check_devices(held, device)
    return Workload(
        lambda: made.inputs,
        function,
        weights or tuple(t for t in held if t.requires_grad and t.is_leaf),
        as_written=made.bare,
        all_leaves=True,
    )


def check_devices(tensors: list[torch.Tensor], device: str) -> None:
    """Refuse tensors that lie elsewhere than the case says, or nowhere."""
    kind = device.partition(":")[0]
    for found in dict.fromkeys(t.device.type for t in tensors):
        if found == "meta":
            raise OwnError("its tensors are on the device meta and hold no data", "use the CPU")
        if found != kind:
            raise OwnError(
                f"its tensors are on {found}, the case is for {kind}", f"--device {found}"
            )


def held_by(function: Callable[..., Any]) -> list[Any]:
    """What a function carries with it: bound arguments, its object, variables around it."""
    if isinstance(function, partial):
        return [*function.args, *function.keywords.values(), *held_by(function.func)]
    cells = [c.cell_contents for c in getattr(function, "__closure__", None) or () if _filled(c)]
    defaults = [*(getattr(function, "__defaults__", None) or ())]
    return [*cells, *defaults, getattr(function, "__self__", None)]


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # a variable that was never set
        return False


@contextmanager
def same_state(left: dict[str, str]) -> Iterator[None]:
    """Put back what torch keeps for the whole process; what was changed stands in `left`."""
    before = {name: get() for name, (get, _) in _state().items()}
    try:
        yield
    finally:
        for name, (get, put) in _state().items():
            now = get()
            if now != before[name]:
                left[name] = str(now)
                put(before[name])


def _state() -> Mapping[str, tuple[Callable[[], Any], Callable[[Any], object]]]:
    import torch

    return {
        "default dtype": (torch.get_default_dtype, torch.set_default_dtype),
        "default device": (torch.get_default_device, torch.set_default_device),
        "grad mode": (torch.is_grad_enabled, torch.set_grad_enabled),
        "number of threads": (torch.get_num_threads, torch.set_num_threads),
        "deterministic mode": (
            torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms,
        ),
        "matmul precision": (
            torch.get_float32_matmul_precision, torch.set_float32_matmul_precision,
        ),
    }  # fmt: skip
