"""From an op and its shapes to amounts: FLOPs by precision and compulsory bytes."""

from timeroof.work.call import Call, Tensor, Unrecorded
from timeroof.work.cost import FREE, Cost, amounts
from timeroof.work.counting import cost_of, count, kernel_cost, own_costs
from timeroof.work.recorded import call_from_kineto
from timeroof.work.registry import formula

__all__ = [
    "FREE",
    "Call",
    "Cost",
    "Tensor",
    "Unrecorded",
    "amounts",
    "call_from_kineto",
    "cost_of",
    "count",
    "formula",
    "kernel_cost",
    "own_costs",
]
