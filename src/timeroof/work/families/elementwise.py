"""Element-wise ops: FLOPs per element of the result by the op's definition.

One FLOP per basic operation (addition, multiplication, division, comparison that picks a
value), a transcendental or root counting one. So sigmoid(x) = 1/(1+exp(−x)) is 4, tanh 1,
silu 5. Integers and booleans have none. Bytes: every operand once, the result once.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from timeroof.work import call as args
from timeroof.work.call import Arg, Call, Tensor, UncountableError, Unrecorded
from timeroof.work.cost import FREE, Cost, cost
from timeroof.work.registry import Rule, formula, is_in_place, pattern, plain_name
from timeroof.work.shapes import axes, broadcast, promoted

# FLOPs per element of ops whose result has the operands' format.
ARITHMETIC: dict[str, int] = {
    "neg": 1, "negative": 1, "abs": 1, "absolute": 1, "sign": 1, "sgn": 1, "positive": 0,
    "square": 1, "floor": 1, "ceil": 1, "round": 1, "trunc": 1, "fix": 1, "frac": 2,
    "relu": 1, "relu6": 2, "clamp": 2, "clip": 2, "clamp_min": 1, "clamp_max": 1, "threshold": 1,
    "hardtanh": 2, "hardswish": 5, "hardsigmoid": 4, "leaky_relu": 2, "rrelu": 2, "prelu": 2,
    "_prelu_kernel": 2, "elu": 4, "celu": 5, "selu": 5, "softplus": 4, "softshrink": 2,
    "hardshrink": 1, "nan_to_num": 1, "add": 1, "sub": 1, "subtract": 1, "rsub": 1, "mul": 1,
    "multiply": 1, "maximum": 1, "minimum": 1, "fmax": 1, "fmin": 1, "fmod": 2, "remainder": 3,
    "floor_divide": 2, "pow": 1, "float_power": 1, "hypot": 4, "addcmul": 3, "addcdiv": 3,
    "lerp": 3, "copysign": 1, "heaviside": 1, "ldexp": 1, "logaddexp": 5, "logaddexp2": 5,
    "masked_fill": 0, "where": 0, "_s_where": 0, "nextafter": 1, "xlogy": 2, "gcd": 0, "lcm": 0,
    "bitwise_and": 0, "bitwise_or": 0, "bitwise_xor": 0, "bitwise_not": 0,
    "bitwise_left_shift": 0, "bitwise_right_shift": 0, "__and__": 0, "__or__": 0, "__xor__": 0,
    "__lshift__": 0, "__rshift__": 0, "__iand__": 0, "__ior__": 0, "__ixor__": 0,
    "real": 0, "imag": 0, "conj_physical": 1, "_conj_physical": 1,
    "erfinv": 1, "deg2rad": 1, "rad2deg": 1,  "axpy": 2, "xpay": 2,
}  # fmt: skip

# FLOPs per element of ops that turn integers into floating-point numbers.
TRANSCENDENTAL: dict[str, int] = {
    "exp": 1, "exp2": 1, "expm1": 1, "log": 1, "log2": 1, "log10": 1, "log1p": 1, "sqrt": 1,
    "rsqrt": 1, "sin": 1, "cos": 1, "tan": 1, "asin": 1, "acos": 1, "atan": 1, "atan2": 1,
    "arctan2": 1, "arccos": 1, "arcsin": 1, "arctan": 1, "sinh": 1, "cosh": 1, "tanh": 1,
    "asinh": 1, "acosh": 1, "atanh": 1, "erf": 1, "erfc": 1, "lgamma": 1, "digamma": 1,
    "polygamma": 1, "mvlgamma": 1, "i0": 1, "sinc": 3, "reciprocal": 1, "sigmoid": 4, "logit": 3,
    "silu": 5, "mish": 5, "gelu": 5, "log_sigmoid": 4, "logsigmoid": 4, "log_sigmoid_forward": 4,
    "softsign": 3, "div": 1, "divide": 1, "true_divide": 1, "special_entr": 3, "special_expit": 4,
    "special_erfcx": 1, "special_log_ndtr": 3, "special_ndtr": 4, "special_xlog1py": 2,
    "tanhshrink": 2, "angle": 1,
}  # fmt: skip

# FLOPs per element of ops whose result is a truth.
COMPARISONS: dict[str, int] = {
    "eq": 1, "ne": 1, "lt": 1, "le": 1, "gt": 1, "ge": 1, "not_equal": 1, "less": 1,
    "less_equal": 1, "greater": 1, "greater_equal": 1, "isnan": 1, "isinf": 1, "isfinite": 1,
    "isposinf": 1, "isneginf": 1, "signbit": 0, "logical_and": 0, "logical_or": 0,
    "logical_xor": 0, "logical_not": 0, "isclose": 4,
}  # fmt: skip

# Backward ops: FLOPs per element, the incoming gradient's product included.
BACKWARD: dict[str, int] = {
    "threshold_backward": 1, "sigmoid_backward": 3, "tanh_backward": 3, "silu_backward": 9,
    "gelu_backward": 11, "mish_backward": 10, "elu_backward": 3, "leaky_relu_backward": 2,
    "hardtanh_backward": 1, "hardswish_backward": 4, "hardsigmoid_backward": 1,
    "softplus_backward": 4, "softshrink_backward": 1, "hardshrink_backward": 1,
    "log_sigmoid_backward": 5, "logit_backward": 3, "_prelu_kernel_backward": 3,
    "prelu_backward": 3, "rrelu_with_noise_backward": 1,
    "infinitely_differentiable_gelu_backward": 11,
    "celu_backward": 3, "selu_backward": 3,
}  # fmt: skip

# How many arguments ops have that can also write into a given tensor, their `out=`: a trace has it
# behind them, under the same name. It is written and not read.
_ARGUMENTS = {
    name: count
    for count, names in {
        1: "neg negative abs absolute sign sgn square floor ceil trunc fix frac round relu"
        " hardswish hardsigmoid bitwise_not conj_physical _conj_physical erfinv deg2rad rad2deg exp"
        " exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan arccos arcsin"
        " arctan sinh cosh tanh asinh acosh atanh erf erfc lgamma digamma i0 sinc reciprocal"
        " sigmoid silu mish log_sigmoid special_entr special_expit special_erfcx"
        " special_log_ndtr special_ndtr angle isnan isinf isposinf isneginf signbit logical_not",
        2: "clamp_min clamp_max leaky_relu celu softshrink hardshrink mul multiply maximum minimum"
        " fmax fmin fmod remainder floor_divide pow float_power hypot copysign heaviside ldexp"
        " logaddexp logaddexp2 nextafter xlogy gcd lcm bitwise_and bitwise_or bitwise_xor"
        " bitwise_left_shift bitwise_right_shift atan2 arctan2 logit gelu div divide true_divide"
        " special_xlog1py eq ne lt le gt ge not_equal less less_equal greater greater_equal"
        " logical_and logical_or logical_xor sigmoid_backward tanh_backward silu_backward"
        " hardswish_backward hardsigmoid_backward",
        3: "add sub subtract clamp clip threshold hardtanh softplus lerp where threshold_backward"
        " gelu_backward softshrink_backward hardshrink_backward logit_backward",
        4: "elu nan_to_num addcmul addcdiv leaky_relu_backward hardtanh_backward softplus_backward",
    }.items()
    for name in names.split()
}

GELU_TANH_FLOPS, GELU_TANH_BACKWARD_FLOPS = 9, 19


def written_into(call: Call) -> Tensor | None:
    """The tensor that an op was given as its `out=`."""
    arguments = _ARGUMENTS.get(plain_name(call.op).removeprefix("aten::"))
    last = call.inputs[-1] if call.inputs else None
    given = arguments is not None and len(call.inputs) > arguments
    return last if given and isinstance(last, Tensor) else None


def operands(call: Call) -> list[Tensor]:
    """The tensors of a call, an `out=` not among them."""
    found: list[Tensor] = []
    for value in call.inputs[: None if written_into(call) is None else -1]:
        if isinstance(value, Tensor):
            found.append(args.tensor(value))
        elif isinstance(value, Unrecorded) and value.reason.startswith("symbolic"):
            raise UncountableError(value.reason)
        elif isinstance(value, tuple):
            found.extend(args.every_tensor(value))
    if not found:
        raise UncountableError("no tensor is recorded")
    return found


def elementwise(call: Call, flops: float, *, floats: bool = False, truth: bool = False) -> Cost:
    """An element-wise op over the broadcast shape of its operands."""
    reads = operands(call)
    shape = broadcast(*(t.shape for t in reads))
    if is_in_place(call.op):
        shape, dtype = reads[0].shape, reads[0].dtype
    else:
        dtype = "bool" if truth else promoted(reads, floats=floats)
    given = written_into(call)
    out = Tensor(shape, given.dtype if given is not None and given.dtype else dtype)
    computed = dtype if args.is_floating(dtype) else promoted(reads, floats=floats)
    return cost(reads, [out], other=flops * out.count, dtype=computed)


def _counter(flops: int, **options: bool) -> Callable[[Call], Cost]:
    def count(call: Call) -> Cost:
        return elementwise(call, flops, **options)

    return count


for _name, _flops in ARITHMETIC.items():
    if _name not in ("pow", "add", "sub", "abs"):
        formula(f"aten::{_name}")(_counter(_flops))
for _name, _flops in TRANSCENDENTAL.items():
    if _name != "gelu":
        formula(f"aten::{_name}")(_counter(_flops, floats=True))
for _name, _flops in COMPARISONS.items():
    formula(f"aten::{_name}")(_counter(_flops, truth=True))
for _name, _flops in BACKWARD.items():
    if _name not in ("gelu_backward", "_prelu_kernel_backward", "prelu_backward"):
        formula(f"aten::{_name}")(_counter(_flops))


@formula("aten::add", "aten::sub", "mkldnn::_binary")
def add(call: Call, x: Arg, y: Arg = None, alpha: Arg = 1) -> Cost:
    """``x + alpha·y``: one FLOP, two where alpha is not 1."""
    return elementwise(call, 1 + (args.number(alpha, 1) not in (1, -1)))


@formula("aten::pow")
def power(call: Call, x: Arg, exponent: Arg = None) -> Cost:
    """A power: one FLOP, a whole exponent n up to 4 as its n − 1 multiplications. A power of 1 is a
    copy and one of 0 is filled with ones, by ops that it calls."""
    if isinstance(exponent, int | float) and exponent in (0, 1):
        return msgspec.structs.replace(elementwise(call, 0), composite=True)
    if isinstance(exponent, int | float) and exponent in (3, 4):
        return elementwise(call, int(exponent) - 1)
    return elementwise(call, 1)


@formula("aten::gelu")
def gelu(call: Call, x: Arg, approximate: Arg = "none") -> Cost:
    """x·Φ(x): 5 with the error function, 9 with the tanh polynomial."""
    flops = GELU_TANH_FLOPS if approximate == "tanh" else TRANSCENDENTAL["gelu"]
    return elementwise(call, flops)


@formula("aten::gelu_backward")
def gelu_backward(call: Call, grad: Arg, x: Arg, approximate: Arg = "none") -> Cost:
    """The gradient of gelu."""
    flops = GELU_TANH_BACKWARD_FLOPS if approximate == "tanh" else BACKWARD["gelu_backward"]
    return elementwise(call, flops)


@formula("aten::_fused_dropout_scale", "aten::native_dropout_backward", "aten::_masked_scale")
def masked_scale(call: Call) -> Cost:
    """Gradient times mask times scale."""
    return elementwise(call, 2)


@formula("torch::distributed::reducer::mul_out")
def reducer_scale(grad: Tensor) -> Cost:
    """DistributedDataParallel copies a gradient into its bucket, scaled."""
    return cost([grad], [grad], other=grad.count)


@formula("aten::_fused_moving_avg_obs_fq_helper", "aten::fake_quantize_per_tensor_affine_cachemask",
         "aten::fake_quantize_per_channel_affine_cachemask")  # fmt: skip
def fake_quantize(x: Tensor) -> Cost:
    """Round to a grid and back: scale, round, clamp (2), unscale; a mask is written too."""
    return cost([x], [x, Tensor(x.shape, "bool")], other=5 * x.count)


@formula("aten::cumulative_trapezoid", "aten::trapezoid", composite=True)
def trapezoid(samples: Tensor) -> Cost:
    """The area under samples: 3 FLOPs each."""
    return cost([samples], [], other=3 * samples.count)


@formula("aten::abs")
def absolute(call: Call, x: Tensor) -> Cost:
    """The absolute value; of complex numbers a real one."""
    return cost([x], [Tensor(x.shape, args.REAL_PART.get(x.dtype, x.dtype))], other=x.count)


@formula("aten::complex", "aten::polar")
def complex_of(call: Call, first: Tensor, second: Tensor) -> Cost:
    """Two real tensors as one complex; from polar coordinates it takes 4 FLOPs."""
    wide = "complex128" if first.dtype == "fp64" else "complex64"
    out = Tensor(broadcast(first.shape, second.shape), wide)
    return cost(
        [first, second], [out], other=4 * out.count if "polar" in call.op else 0, dtype=first.dtype
    )


@formula("aten::_prelu_kernel_backward", "aten::prelu_backward")
def prelu_backward(call: Call, grad: Arg, x: Arg, weight: Arg) -> Cost:
    """Gradients for the input and, per element, for the weight."""
    found = elementwise(call, BACKWARD["_prelu_kernel_backward"])
    return msgspec.structs.replace(found, bytes_written=2 * (found.bytes_written or 0.0))


_SPECIAL = Rule(_counter(1, floats=True), (), True, False)


@pattern
def special_function(name: str) -> Rule | None:
    """Special functions count as one transcendental each."""
    return _SPECIAL if name.startswith("aten::special_") else None


# Gated activations: half of the input gates the other half.


def _half(x: Tensor, dim: int) -> Tensor:
    place = axes([dim], len(x.shape))[0]
    shape = tuple(n // 2 if i == place else n for i, n in enumerate(x.shape))
    return Tensor(shape, x.dtype)


@formula("aten::glu")
def glu(x: Tensor, dim: Arg = -1) -> Cost:
    """a·sigmoid(b): 5 FLOPs per result."""
    out = _half(x, args.integer(dim, "dim"))
    return cost([x], [out], other=5 * out.count)


@formula("aten::glu_backward")
def glu_backward(grad: Tensor, x: Tensor) -> Cost:
    """Both halves' gradients: the sigmoid (4), 1 and 4 products."""
    return cost([grad, x], [x], other=9 * grad.count)


@formula(*(f"{space}::{gate}_and_mul" for space in ("_C", "sgl_kernel", "aiter")
           for gate in ("silu", "gelu", "gelu_tanh", "swigluoai")),
         "vllm::silu_and_mul", "_C::mul_and_silu", "_C::silu_and_mul_quant",
         "aiter::scaled_silu_and_mul")  # fmt: skip
def silu_and_mul(out: Tensor, x: Tensor, scale: Arg = None) -> Cost:
    """silu(a)·b or gelu(a)·b, as engines fuse it: 5 and the gate; the result comes first."""
    return cost([x, args.optional(scale)], [out], other=6 * out.count, dtype=x.dtype)


# Random numbers and dropout. Generators work on integers, so drawing has no FLOPs.


@formula("aten::uniform", "aten::normal", "aten::random", "aten::exponential", "aten::geometric",
         "aten::cauchy", "aten::log_normal", "aten::normal_functional")  # fmt: skip
def drawn(this: Tensor) -> Cost:
    """A tensor filled with random numbers: written, not read."""
    return cost([], [Tensor(this.shape, this.dtype)])


@formula("aten::bernoulli", "aten::poisson", "aten::binomial", "aten::_sample_dirichlet",
         "aten::_standard_gamma")  # fmt: skip
def drawn_from(call: Call, this: Tensor, p: Arg = None) -> Cost:
    """Numbers drawn with given chances; in place with one chance, only written."""
    out = Tensor(this.shape, this.dtype)
    chances = args.tensor(p, "the chances") if isinstance(p, Tensor) else None
    if call.op.endswith("_"):
        return cost([chances], [out])
    return cost([this, chances], [out])


@formula("aten::rand", "aten::randn", "aten::randint", "aten::randperm", "aten::normal_like",
         composite=True)  # fmt: skip
def new_random(call: Call) -> Cost:
    """A new tensor; uniform_, normal_ or random_ fills it."""
    sizes = [v for v in call.inputs if isinstance(v, tuple)]
    shape = args.integers(sizes[0] if sizes else (call.inputs[0],), "the size")
    whole = "int" in call.op or "perm" in call.op
    dtype = args.dtype_of(dict(call.kwargs).get("dtype")) or ("int64" if whole else "fp32")
    return cost([], [Tensor(shape, dtype)])


@formula("aten::rand_like", "aten::randn_like", "aten::randint_like", composite=True)
def random_like(call: Call, this: Tensor) -> Cost:
    """A new random tensor of another's shape."""
    dtype = dict(call.kwargs).get("dtype")
    return cost([], [Tensor(this.shape, args.dtype_of(dtype) or this.dtype)])


@formula("aten::native_dropout", "aten::_fused_dropout")
def native_dropout(x: Tensor) -> Cost:
    """Multiply by mask and scale: 2 FLOPs; a mask of one byte per element is kept."""
    out = Tensor(x.shape, x.dtype)
    return cost([x], [out, Tensor(x.shape, "bool")], other=2 * x.count)


@formula("aten::dropout", "aten::feature_dropout", "aten::alpha_dropout",
         "aten::feature_alpha_dropout", composite=True)  # fmt: skip
def dropout(x: Arg, p: Arg = 0.5, train: Arg = True) -> Cost:
    """The op above; in inference, or with chance 0, it does nothing."""
    if not args.flag(train, "train", True) or args.number(p, 0.5) == 0:
        return FREE
    return native_dropout(args.tensor(x, "the input"))


@formula("aten::multinomial", composite=True)
def multinomial(weights: Tensor, count: Arg = 1) -> Cost:
    """Places drawn with given weights."""
    out = Tensor((*weights.shape[:-1], args.integer(count, "the number of samples")), "int64")
    return cost([weights], [out], other=2 * weights.count)
