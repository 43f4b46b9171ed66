"""HLO, XLA's compiled programs, as a kind of work: what each instruction computes and moves.

Here are its opcodes by what they do: arithmetic per element, moving, collectives, nothing at all.
Nothing is imported: formulas need the opcodes of every file, only XLA's need the rest.
"""

from __future__ import annotations

# Nothing runs for these: names, tuples, views, and the far ends of what was started before.
FREE = frozenset({
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id",
    "replica-id", "opt-barrier", "optimization-barrier", "add-dependency", "domain", "copy-done",
    "all-reduce-done", "all-gather-done", "collective-permute-done", "async-done", "async-update",
    "reduce-scatter-done", "all-to-all-done",
    "send-done", "recv-done", "get-dimension-size", "set-dimension-size", "trace",
})  # fmt: skip
# Their work is that of the instructions inside, which run one by one.
CONTAINERS = frozenset({"while", "call", "conditional"})
# One instruction whose inner ones never reach memory.
FUSIONS = frozenset({"fusion", "map"})
COLLECTIVES = frozenset({
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "ragged-all-to-all",
    "collective-permute", "collective-broadcast", "all-reduce-start", "all-gather-start",
    "reduce-scatter-start", "all-to-all-start", "collective-permute-start", "send", "recv",
})  # fmt: skip
# The same elements elsewhere, in another order or more often.
MOVES = frozenset({
    "copy", "copy-start", "transpose", "reshape", "dynamic-reshape", "broadcast", "slice",
    "dynamic-slice", "dynamic-update-slice", "concatenate", "pad", "reverse", "iota", "gather",
    "sort", "topk", "rng", "rng-bit-generator", "rng-get-and-update-state", "infeed", "outfeed",
})  # fmt: skip
SLICES = frozenset({"slice", "dynamic-slice", "gather"})
# Views within a fusion, through which an operand is still the same memory.
VIEWS = frozenset({"bitcast", "reshape"})
# FLOPs per element of the result; integers have none.
ELEMENTWISE: dict[str, int] = {
    "add": 1, "subtract": 1, "multiply": 1, "divide": 1, "maximum": 1, "minimum": 1, "negate": 1,
    "abs": 1, "sign": 1, "exponential": 1, "exponential-minus-one": 1, "log": 1,
    "log-plus-one": 1, "sqrt": 1, "rsqrt": 1, "cbrt": 1, "sine": 1, "cosine": 1, "tan": 1,
    "tanh": 1, "sinh": 1, "cosh": 1, "asin": 1, "acos": 1, "atan": 1, "asinh": 1, "acosh": 1,
    "atanh": 1, "logistic": 4, "erf": 1, "power": 1, "floor": 1, "ceil": 1,
    "round-nearest-afz": 1, "round-nearest-even": 1, "remainder": 2, "clamp": 2, "atan2": 1,
    "compare": 1, "is-finite": 1, "select": 0, "and": 0, "or": 0, "xor": 0, "not": 0,
    "convert": 0, "shift-left": 0, "shift-right-logical": 0, "shift-right-arithmetic": 0,
    "popcnt": 0, "count-leading-zeros": 0, "complex": 0, "real": 0, "imag": 0,
    "reduce-precision": 0, "stochastic-convert": 0, "bitcast-convert": 0,
}  # fmt: skip
# Truths are made of numbers: these count in their operands' format.
TRUTHS = frozenset({"compare", "is-finite"})
