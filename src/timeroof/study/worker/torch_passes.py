"""What the timed part of each pass is: a function without arguments, everything else done.

Of a function of the user's: what it returned as a workload, and what it left changed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from timeroof.study import case as k
from timeroof.study.case import Workload
from timeroof.study.worker.own import OwnError

if TYPE_CHECKING:
    import torch

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from timeroof.study.case import Case, Kernel, Setting
from timeroof.study.worker.counting import Used
from timeroof.study.worker.own import Made, Own, leak_labels

if TYPE_CHECKING:
    import torch


AUTOCAST = "-autocast"
_DTYPES = {
    "fp64": "float64", "fp32": "float32", "tf32": "float32", "bf16": "bfloat16",
    "fp16": "float16", "int8": "int8",
}  # fmt: skip
CUDA_ONLY = {"graph": "CUDA graphs", "cudnn-benchmark": "cuDNN's search for an algorithm"}
_COMPILERS = ("g++", "c++", "clang++")
COMPILES = (*k.COMPILED, "cell-loop-compile")
# Entered around the forward pass.
Context = Callable[[], AbstractContextManager[object]]
Function = Callable[..., Any]


@dataclass
class Runnable:
    """One execution of a pass, the bytes of what it works on, and of what it reads of them."""

    run: Callable[[], object]
    working_set_bytes: int
    # None where it was not looked at.
    input_bytes: int | None = None


def runnable(
    workload: Workload, pass_name: str, context: Context, function: Function | None = None
) -> Runnable:
    """Make a pass ready to be run."""
    called = function or workload.function
    if pass_name == k.CALIBRATE:
        return Runnable(workload.make_inputs, _bytes(workload.make_inputs()))
    if pass_name == k.FORWARD:
        return _forward(workload, context, called)
    if pass_name == k.OPTIMIZER:
        return _optimizer(workload, called)
    return _gradients(workload, pass_name, context, called)


def _forward(w: Workload, context: Context, function: Function) -> Runnable:
    import torch

    inputs = w.make_inputs()
    if w.as_written:
        return Runnable(function, _bytes((w.weights, function())))

    def run() -> object:
        with torch.no_grad(), context():
            return function(*inputs)

    read = _bytes((inputs, w.weights))
    return Runnable(run, _bytes((inputs, w.weights, run())), read)


def _gradients(w: Workload, name: str, context: Context, function: Function) -> Runnable:
    """Gradients by torch.autograd.grad: nothing is added up in `.grad`."""
    import torch

    inputs = w.make_inputs()
    learned = [i.requires_grad_() for i in every_tensor(inputs) if i.is_floating_point()]
    wanted = [
        *(learned if name != k.BACKWARD_WEIGHT else ()),
        *(w.weights if name != k.BACKWARD_INPUT else ()),
    ]
    if not wanted and not w.all_leaves:
        raise NotImplementedError("nothing here has a gradient in this number format")
    # What is not asked for has no place in the graph: no work is done for it.
    for tensor in (*learned, *w.weights):
        tensor.requires_grad_(any(tensor is one for one in wanted))
    with context():
        results = [r for r in every_tensor(function(*inputs)) if r.requires_grad]
    if w.all_leaves:
        wanted = [t for t in _leaves(results) if _is_wanted(t, name, learned)]
    if not results or not wanted:
        raise NotImplementedError(
            "its results depend on nothing that has a gradient: return (function, inputs), or"
            " tensors with requires_grad"
        )
    given = [torch.randn_like(result) for result in results]

    def run() -> object:
        return torch.autograd.grad(results, wanted, given, retain_graph=True)

    try:
        first = run()
    except RuntimeError as error:
        if "second time" not in str(error):
            raise
        what = "it runs a backward pass itself, so that no gradient is left to take"
        raise OwnError(what, "--pass forward measures all of it") from error
    return Runnable(run, _bytes((inputs, w.weights, given, first)))


def _is_wanted(tensor: torch.Tensor, pass_name: str, learned: list[torch.Tensor]) -> bool:
    is_input = any(tensor is one for one in learned)
    return {k.BACKWARD_INPUT: is_input, k.BACKWARD_WEIGHT: not is_input}.get(pass_name, True)


def _leaves(results: list[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors that results were computed from and that have a gradient."""
    waiting: list[Any] = [result.grad_fn for result in results]
    seen: dict[Any, None] = {}
    found: dict[int, torch.Tensor] = {}
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen[node] = None
        if hasattr(node, "variable"):
            found[id(node.variable)] = node.variable
        waiting += [before for before, _ in node.next_functions]
    return list(found.values())


def _optimizer(w: Workload, function: Function) -> Runnable:
    import torch

    make = w.make_optimizer or (lambda tensors: torch.optim.SGD(tensors, lr=1e-3))
    for tensor in w.weights:
        tensor.grad = torch.randn_like(tensor)
    optimizer = make(w.weights)
    step: Function = optimizer.step
    if w.compiled and function is w.function:
        step = torch.compile(optimizer.step, dynamic=False)
    step()
    states = [v for state in optimizer.state.values() for v in state.values()]
    return Runnable(step, _bytes((w.weights, [t.grad for t in w.weights], states)))


def _bytes(values: object) -> int:
    import torch

    every = every_tensor(values)
    storages = [t.untyped_storage() for t in every if t.layout == torch.strided]
    # What oneDNN holds in a layout of its own shows no memory: it has as many elements.
    opaque = sum(t.numel() * t.element_size() for t in every if t.is_mkldnn)
    return opaque + sum({s.data_ptr(): s.nbytes() for s in storages}.values())


def every_tensor(values: object) -> list[torch.Tensor]:
    """The tensors in nested values, each once; a module's are its parameters and buffers."""
    import torch

    found: dict[int, torch.Tensor] = {}
    waiting, seen = [values], set[int]()
    while waiting:
        value = waiting.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            found[id(value)] = value
        elif isinstance(value, torch.nn.Module):
            waiting += [*value.parameters(), *value.buffers()]
        elif isinstance(value, Mapping):
            waiting += list(value.values())
        elif isinstance(value, tuple | list):
            waiting += list(value)
    return list(found.values())


def tensor_dtype(precision: str) -> torch.dtype:
    """The format of inputs and weights: fp32 where autocast converts them."""
    import torch

    name = "float32" if precision.endswith(AUTOCAST) else _DTYPES.get(precision, "float32")
    dtype: torch.dtype = getattr(torch, name)
    return dtype


def computing(precision: str, device: str) -> AbstractContextManager[object]:
    """The context that a case runs in."""
    import torch

    kind = device.partition(":")[0]
    if precision.endswith(AUTOCAST):
        return torch.autocast(kind, dtype=getattr(torch, _DTYPES[precision.removesuffix(AUTOCAST)]))
    return _tf32(precision == "tf32") if kind == "cuda" and precision else nullcontext()


def _tf32(allowed: bool) -> AbstractContextManager[object]:
    """fp32 is fp32 and TF32 is TF32: torch's defaults differ between products and cuDNN."""
    import torch

    stack = ExitStack()
    backends: Any = torch.backends
    for home in (backends.cuda.matmul, backends.cudnn):
        stack.callback(setattr, home, "allow_tf32", home.allow_tf32)
        home.allow_tf32 = allowed
    return stack


def why_unsupported(precision: str, variant: str, device: str) -> str | None:
    """Why a precision or a variant cannot run on a device; None where both can, or may."""
    if precision == "tf32" and not device.startswith("cuda"):
        return "TF32 is a format of NVIDIA's matrix units; this device has none"
    if variant in CUDA_ONLY and not device.startswith("cuda"):
        return f"{CUDA_ONLY[variant]} need a CUDA device; this case runs on {device}"
    if variant == "no-onednn" and device != "cpu":
        return "oneDNN is a library for CPUs"
    if variant in COMPILES and device == "cpu" and not any(map(shutil.which, _COMPILERS)):
        return "torch.compile needs a C++ compiler (g++) and there is none"
    return None


def setting(variant: str) -> AbstractContextManager[object]:
    """The state of torch that a variant needs while it is made ready and run."""
    import torch

    backends: Any = torch.backends
    flags: dict[str, Function] = {
        "no-onednn": lambda: backends.mkldnn.flags(enabled=False),
        "cudnn-benchmark": lambda: backends.cudnn.flags(enabled=True, benchmark=True),
    }
    found: AbstractContextManager[object] = flags.get(variant, nullcontext)()
    return found


def prepare_compiling() -> None:
    """Settings that compiled cases need: a graph that may be run backward again and again."""
    import torch._functorch.config as functorch
    import torch._inductor.config as inductor

    functorch.donated_buffer = False
    inductor.cpp.enable_kernel_profile = True


def compiled(variant: str, workload: Workload) -> Workload:
    """The workload with its function compiled where the variant says so."""
    import torch

    if workload.compiled or variant not in k.COMPILED:
        return workload
    mode = "max-autotune" if variant == "max-autotune" else None
    function = torch.compile(workload.function, dynamic=False, mode=mode)
    return replace(workload, function=function, compiled=True, eager=workload.function)


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
