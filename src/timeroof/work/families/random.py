"""Random numbers and dropout. Generators work on integers, so drawing has no FLOPs."""

from __future__ import annotations

from timeroof.work.call import Arg, Call, Tensor, dtype_of, flag, integer, integers, number, tensor
from timeroof.work.cost import FREE, Cost, cost
from timeroof.work.registry import formula


@formula("aten::uniform", "aten::normal", "aten::random", "aten::exponential", "aten::geometric",
         "aten::cauchy", "aten::log_normal", "aten::normal_functional")  # fmt: skip
def drawn(x: Arg) -> Cost:
    """A tensor filled with random numbers: written, not read."""
    found = tensor(x, "the tensor")
    return cost([], [Tensor(found.shape, found.dtype)])


@formula("aten::bernoulli", "aten::poisson", "aten::binomial", "aten::_sample_dirichlet",
         "aten::_standard_gamma")  # fmt: skip
def drawn_from(call: Call, x: Arg, p: Arg = None) -> Cost:
    """Numbers drawn with given chances; in place with one chance, only written."""
    found = tensor(x, "the tensor")
    out = Tensor(found.shape, found.dtype)
    chances = tensor(p, "the chances") if isinstance(p, Tensor) else None
    if call.op.endswith("_"):
        return cost([chances], [out])
    return cost([found, chances], [out], other=found.count)


@formula("aten::rand", "aten::randn", "aten::randint", "aten::randperm", "aten::normal_like",
         composite=True)  # fmt: skip
def new_random(call: Call) -> Cost:
    """A new tensor; uniform_, normal_ or random_ fills it."""
    sizes = [v for v in call.inputs if isinstance(v, tuple)]
    shape = integers(sizes[0], "the size") if sizes else (integer(call.inputs[0], "the size"),)
    whole = "int" in call.op or "perm" in call.op
    dtype = dtype_of(dict(call.kwargs).get("dtype")) or ("int64" if whole else "fp32")
    return cost([], [Tensor(shape, dtype)])


@formula("aten::rand_like", "aten::randn_like", "aten::randint_like", composite=True)
def random_like(call: Call, x: Arg) -> Cost:
    """A new random tensor of another's shape."""
    found = tensor(x, "the tensor")
    dtype = dict(call.kwargs).get("dtype")
    return cost([], [Tensor(found.shape, dtype_of(dtype) or found.dtype)])


@formula("aten::native_dropout", "aten::_fused_dropout")
def native_dropout(x: Arg, p: Arg = 0.5, train: Arg = True) -> Cost:
    """Multiply by mask and scale: 2 FLOPs; a mask of one byte per element is kept."""
    found = tensor(x, "the input")
    out = Tensor(found.shape, found.dtype)
    return cost([found], [out, Tensor(found.shape, "bool")], other=2 * found.count)


@formula("aten::dropout", "aten::feature_dropout", "aten::alpha_dropout",
         "aten::feature_alpha_dropout", composite=True)  # fmt: skip
def dropout(x: Arg, p: Arg = 0.5, train: Arg = True) -> Cost:
    """The op above; in inference, or with chance 0, it does nothing."""
    if not flag(train, "train", True) or number(p, 0.5) == 0:
        return FREE
    return native_dropout(x, p, train)


@formula("aten::multinomial", composite=True)
def multinomial(x: Arg, count: Arg = 1) -> Cost:
    """Places drawn with given weights."""
    found = tensor(x, "the weights")
    out = Tensor((*found.shape[:-1], integer(count, "the number of samples")), "int64")
    return cost([found], [out], other=2 * found.count)
