"""Words with one meaning everywhere: what readers write, rules ask for and views show."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class IdleCause(StrEnum):
    """Why nothing ran: on a device between two kernels, on a CPU between two ops."""

    # The host issued the work too late.
    LAUNCH_STARVED = "launch-starved"
    # The host waited for the device, and only then issued more.
    HOST_SYNC = "host-sync"
    # Issued in time, after work of another stream.
    OTHER_STREAM = "other-stream"
    # The host was fetching data.
    DATA = "data"
    # Issued in time, same stream: the device's own time between two kernels.
    DEVICE = "device"
    # On a CPU: the program itself, between its ops.
    PYTHON = "python"
    # The autograd engine's own time.
    AUTOGRAD = "autograd"
    # Ops without work of their own: views, allocation, ops that only call others.
    DISPATCH = "dispatch"
    # The framework's runtime: executors, queues, threads that hand work on.
    RUNTIME = "runtime"
    COMPILE = "compile"
    # The stepping thread does not want a CPU: sleep, files, the network, locks.
    ASLEEP = "asleep"
    # The stepping thread wants a CPU and gets none.
    CPU_WAIT = "cpu-wait"
    # Nothing runs but a collective in a thread of its library: waiting for other ranks.
    COMMUNICATION = "communication"
    # The measuring itself.
    PROFILER = "profiler"
    # No launch is known.
    UNKNOWN = "unknown"


class FrameworkName(StrEnum):
    """Frameworks whose programs are measured, and whose words advice is written in."""

    TORCH = "torch"
    TENSORFLOW = "tensorflow"
    JAX = "jax"


class OpFamily(StrEnum):
    """What an op or a kernel does, in one word that names of all frameworks lead to."""

    PRODUCT = "product"
    BATCHED_PRODUCT = "batched product"
    CONVOLUTION = "convolution"
    ATTENTION = "attention"
    RECURRENT = "recurrent"
    # The same elements in another place; in another order or layout. No arithmetic.
    COPY = "copy"
    LAYOUT = "layout"
    BATCH_NORM = "batch norm"
    NORM = "norm"
    SOFTMAX = "softmax"
    MAX_POOL = "max pool"
    POOLING = "pooling"
    LOSS = "loss"
    OPTIMIZER = "optimizer"
    INDEXING = "indexing"
    INTERPOLATION = "interpolation"
    REDUCTION = "reduction"
    # One output element per input element.
    ELEMENTWISE = "elementwise"
    COMMUNICATION = "communication"


# What runs that were saved by older versions call them.
_FORMER = {
    "dispatcher": IdleCause.DISPATCH,
    "data loading": IdleCause.DATA,
    "outside ops": IdleCause.UNKNOWN,
}


def idle_cause(word: str) -> IdleCause:
    """The cause that a saved word means; one that nobody knows is unknown.

    >>> idle_cause("host-sync"), idle_cause("dispatcher").value, idle_cause("magic").value
    (<IdleCause.HOST_SYNC: 'host-sync'>, 'dispatch', 'unknown')
    """
    try:
        return IdleCause(word)
    except ValueError:
        return _FORMER.get(word, IdleCause.UNKNOWN)


def known_causes(seconds: Mapping[str, float]) -> dict[str, float]:
    """Seconds by saved words as seconds by cause.

    >>> known_causes({"dispatcher": 1.0, "magic": 2.0, "unknown": 0.5})
    {'dispatch': 1.0, 'unknown': 2.5}
    """
    found: dict[str, float] = {}
    for word, value in seconds.items():
        cause = idle_cause(word).value
        found[cause] = found.get(cause, 0.0) + value
    return found
