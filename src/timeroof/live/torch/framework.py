"""How torch's records are read: execution traces, compiled kernels, oneDNN's primitives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from timeroof.live.calls import Counted
from timeroof.live.framework import Context, Framework
from timeroof.live.recording import CompiledKernel, Described, GraphSeen, Recording
from timeroof.live.torch.compiled_calls import folded
from timeroof.live.torch.derive import count_ops
from timeroof.live.torch.describing import contexts, described_from_json
from timeroof.live.torch.primitive_rows import split_primitives
from timeroof.live.torch.sparse import with_contents
from timeroof_recorder.seen import restored
from timeroof_recorder.torch.names import is_compiled

if TYPE_CHECKING:
    import polars as pl

    from timeroof.core.machine import Machine
    from timeroof.live.rows import Rows


class Torch(Framework):
    """PyTorch."""

    name = "torch"

    def described(
        self, payload: Mapping[str, object], kernels: Sequence[CompiledKernel], folder: Path
    ) -> list[Described]:
        """The execution trace's ops, with what is known of compiled code."""
        path = Path(str(payload["file"]))
        data = (folder / path.name).read_bytes()
        if not data:
            return []
        graphs = [g for g in _list(payload.get("graphs")) if isinstance(g, GraphSeen)]
        return folded(with_contents(described_from_json(data)), list(kernels), graphs)

    def contexts(self, ops: list[Described]) -> list[Context]:
        """By annotations and by autograd's numbers."""
        return contexts(ops)

    def count(self, ops: Sequence[Described], compiled: Sequence[CompiledKernel]) -> list[Counted]:
        """By formula, or by what torch says of an op."""
        return count_ops(ops, compiled)

    def split(
        self, table: pl.DataFrame, recording: Recording, rows: Rows, units: list[str],
        machine: Machine | None,
    ) -> tuple[pl.DataFrame, list[str]]:  # fmt: skip
        """oneDNN's primitives as rows below their ops."""
        return split_primitives(table, recording, rows, units, machine)

    def is_unseen_kernel(self, name: str) -> bool:
        """A kernel of Inductor's."""
        return is_compiled(name)


def _list(value: object) -> list[object]:
    found = restored(value)
    return found if isinstance(found, list) else []


make = Torch
