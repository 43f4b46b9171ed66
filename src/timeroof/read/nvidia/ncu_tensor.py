"""Operations of tensor cores: which of Nsight Compute's many paths to add up.

A path is told by its source type and, more narrowly, by its instruction, its destination type
and its sparsity: `sm__ops_path_tensor[_op_hmma]_src_fp16[_dst_fp32][_sparsity_off].sum`. A
narrower path is a part of a wider one, so both are never added.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_PATH = re.compile(
    r"sm__ops_path_tensor(?:_op_(?P<op>[a-z0-9]+))?_src_(?P<source>[a-z]+\d+(?:_[a-z]+\d+)*?)"
    r"(?:_dst_(?P<destination>[a-z]+\d+))?(?:_sparsity_(?P<sparsity>on|off))?\.sum"
)

# Which precision a source type counts as; int4 and binary have no resource. Paths that FP4, FP6
# and FP8 share run at one rate, FP8's (PTX: tcgen05.mma, kind f8f6f4).
TENSOR_SOURCES = {
    "fp64": "fp64-tensor",
    "tf32": "tf32-tensor",
    "fp16": "fp16-tensor",
    "bf16": "bf16-tensor",
    "fp8": "fp8-tensor",
    "fp6": "fp8-tensor",
    "fp4_fp6": "fp8-tensor",
    "fp4_fp6_fp8": "fp8-tensor",
    "fp4": "fp4-tensor",
    "int8": "int8-tensor",
}
# Sources that old and new instructions of a chip both work on.
_OLD_AND_NEW = ("fp16", "bf16", "tf32", "int8")


class TensorPath(NamedTuple):
    """A path: its source type, and what narrows it."""

    source: str
    op: str | None = None
    destination: str | None = None
    sparsity: str | None = None

    @property
    def precision(self) -> str | None:
        """The precision that its operations count as."""
        return TENSOR_SOURCES.get(self.source)

    @property
    def width(self) -> tuple[int, bool, bool]:
        """The widest first; of equals, types before sparsity before instructions."""
        narrowed = (self.op, self.destination, self.sparsity)
        return sum(n is not None for n in narrowed), self.op is not None, self.sparsity is not None

    def is_apart_from(self, other: TensorPath) -> bool:
        """Whether no operation is in both."""
        pairs = zip(self[1:], other[1:], strict=True)
        return self.source != other.source or any(a and b and a != b for a, b in pairs)


def path_of(metric: str) -> TensorPath | None:
    """The path that a metric counts.

    >>> path_of("sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32_sparsity_off.sum")
    TensorPath(source='bf16', op='hgmma', destination='fp32', sparsity='off')
    >>> path_of("sm__ops_path_tensor_src_fp4_fp6_fp8_dst_fp32.sum").precision
    'fp8-tensor'
    """
    match = _PATH.fullmatch(metric)
    return TensorPath(**match.groupdict()) if match else None


def apart(paths: Iterable[TensorPath]) -> list[TensorPath]:
    """The widest of the paths that have no operation in common.

    >>> [p.destination for p in apart([TensorPath("fp16"), TensorPath("fp16", None, "fp32")])]
    [None]
    """
    chosen: list[TensorPath] = []
    for path in sorted(paths, key=lambda p: (p.width, str(p))):
        if all(path.is_apart_from(other) for other in chosen):
            chosen.append(path)
    return chosen


def is_whole(paths: list[TensorPath], capability: str | None) -> bool:
    """Whether paths of one source count all of its operations on a chip.

    Hopper has warpgroup instructions (…gmma) and datacenter Blackwell tensor-memory ones (utc…)
    beside the old ones: one kind alone leaves the other's work out.
    """
    ops = {p.op for p in paths if p.op is not None}
    if any(p.op is None for p in paths):
        return True
    new = {op for op in ops if "gmma" in op or op.startswith("utc")}
    if capability is not None and not _has_new_instructions(capability):
        return True
    return bool(new) and (bool(ops - new) or paths[0].source not in _OLD_AND_NEW)


def _has_new_instructions(capability: str) -> bool:
    major = int(capability.partition(".")[0])
    return 9 <= major < 12
