"""Calls from what profilers recorded. Nothing here raises: what is malformed is unrecorded.

A PyTorch trace gives an op's arguments as parallel lists: "Input Dims" (nested for lists
of tensors), "Input type", and in newer traces "Input Strides" and "Concrete Inputs"
(values as text). Older traces have no values at all, and no format inside tensor lists.
"Output Dims" and "Output type" are no words of Kineto: our reader adds them where the
gradient of the same op tells the shape of its result.

How the amounts of a call came about: it is counted once more, by the very same functions, with
sizes that carry names (`timeroof.work.traced`). So text and number of a formula are one definition.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, cast

import msgspec
import polars as pl

from timeroof.core.columns import Row
from timeroof.core.machine import Machine
from timeroof.core.profile import Profile, amount_columns
from timeroof.work.call import Arg, Call, Tensor, Unrecorded, frozen, parse_dtype
from timeroof.work.cost import Cost, amounts
from timeroof.work.counting import Kernel, count, count_kernel, kernel_cost
from timeroof.work.families.hlo import INSTRUCTION, named_inputs
from timeroof.work.names import name_facts_table
from timeroof.work.names.facts import read_name
from timeroof.work.registry import find_rule
from timeroof.work.traced import Number, Written, size, times, written

NO_VALUE = Unrecorded("value not recorded")
# Of a type or a word among the arguments: calls are kept with all that they hold.
LONGEST_WORD = 1000
NO_LIST = Unrecorded("list of tensors not recorded")
_LISTS = ("TensorList", "GenericList")


def call_from_kineto(name: str, args: Mapping[str, object] | None) -> Call:
    """The call behind a cpu_op event of a PyTorch trace; tensors in lists have no format.

    >>> call_from_kineto("aten::mm", {"Input Dims": [[2, 3], [3, 4]],
    ...     "Input type": ["c10::Half", "c10::Half"]}).inputs[1]
    Tensor(shape=(3, 4), dtype='fp16', strides=None, alias_of=None)
    """
    args = args if isinstance(args, Mapping) else {}
    if "Collective name" in args:
        return _collective(name, args)
    dims, types = _list(args.get("Input Dims")), _list(args.get("Input type"))
    strides, values = _list(args.get("Input Strides")), args.get("Concrete Inputs")
    known_values = _list(values) if isinstance(values, Sequence) else None
    inputs = [
        _argument(
            dims[i] if i < len(dims) else [],
            types[i] if i < len(types) else "",
            strides[i] if i < len(strides) else None,
            _value(known_values, i),
        )
        for i in range(max(len(dims), len(types)))
    ]
    return Call(str(name)[:LONGEST_WORD], tuple(inputs), _results(args))


def _results(args: Mapping[str, object]) -> tuple[Tensor, ...] | None:
    """Results, where a reader knows their shapes; None unless all of them are whole."""
    dims, types = _list(args.get("Output Dims")), _list(args.get("Output type"))
    if not dims or len(dims) != len(types):
        return None
    found = [_argument(d, k, None, NO_VALUE) for d, k in zip(dims, types, strict=True)]
    whole = [t for t in found if isinstance(t, Tensor)]
    return tuple(whole) if len(whole) == len(found) else None


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


def _value(values: Sequence[object] | None, place: int) -> Arg:
    if values is None or place >= len(values):
        return NO_VALUE
    text = values[place]
    return value_from_text(text) if isinstance(text, str) else NO_VALUE


def _argument(dims: object, kind: object, strides: object, value: Arg) -> Arg:
    kind = kind[:LONGEST_WORD] if isinstance(kind, str) else ""
    if kind in _LISTS or _is_nested(dims):
        return _tensor_list(_list(dims), _list(strides))
    if kind.startswith("nullptr"):
        return None
    if kind in ("", "Scalar", "ScalarList") or kind.endswith("List"):
        return value
    return _tensor(dims, parse_dtype(kind) or kind, strides)


def _is_nested(dims: object) -> bool:
    sizes = _list(dims)
    return bool(sizes) and isinstance(sizes[0], Sequence) and not isinstance(sizes[0], str)


def _tensor_list(dims: Sequence[object], strides: Sequence[object]) -> Arg:
    if not dims:
        return NO_LIST
    return tuple(
        _tensor(d, "", strides[i] if i < len(strides) else None) for i, d in enumerate(dims)
    )


def _tensor(dims: object, dtype: str, strides: object) -> Tensor | Unrecorded:
    sizes = _list(dims)
    strange = [s for s in sizes if type(s) is not int]
    if strange:
        return Unrecorded(f"symbolic size {strange[0]!r}")
    if isinstance(dims, str) or (dims is not None and not isinstance(dims, Sequence)):
        return Unrecorded(f"malformed shape {dims!r}")
    steps = _list(strides)
    fits = len(steps) == len(sizes) and all(type(s) is int for s in steps)
    return Tensor(
        tuple(s for s in sizes if isinstance(s, int)),
        dtype,
        tuple(s for s in steps if isinstance(s, int)) if fits and sizes else None,
    )


_BARE_FLOAT = re.compile(r"(?<![\w.])(inf|nan)(?![\w.])")


def value_from_text(text: str) -> Arg:
    """A value of "Concrete Inputs": a number, a truth, a list of them, or a word.

    >>> [value_from_text(text) for text in ("[1, -1]", "False", "0.", "")]
    [(1, -1), False, 0.0, None]
    """
    text = text.strip()
    if not text or text == "None":
        return None
    try:
        return frozen(ast.literal_eval(_BARE_FLOAT.sub(r"1e999", text)))
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return text[:LONGEST_WORD]


def _collective(name: str, args: Mapping[str, object]) -> Call:
    kind = str(args.get("dtype", ""))[:LONGEST_WORD]
    dtype = parse_dtype(kind) or kind
    sizes = [args.get("In msg nelems"), args.get("Out msg nelems")]
    ends = [
        Tensor((s,), dtype) if isinstance(s, int) else Unrecorded("message size not recorded")
        for s in sizes
    ]
    said = str(args.get("Collective name"))[:LONGEST_WORD].lower()
    what = re.sub(r"[^a-z]", "", said) or name[:LONGEST_WORD]
    return Call.of(f"collective::{what}", *ends, group_size=args.get("Group size"))


_XLA_SHAPE = re.compile(r"\b([a-z]+\d*\w*)\[([\d,\s]*)\](?:\{([\d,]*)[^}]*\})?")


def tensors_from_text(text: str) -> tuple[Tensor, ...]:
    """The tensors in XLA's or JAX's notation, such as ``(f32[8,128]{1,0}, s32[])``.

    >>> tensors_from_text("bf16[8,128]{1,0}")[0].shape, len(tensors_from_text("(f32[2], s32[])"))
    ((8, 128), 2)
    """
    found = []
    for kind, sizes, _ in _XLA_SHAPE.findall(text):
        dtype = parse_dtype(kind)
        if dtype is not None:
            found.append(Tensor(tuple(int(s) for s in sizes.split(",") if s.strip()), dtype))
    return tuple(found)


# From what a file recorded of each row (its name, its call) to short names and amounts.
# Numbers that a source measured are never replaced.
KINETO_ARGUMENTS = (
    "Input Dims", "Input type", "Input Strides", "Concrete Inputs", "Output Dims", "Output type",
)  # fmt: skip
_CALL, _TIMES, _COUNTED_NAME, _PER_LAUNCH = ".call", ".times", ".counted_name", ".per_launch"
NAMED_KINDS = ("kernel", "collective")
# What names tell and rows keep.
NAME_FACTS = ("algorithm", "library", "tensor_core")
COUNTED_KINDS = ("kernel", "op", "primitive")


class RecordedCall(NamedTuple):
    """The call behind a row, as its reader knows it: `Profile.calls` has them by the row's id."""

    call: Call
    # How many such calls the row stands for; None: each of its own calls is one.
    times: float | None = None
    # The telling kernels of the call and their grids: its kernels are counted one by one.
    launched: tuple[tuple[str, tuple[int, ...]], ...] = ()
    # The ops below it are rows of their own and do the work of a composite op.
    has_children: bool = False


def with_recorded_work(profile: Profile, machine: Machine | None) -> Profile:
    """The profile with short names, and with amounts wherever its calls were recorded."""
    facts = name_facts_table(profile.kernels["name"])
    rows = profile.kernels.drop(NAME_FACTS).join(
        facts, on="name", how="left", suffix="_read", maintain_order="left"
    )
    rows = _with_short_names(rows)
    rows = _without_idle_tensor_units(rows)
    if profile.calls:
        calls = cast("Mapping[int, RecordedCall]", profile.calls)
        rows = _with_counted(rows, calls, _matrix_units(machine))
    # An op's name is none of a kernel.
    of_kernel = ~pl.col("kind").is_in(["op", "unit"])
    rows = rows.with_columns(pl.when(of_kernel).then(pl.col(c)).alias(c) for c in NAME_FACTS)
    spare = [c for c in facts.columns if c not in profile.kernels.columns]
    return profile.with_kernels(rows.drop(*spare, "short_name_read"))


def _matrix_units(machine: Machine | None) -> Collection[str]:
    """Precisions that the machine's matrix units have; none for a machine without them."""
    roofs = machine.roofs() if machine is not None else {}
    return [r.removeprefix("flop/") for r in roofs if r.endswith("-tensor")]


def _with_short_names(rows: pl.DataFrame) -> pl.DataFrame:
    # A profiler's short name is the full one cut: 17,000 calls of `elementwise_kernel`.
    cut = pl.col("short_name").str.strip_suffix(".kd")
    is_part = pl.col("name").str.contains(cut, literal=True).fill_null(False)
    plain = is_part & pl.col("kind").is_in(NAMED_KINDS)
    short = pl.when(plain).then(pl.col("short_name_read")).otherwise(pl.col("short_name"))
    return rows.with_columns(short.alias("short_name"))


def _without_idle_tensor_units(rows: pl.DataFrame) -> pl.DataFrame:
    """A kernel whose name tells that it uses no matrix unit has no FLOPs there."""
    tensor = [c for c in amount_columns(rows) if c.endswith("-tensor")]
    idle = pl.col("tensor_core").fill_null(True).not_()
    return rows.with_columns(
        pl.when(idle).then(pl.col(c).fill_null(0.0)).otherwise(pl.col(c)).alias(c) for c in tensor
    )


def _with_counted(
    rows: pl.DataFrame, recorded: Mapping[int, RecordedCall], units: Collection[str]
) -> pl.DataFrame:
    """Add the amounts of recorded calls, per different call once."""
    different: dict[RecordedCall, int] = {}
    codes = [
        different.setdefault(r._replace(times=None), len(different)) for r in recorded.values()
    ]
    asked = {"id": list(recorded), _CALL: codes, _TIMES: [r.times for r in recorded.values()]}
    table = pl.DataFrame(asked, schema={"id": pl.Int64, _CALL: pl.Int64, _TIMES: pl.Float64})
    # Kernels of calls with telling kernels are counted one by one, by their names.
    telling = [code for r, code in different.items() if r.launched]
    named = pl.when(pl.col(_CALL).is_in(telling)).then(pl.col("name")).alias(_COUNTED_NAME)
    rows = rows.join(table, on="id", how="left", maintain_order="left").with_columns(named)
    keys = [_CALL, _COUNTED_NAME, "kind", "precision", "tensor_core", "storage"]
    # Of a compiled program's collectives and copies HLO tells all; of a library's a name at best.
    stated = [code for r, code in different.items() if r.call.op == INSTRUCTION]
    counts = pl.col("kind").is_in(COUNTED_KINDS) | pl.col(_CALL).is_in(stated)
    counts = pl.col(_CALL).is_not_null() & counts
    calls = rows.filter(counts).select(keys).unique(maintain_order=True)
    if not calls.height:
        return rows.drop(_CALL, _TIMES, _COUNTED_NAME)
    listed = list(different)
    found = [_amounts_of(listed[row[_CALL]], row, units) for row in calls.iter_rows(named=True)]
    joined = rows.join(
        pl.concat([calls, _frame(found)], how="horizontal"),
        on=keys, how="left", nulls_equal=True, maintain_order="left", suffix="_counted",
    )  # fmt: skip
    return _merged(joined, list(found[0]), counts).drop(_CALL, _TIMES, _COUNTED_NAME)


def _amounts_of(
    recorded: RecordedCall, row: Row, units: Collection[str]
) -> dict[str, float | str | None]:
    cost, single = _cost_of(recorded, row)
    precision = row["precision"] or ""
    if precision.endswith("-tensor"):
        units = [precision]
    elif row["tensor_core"] is False:
        units = []
    found: dict[str, float | str | None] = dict(
        amounts(cost, units, tf32=precision == "tf32-tensor")
    )
    origin = cost.origin if cost.flops is not None else None
    return found | {"origin.flops": origin, _PER_LAUNCH: float(single)}


def amounts_of_row(
    recorded: RecordedCall, row: Row, machine: Machine | None
) -> tuple[dict[str, float | str | None], bool]:
    """Amounts of one call of a row as they were counted, and whether they are of one launch.

    `row` has the columns of a profile's row and what its name tells.
    """
    name = row["name"] if recorded.launched else None
    found = _amounts_of(recorded, {**row, _COUNTED_NAME: name}, _matrix_units(machine))
    return found, found.pop(_PER_LAUNCH) == 1


def _cost_of(recorded: RecordedCall, row: Row) -> tuple[Cost, bool]:
    """The cost of a row's call, and whether it is the one of a single kernel instead."""
    call, name = recorded.call, row[_COUNTED_NAME]
    kernel = Kernel(name, recorded.launched) if name is not None else None
    single = count_kernel(with_format(call, row["storage"]), kernel) if kernel else None
    cost = single or _counted(call, row["storage"])
    if row["kind"] == "kernel":
        return kernel_cost(call.op, cost), single is not None
    if cost.composite and recorded.has_children:
        # The ops below it do the work and are rows of their own.
        return Cost(free=True, bytes_read=0.0, bytes_written=0.0), False
    return cost, False


def _counted(call: Call, storage: str | None) -> Cost:
    """The cost of a call; inferred where the kernel's name has to tell a number format."""
    cost = count(call)
    if cost.unknown and storage:
        named = count(with_format(call, storage))
        return cost if named.unknown else msgspec.structs.replace(named, origin="inferred")
    return cost


def with_format(call: Call, dtype: str | None) -> Call:
    """A call with the format of tensors in lists, which traces leave out."""

    def known(value: Arg) -> Arg:
        if isinstance(value, Tensor) and not value.dtype:
            return msgspec.structs.replace(value, dtype=dtype or "")
        return tuple(known(v) for v in value) if isinstance(value, tuple) else value

    return msgspec.structs.replace(call, inputs=tuple(known(v) for v in call.inputs))


def _frame(found: list[dict[str, float | str | None]]) -> pl.DataFrame:
    """One column per amount: 0 where a known call has none, null where a call is unknown."""
    names = list(dict.fromkeys(name for amount in found for name in amount))
    columns = {}
    for name in names:
        flops = name.startswith("flop/")
        values = [a.get(name, 0.0 if flops and a["flop/fp32"] is not None else None) for a in found]
        columns[name] = pl.Series(
            name, values, dtype=pl.String if name.startswith("origin.") else pl.Float64
        )
    for amount in found:
        amount.update(dict.fromkeys(set(names) - set(amount)))
    return pl.DataFrame(columns)


def _merged(joined: pl.DataFrame, names: list[str], recorded: pl.Expr) -> pl.DataFrame:
    """Amounts per call times the calls of the op; what the source measured stays."""
    calls = pl.col(_TIMES).fill_null(pl.col("calls"))
    # What one kernel does, instead of its share of an op's work, is counted per launch.
    calls = pl.when(pl.col(_PER_LAUNCH) == 1).then(pl.col("calls")).otherwise(calls)
    exprs = []
    for name in (n for n in names if n != _PER_LAUNCH):
        counted = f"{name}_counted" if f"{name}_counted" in joined.columns else name
        # What a kernel does that stands for no call of its op, nobody has counted.
        is_text = name.startswith("origin.")
        value = pl.col(counted) if is_text else pl.col(counted) * calls
        value = pl.when(recorded & (calls > 0)).then(value)
        if counted != name:
            value = pl.coalesce(pl.col(name), value)
        exprs.append(value.alias(name))
    merged = joined.with_columns(exprs)
    if "byte/dram" in names:
        # Modelled FLOPs may have counted bytes, but what names tell is inferred altogether.
        said = pl.when(pl.col("origin.flops") == "inferred").then(pl.lit("inferred"))
        known = recorded & pl.col("byte/dram").is_not_null()
        origin = pl.when(known).then(said.otherwise(pl.lit("counted")))
        held = "origin.bytes/dram"
        kept = pl.coalesce(pl.col(held), origin) if held in merged.columns else origin
        merged = merged.with_columns(kept.alias(held))
    return merged.drop([f"{n}_counted" for n in names], _PER_LAUNCH, strict=False)


CALLS = "calls"


class NamedCall(Call, frozen=True, cache_hash=True):
    """A call whose sizes carry names: equal to no plain one, so that caches keep them apart."""


class _Names:
    """Names of sizes; one that already stands for another number gives way."""

    def __init__(self, stated: Mapping[str, tuple[str, ...]]) -> None:
        self.stated = stated
        self.values: dict[str, int] = {}

    def of(self, parameter: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A tensor's sizes under their names."""
        stated = self.stated.get(parameter, ())
        if len(stated) != len(shape) or not all(map(self._is_free, stated, shape)):
            stated = tuple(f"{parameter}{place}" for place in range(len(shape)))
        self.values |= dict(zip(stated, shape, strict=True))
        return tuple(size(name, value) for name, value in zip(stated, shape, strict=True))

    def _is_free(self, name: str, value: int) -> bool:
        return self.values.get(name, value) == value


def named_call(call: Call) -> NamedCall:
    """A call with names for the sizes of its tensors: as its formula calls them, else x0, x1.

    >>> called = named_call(Call.of("aten::mm", Tensor((2, 3)), Tensor((3, 4))))
    >>> written(2 * called.inputs[0].shape[0] * called.inputs[1].shape[1]).text
    '2·M·N'
    """
    if call.op == INSTRUCTION:
        return NamedCall(call.op, named_inputs(call))
    rule = find_rule(call.op)
    names = _Names(rule.sizes if rule is not None else {})
    parameters = rule.parameters if rule is not None else ()
    inputs = tuple(
        _named(value, parameters[place] if place < len(parameters) else f"in{place}_", names)
        for place, value in enumerate(call.inputs)
    )
    outputs = call.outputs
    if outputs is not None:
        outputs = tuple(
            t for place, value in enumerate(outputs)
            if isinstance(t := _named(value, f"out{place}_", names), Tensor)
        )  # fmt: skip
    kwargs = tuple((key, _named(value, key, names)) for key, value in call.kwargs)
    return NamedCall(call.op, inputs, outputs, kwargs)


def _named(value: Arg, name: str, names: _Names) -> Arg:
    if isinstance(value, Tensor) and all(type(n) is int for n in value.shape):
        return msgspec.structs.replace(value, shape=names.of(name, value.shape))
    if isinstance(value, tuple):
        return tuple(_named(v, f"{name}_{place}_", names) for place, v in enumerate(value))
    return value


def derived_amounts(
    recorded: RecordedCall, row: Row, machine: Machine | None
) -> dict[str, Written]:
    """The formulas of a row's amounts, over all its calls; without those that are unknown.

    `row` has the columns of a profile's row. What the source measured is not among them.
    """
    if row["kind"] not in COUNTED_KINDS and recorded.call.op != INSTRUCTION:
        return {}
    facts = msgspec.structs.asdict(read_name(row["name"]))
    named = recorded._replace(call=named_call(recorded.call))
    found, per_launch = amounts_of_row(named, {**row, **facts}, machine)
    often = row["calls"] if per_launch or recorded.times is None else recorded.times
    calls: Number = 1 if often == 1 else times(CALLS, often)
    return {
        resource: written(amount * calls)
        for resource, amount in found.items()
        if isinstance(amount, int | float)
    }


def unknown_reason(recorded: RecordedCall) -> str | None:
    """Why a call cannot be counted; None where it can."""
    cost: Cost = count(recorded.call)
    return cost.unknown
