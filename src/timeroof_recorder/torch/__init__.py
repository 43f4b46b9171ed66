"""PyTorch's instruments, and what torch's events are called: causes of idle time, phases, kernels.

Nothing of torch is imported before `make` is called.
"""

from __future__ import annotations

from timeroof_recorder.instruments import STATED, Instruments

ENGINE = "autograd::engine::evaluate_function"
OPTIMIZER = ("Optimizer.step#", "Optimizer.zero_grad#")
DATA = "enumerate(DataLoader)"
# How torch.distributed names what its backends do.
COLLECTIVES = ("gloo:", "mpi:", "ucc:", "nccl:")
# Annotations of ours around the program's ops.
MODULE, SOURCE, COST = "timeroof#module#", "timeroof#source#", "timeroof#cost#"
GRAPH = "timeroof#graph#"
# Ops of ours that do nothing: an execution trace keeps the tensors that they are given.
MARKS = "timeroof_marks"
KERNEL, MADE = f"{MARKS}::kernel", f"{MARKS}::made"

_KERNELS = ("graph_", "cpp_fused_", "triton_")
# Events of Dynamo's and AOTAutograd's wrappers around compiled code.
_GLUE = (
    "TorchDynamo Cache Lookup",
    "Torch-Compiled Region",
    "Pregraph bytecode",
    "AOTDispatcher Runtime Wrapper",
    "CompiledFunction",
    "## Call CompiledFxGraph",
)
# Events of the dispatcher around the Python code of a mode (FlopCounterMode) or a tensor's class.
_HANDED_TO_PYTHON = ("PythonDispatchMode", "PythonSubclass")


def is_compiled(name: str) -> bool:
    """Whether an event is a kernel of Inductor.

    >>> is_compiled("graph_0_cpp_fused_add_0"), is_compiled("aten::add")
    (True, False)
    """
    return name.startswith(_KERNELS) and not name.endswith("_inductor_wrapper_call")


def is_glue(name: str, sequence: int = -1) -> bool:
    """Whether an event only surrounds others: a wrapper of compiled code, a Python function.

    Functions of autograd that are written in Python bear their class's name and a number of
    autograd's; ops have a name space (``aten::mm``).

    >>> is_glue("CompiledFunction"), is_glue("aten::mm", 3), is_glue("MyFunction", 3)
    (True, False, True)
    """
    if is_handed_to_python(name) or name.startswith(_GLUE):
        return True
    return sequence >= 0 and ":" not in name and not is_compiled(name)


def is_handed_to_python(name: str) -> bool:
    """Whether an event is the dispatcher's, around Python code that an op was handed to."""
    return name in _HANDED_TO_PYTHON


def phase_of_name(name: str) -> str | None:
    """The phase that an event's name opens for everything below it.

    >>> phase_of_name("Optimizer.step#SGD.step"), phase_of_name("aten::mm")
    ('optimizer', None)
    """
    if name.startswith(ENGINE):
        return "backward"
    if name.startswith(OPTIMIZER):
        return "optimizer"
    return "data" if name.startswith(DATA) else None


def cause_of_name(name: str, is_numbered: bool) -> str | None:
    """The idle cause that an event's own time goes to; None where it is an op.

    >>> cause_of_name("gloo:all_reduce", False), cause_of_name("aten::mm", True)
    ('communication', None)
    """
    if name.startswith(COST):
        return STATED
    if name.startswith(DATA):
        return "data"
    if name.startswith(COLLECTIVES):
        return "communication"
    if is_handed_to_python(name):
        return "dispatch"
    if name.startswith(ENGINE):
        return "autograd"
    return "python" if is_glue(name, 0 if is_numbered else -1) else None


def make() -> Instruments:
    """The instruments of the torch that this process has imported."""
    from timeroof_recorder.torch.session_instruments import TorchInstruments

    return TorchInstruments()
