"""Names in traces that are no ops: autograd nodes, optimizer steps, markers.

They only call ops, which are recorded below them. Their own time on a CPU is
bookkeeping; a device kernel that is linked to nothing better than them is unknown.
"""

from __future__ import annotations

import re

from timeroof.work.call import Call
from timeroof.work.cost import Cost
from timeroof.work.registry import Rule, pattern

BOOKKEEPING = Cost(free=True, composite=True, notes=("only calls other ops",))

_NAMES = re.compile(
    r"""^(
        autograd::engine::evaluate_function:.*
      | torch::autograd::(AccumulateGrad|CopySlices|CopyBackwards|GraphRoot|Error)
      | [A-Z]\w*Backward\d+
      | Optimizer\.\w+\#.*
      | ProfilerStep.*
      | enumerate\(DataLoader\).*
      | DistributedDataParallel\..*
      | FullyShardedDataParallel\..*
      | (FSDP|fsdp)::.*
      | Torch-Compiled\ Region.*
      | \#\#\ Call\ CompiledFxGraph.*
      | (CompiledFunction|CompiledFunctionBackward)
      | TorchDynamo\ Cache\ Lookup
      | AOTDispatcher\ .*
      | nn\.Module:.*
      | Pregraph\ bytecode
      | Memcpy\ \w+\ marker
      | torch::jit::.*
      | Iteration\ Start:.*
      | \[pl\].*
      | _NoopSaveInputs
      | profiler::_record_function.*
    )$""",
    re.VERBOSE,
)


def bookkeeping(call: Call) -> Cost:
    """No work of its own."""
    return BOOKKEEPING


_RULE = Rule(bookkeeping, (), True, True)


@pattern
def by_name(name: str) -> Rule | None:
    """Bookkeeping, where the name is that of an autograd node or a marker."""
    return _RULE if _NAMES.match(name) else None
