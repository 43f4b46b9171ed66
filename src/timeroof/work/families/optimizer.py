"""Optimizer steps: fused ones by their own formulas, foreach ones as lists of single ops.

FLOPs per parameter by the update's definition, weight decay included where it is on:
SGD 2 (momentum 2 more, Nesterov 2 more); Adam: first moment 3, second moment 4, root,
correction and epsilon 3, step 3; Adagrad 5.
"""

from __future__ import annotations

import msgspec

from timeroof.work.call import Arg, Call, Tensor, UncountableError, Unrecorded, number, tensors
from timeroof.work.cost import Cost, cost, together
from timeroof.work.registry import Rule, find_rule, formula, pattern

SGD_FLOPS, MOMENTUM_FLOPS, NESTEROV_FLOPS, DECAY_FLOPS = 2, 2, 2, 2
ADAM_FLOPS, AMSGRAD_FLOPS, ADAGRAD_FLOPS = 13, 1, 5


def _listed(value: Arg, what: str) -> tuple[Tensor, ...]:
    """Tensors of a list that may be empty; an empty list is recorded like a missing one."""
    if value is None or isinstance(value, Unrecorded) or value == ():
        return ()
    return tensors(value, what)


def _count(listed: tuple[Tensor, ...]) -> int:
    return sum(t.count for t in listed)


@formula("aten::_fused_adam", "aten::_fused_adamw")
def fused_adam(
    params: Arg, grads: Arg, exp_avgs: Arg, exp_avg_sqs: Arg, max_exp_avg_sqs: Arg = (),
    state_steps: Arg = (), lr: Arg = None, beta1: Arg = None, beta2: Arg = None,
    weight_decay: Arg = 0.0,
) -> Cost:  # fmt: skip
    """Adam or AdamW in one kernel: four tensors read,
    three written (five and four with amsgrad)."""
    p, g = tensors(params, "the parameters"), tensors(grads, "the gradients")
    moments = (*tensors(exp_avgs, "the moments"), *tensors(exp_avg_sqs, "the moments"))
    largest = _listed(max_exp_avg_sqs, "the largest moments")
    flops = (
        ADAM_FLOPS + AMSGRAD_FLOPS * bool(largest) + DECAY_FLOPS * (number(weight_decay, 0) != 0)
    )
    return cost([*p, *g, *moments, *largest], [*p, *moments, *largest], other=flops * _count(p))


@formula("aten::_fused_sgd")
def fused_sgd(
    params: Arg, grads: Arg, momentum_buffers: Arg = (), weight_decay: Arg = 0.0,
    momentum: Arg = 0.0, lr: Arg = None, dampening: Arg = 0.0, nesterov: Arg = False,
) -> Cost:  # fmt: skip
    """SGD in one kernel."""
    p, g = tensors(params, "the parameters"), tensors(grads, "the gradients")
    buffers = _listed(momentum_buffers, "the momenta")
    flops = SGD_FLOPS + MOMENTUM_FLOPS * bool(buffers) + NESTEROV_FLOPS * (nesterov is True)
    flops += DECAY_FLOPS * (number(weight_decay, 0) != 0)
    return cost([*p, *g, *buffers], [*p, *buffers], other=flops * _count(p))


@formula("aten::_fused_adagrad")
def fused_adagrad(params: Arg, grads: Arg, sums: Arg) -> Cost:
    """Adagrad in one kernel."""
    p, g = tensors(params, "the parameters"), tensors(grads, "the gradients")
    s = tensors(sums, "the sums")
    return cost([*p, *g, *s], [*p, *s], other=ADAGRAD_FLOPS * _count(p))


def foreach(call: Call) -> Cost:
    """``_foreach_<op>`` over lists: the single op for every place of the lists."""
    name = call.op.split("::", 1)[1].split(".", 1)[0].removeprefix("_foreach_")
    single = {"minimum": "minimum", "zero_": "zero_", "norm": "linalg_vector_norm"}.get(name, name)
    rule = find_rule(f"aten::{single}")
    length = max((len(v) for v in call.inputs if isinstance(v, tuple) and _is_list(v)), default=0)
    if rule is None:
        raise UncountableError(f"no formula for the single op {single}")
    if not length:
        raise UncountableError("the lists of tensors are not recorded")
    parts = []
    for i in range(length):
        values = tuple(_at(v, i) for v in call.inputs)
        parts.append(rule.apply(Call(f"aten::{single}", values)))
    return msgspec.structs.replace(together(parts), composite=False)


def _is_list(value: Arg) -> bool:
    return isinstance(value, tuple) and any(isinstance(v, Tensor | Unrecorded) for v in value)


def _at(value: Arg, place: int) -> Arg:
    if isinstance(value, Unrecorded) and "list" in value.reason:
        raise UncountableError(value.reason)
    if not isinstance(value, tuple):
        return value
    return value[place] if place < len(value) else None


# Composite: without a fused kernel (on CPUs) it calls the single op for every place.
_FOREACH = Rule(foreach, (), True, True)


@pattern
def foreach_rule(name: str) -> Rule | None:
    """The rule of all ``_foreach_`` ops."""
    return _FOREACH if name.startswith("aten::_foreach_") else None


@formula("aten::_amp_foreach_non_finite_check_and_unscale")
def unscale(grads: Arg) -> Cost:
    """Gradient scaling: test and multiply in place."""
    g = tensors(grads, "the gradients")
    return cost(g, g, other=2 * _count(g))


@formula("aten::_amp_update_scale")
def update_scale(call: Call) -> Cost:
    """The scale of the next step: a few numbers."""
    found = [t for t in call.inputs if isinstance(t, Tensor)]
    return cost(found, found[:2], other=2)
