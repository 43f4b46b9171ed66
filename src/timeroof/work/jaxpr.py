"""What a JAX function is defined to compute: the FLOPs of its jaxpr, before XLA compiles it.

What runs is the compiled program (`timeroof.work.hlo`). Executed against defined work tells what
the compiler adds, such as dense gradients that are masked afterwards. A jaxpr is looked at, not
imported: this module needs no JAX.

Loops count by their length; one that data ends counts once, and `endless` names it. Of a condition
the dearest branch counts. Communication between devices has no FLOPs here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol

from timeroof.work.call import UncountableError, is_floating, parse_dtype
from timeroof.work.cost import contraction_in, other_in
from timeroof.work.families.jax import ELEMENTWISE, TRUTHS
from timeroof.work.hlo.products import transform_flops
from timeroof.work.shapes import real_taps

# Jaxprs inside jaxprs are as deep as a program's functions; deeper ones were made to harm.
_MOST_NESTED = 200

# What a primitive was given beside its values: of any type, each primitive its own.
Params = Mapping[str, Any]


class Equation(Protocol):
    """One primitive applied to values, as JAX has it."""

    primitive: Any
    params: Params
    invars: Sequence[Any]
    outvars: Sequence[Any]


class Jaxpr(Protocol):
    """A function as a list of equations, as JAX has it."""

    eqns: Sequence[Equation]


@dataclass
class Algorithm:
    """FLOPs that a function is defined to do, by number format, and what of it is not known."""

    contraction: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    other: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    # Products of convolutions, and whether one of them is in groups: compilers differ there.
    convolution_flops: float = 0.0
    in_groups: bool = False
    unknown: set[str] = field(default_factory=set)
    endless: set[str] = field(default_factory=set)
    # How often a product of so many FLOPs is done.
    products: dict[float, float] = field(default_factory=lambda: defaultdict(float))

    @property
    def contraction_flops(self) -> float | None:
        """Products; None where some of them are not known."""
        return None if self.unknown or self.endless else float(sum(self.contraction.values()))

    @property
    def other_flops(self) -> float | None:
        """All further FLOPs."""
        return None if self.unknown or self.endless else float(sum(self.other.values()))

    def add(self, more: Algorithm, times: float = 1) -> None:
        """Add a part that runs so many times."""
        _add_flops(self.contraction, more.contraction, times)
        _add_flops(self.other, more.other, times)
        for flops, count in more.products.items():
            self.products[flops] += count * times
        self.convolution_flops += more.convolution_flops * times
        self.in_groups |= more.in_groups
        self.unknown |= more.unknown
        self.endless |= more.endless


def _add_flops(own: dict[str, float], more: Mapping[str, float], times: float = 1) -> None:
    for dtype, flops in more.items():
        own[dtype] += flops * times


def algorithm_of(jaxpr: Jaxpr) -> Algorithm:
    """The work that a jaxpr defines. Equations whose results nobody needs should be gone."""
    return _Counting().of(jaxpr)


class _Array:
    """Sizes and number format of a value."""

    def __init__(self, value: Any) -> None:
        aval = getattr(value, "aval", value)
        dims = getattr(aval, "shape", ())
        self.dims: tuple[int, ...] = tuple(d if isinstance(d, int) else int(d) for d in dims)
        name = str(getattr(aval, "dtype", ""))
        self.format = parse_dtype(name) or ("fp8" if name.startswith("float8") else name)

    @property
    def count(self) -> int:
        return prod(self.dims)


class _Counting:
    """Counts jaxprs, each of which may be called many times, once."""

    def __init__(self) -> None:
        # With the jaxpr itself, so that no other gets its number.
        self._known: dict[int, tuple[Jaxpr, Algorithm]] = {}

    def of(self, jaxpr: Jaxpr, depth: int = 0) -> Algorithm:
        if depth > _MOST_NESTED:
            raise UncountableError("functions that call one another for ever")
        if id(jaxpr) not in self._known:
            total = Algorithm()
            for equation in jaxpr.eqns:
                self._add(total, equation, depth)
            self._known[id(jaxpr)] = (jaxpr, total)
        return self._known[id(jaxpr)][1]

    def _add(self, total: Algorithm, equation: Equation, depth: int) -> None:
        name = str(equation.primitive.name)
        if name in _REDUCERS:
            return _add_reduction(total, equation, self._each(equation, depth))
        inner = [self.of(one, depth + 1) for one in _run_by(equation)]
        if not inner:
            return _add_primitive(total, equation)
        if name == "cond":
            inner = [max(inner, key=_flops)]
        for part in inner:
            total.add(part, _times(equation))
        if name == "while":
            total.endless.add("a while loop")
        return None

    def _each(self, equation: Equation, depth: int) -> float:
        """FLOPs of a reduction's own function for one element."""
        own = [self.of(one, depth + 1) for one in _jaxprs(equation.params.values())]
        return max((_flops(part) for part in own), default=1.0) if own else 1.0


def _flops(part: Algorithm) -> float:
    return float(sum(part.contraction.values()) + sum(part.other.values()))


def _run_by(equation: Equation) -> list[Jaxpr]:
    """The jaxprs that an equation runs; rules for derivatives and transposes are not among them."""
    params = equation.params
    if "branches" in params:
        return list(_jaxprs(params["branches"]))
    if equation.primitive.name == "custom_linear_solve":
        return list(_jaxprs([getattr(params.get("jaxprs"), "solve", None)]))
    named = [params[key] for key in _CALLED if key in params]
    return list(_jaxprs(named))


_CALLED = ("jaxpr", "call_jaxpr", "fun_jaxpr", "body_jaxpr", "cond_jaxpr")


def _jaxprs(values: Any) -> Iterator[Jaxpr]:
    for value in values:
        found = getattr(value, "jaxpr", value)
        if hasattr(found, "eqns"):
            yield found


def _times(equation: Equation) -> float:
    """How often an equation runs what is inside of it."""
    params, name = equation.params, equation.primitive.name
    if name == "scan":
        return int(params["length"])
    if name == "shard_map":
        # Sizes inside are those of one device's part.
        return int(getattr(params.get("mesh"), "size", 1))
    if name == "xla_pmap":
        return int(params.get("global_axis_size") or params.get("axis_size") or 1)
    grid = getattr(params.get("grid_mapping"), "grid", ())
    return prod(n for n in grid if isinstance(n, int))


def _add_primitive(total: Algorithm, equation: Equation) -> None:
    name = str(equation.primitive.name)
    inputs = [_Array(v) for v in equation.invars]
    outputs = [_Array(v) for v in equation.outvars]
    name = name.removesuffix("_start").removesuffix("_done")
    if name in _MOVES or name.startswith(("random_", "threefry")):
        return
    if name in _PRODUCTS:
        flops = _PRODUCTS[name](equation.params, inputs, outputs)
        _add_flops(total.contraction, contraction_in(inputs[0].format, flops))
        total.products[flops] += 1
        if name == "conv_general_dilated":
            total.convolution_flops += flops
            groups = ("feature_group_count", "batch_group_count")
            total.in_groups |= any(int(equation.params.get(g, 1)) > 1 for g in groups)
    elif name in ELEMENTWISE or name in TRUTHS:
        of, each = (inputs[0], 1) if name in TRUTHS else (outputs[0], ELEMENTWISE[name])
        _add_flops(total.other, other_in(of.format, each * outputs[0].count))
    elif any(is_floating(one.format) for one in outputs if one.format in _FORMATS):
        total.unknown.add(name)


def _add_reduction(total: Algorithm, equation: Equation, each: float) -> None:
    inputs = [_Array(v) for v in equation.invars]
    elements = _REDUCERS[str(equation.primitive.name)](equation, inputs)
    _add_flops(total.other, other_in(inputs[0].format, elements * each))


_FORMATS = ("fp64", "fp32", "fp16", "bf16", "fp8", "complex64", "complex128")
# The same elements elsewhere, in another order or more often; communication; what is no work.
_MOVES = frozenset({
    "broadcast_in_dim", "reshape", "squeeze", "expand_dims", "transpose", "rev", "concatenate",
    "pad", "slice", "dynamic_slice", "dynamic_update_slice", "gather", "scatter", "sort", "top_k",
    "approx_top_k", "iota", "copy", "copy_p", "split", "stop_gradient", "convert_element_type",
    "bitcast_convert_type", "device_put", "sharding_constraint", "mesh_cast", "reshard",
    "optimization_barrier", "layout_constraint", "create_token", "pvary", "pbroadcast", "pcast",
    "psum", "psum2", "psum_invariant", "pmax", "pmin", "all_gather", "all_gather_invariant",
    "all_to_all", "ppermute", "pgather", "reduce_scatter", "psum_scatter", "axis_index", "get",
    "swap", "addupdate", "broadcasted_iota", "rng_bit_generator", "empty", "empty2", "select_n",
    "name", "debug_callback", "real", "imag", "complex", "conj", "reduce_precision",
    "lu_pivots_to_permutation", "stack", "unstack", "tile", "after_all", "dce_sink", "tie", "stage",
    "to_edtype", "from_edtype", "platform_index", "psend", "precv", "ragged_all_to_all",
    "unreduced_psum", "unreduced_reduce_scatter", "vary_unreduced_cast_p", "rng_uniform",
})  # fmt: skip

_Count = Callable[[Params, Sequence[_Array], Sequence[_Array]], float]


def _dot(params: Params, inputs: Sequence[_Array], outputs: Sequence[_Array]) -> float:
    (contracted, _), _ = params["dimension_numbers"]
    return float(2 * outputs[0].count * prod(inputs[0].dims[d] for d in contracted))


def _ragged(params: Params, inputs: Sequence[_Array], outputs: Sequence[_Array]) -> float:
    """Every row meets the matrix of its own group."""
    return 2.0 * inputs[0].count * inputs[1].dims[-1]


def _convolution(params: Params, inputs: Sequence[_Array], outputs: Sequence[_Array]) -> float:
    """Products of real data, as `work.hlo` counts them: padding and holes are nobody's work."""
    numbers, (x, kernel), (out,) = params["dimension_numbers"], inputs[:2], outputs[:1]
    taps = prod(
        real_taps(
            x.dims[numbers.lhs_spec[2 + n]], out.dims[numbers.out_spec[2 + n]],
            kernel.dims[numbers.rhs_spec[2 + n]], int(params["window_strides"][n]), int(low),
            int(params["rhs_dilation"][n]), int(params["lhs_dilation"][n]),
        )
        for n, (low, _) in enumerate(params["padding"])
    )  # fmt: skip
    batch = x.dims[numbers.lhs_spec[0]] // int(params["batch_group_count"])
    filters, channels = kernel.dims[numbers.rhs_spec[0]], kernel.dims[numbers.rhs_spec[1]]
    return float(2 * taps * batch * filters * channels)


def _matrix(inputs: Sequence[_Array]) -> tuple[int, int, int]:
    *batch, rows, columns = inputs[0].dims
    return prod(batch), max(rows, columns), min(rows, columns)


def _square(params: Params, inputs: Sequence[_Array], outputs: Sequence[_Array]) -> float:
    """A product of a matrix with its own transpose."""
    return 2.0 * outputs[0].count * inputs[0].dims[-1]


def _cholesky(params: Params, inputs: Sequence[_Array], outputs: Sequence[_Array]) -> float:
    many, n, _ = _matrix(inputs)
    return many * n**3 / 3


def _lu(params: Params, inputs: Sequence[_Array], outputs: Sequence[_Array]) -> float:
    many, m, n = _matrix(inputs)
    return many * (m * n**2 - n**3 / 3)


def _qr(params: Params, inputs: Sequence[_Array], outputs: Sequence[_Array]) -> float:
    many, m, n = _matrix(inputs)
    return many * (2 * m * n**2 - 2 * n**3 / 3)


def _solve(params: Params, inputs: Sequence[_Array], outputs: Sequence[_Array]) -> float:
    return float(outputs[0].count * inputs[0].dims[-1])


_PRODUCTS: dict[str, _Count] = {
    "dot_general": _dot, "symmetric_product": _square, "ragged_dot": _ragged,
    "ragged_dot_general": _ragged,
    "conv_general_dilated": _convolution, "cholesky": _cholesky, "lu": _lu, "geqrf": _qr,
    "qr": lambda *given: 2 * _qr(*given), "householder_product": _qr, "triangular_solve": _solve,
}  # fmt: skip


def _elements(equation: Equation, inputs: Sequence[_Array]) -> float:
    return inputs[0].count


def _windows(equation: Equation, inputs: Sequence[_Array]) -> float:
    return float(_Array(equation.outvars[0]).count * prod(equation.params["window_dimensions"]))


def _selected(equation: Equation, inputs: Sequence[_Array]) -> float:
    """A comparison per element of the window, and the addition of what is scattered."""
    return float(inputs[0].count * (prod(equation.params["window_dimensions"]) + 1))


def _updates(equation: Equation, inputs: Sequence[_Array]) -> float:
    return inputs[-1].count


def _transform(equation: Equation, inputs: Sequence[_Array]) -> float:
    out = _Array(equation.outvars[0])
    is_complex = [one.format.startswith("complex") for one in (inputs[0], out)]
    lengths = equation.params["fft_lengths"]
    return transform_flops(inputs[0].count, out.count, lengths, is_complex)


# How many times the reducer (one FLOP where a primitive has none of its own) runs.
_REDUCERS: dict[str, Callable[[Equation, Sequence[_Array]], float]] = {
    **dict.fromkeys(
        ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or",
         "reduce_xor", "reduce", "argmax", "argmin", "cumsum", "cumprod", "cummax", "cummin",
         "cumlogsumexp"),
        _elements,
    ),
    **dict.fromkeys(
        ("reduce_window", "reduce_window_sum", "reduce_window_max", "reduce_window_min"), _windows
    ),
    "select_and_scatter_add": _selected, "select_and_scatter": _selected,
    "select_and_gather_add": _windows,
    **dict.fromkeys(
        ("scatter-add", "scatter_add", "scatter-mul", "scatter_mul", "scatter_min", "scatter_max",
         "scatter-min", "scatter-max", "scatter_sub", "scatter-sub"),
        _updates,
    ),
    "fft": _transform,
}  # fmt: skip
