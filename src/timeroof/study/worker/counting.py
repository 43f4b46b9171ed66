"""What one execution of a case used, counted from the ops that it really dispatched."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from timeroof.core.machine import DRAM, Machine
from timeroof.live.calls import Counted
from timeroof.live.memory import all_ranges, caches_above, completion_order
from timeroof.live.recording import Described, TensorSeen
from timeroof.live.rows import launches_of, matrix_units
from timeroof.live.torch import count_ops
from timeroof.live.torch.describing import described_from_json
from timeroof.work.cost import amounts as amounts_of
from timeroof.work.locality.accesses import Accesses, Range
from timeroof.work.locality.ideal import ideal_traffics
from timeroof_recorder.torch.describing import Describing


@dataclass
class Used:
    """Amounts of one execution; None is unknown, and `uncounted` names the ops that are why."""

    amounts: dict[str, float | None] = field(default_factory=dict)
    contraction_flops: float | None = None
    launches: float | None = None
    uncounted: list[str] = field(default_factory=list)


def nothing_seen(framework: str) -> Used:
    """What is known of an execution in which a framework ran no op: nothing."""
    unknown: dict[str, float | None] = {"flop/fp32": None, DRAM: None}
    return Used(unknown, uncounted=[f"no op of {framework} ran"])


def describe(run: Callable[[], object]) -> list[Described]:
    """The ops of one execution with their tensors."""
    describing = Describing()
    with TemporaryDirectory(prefix="timeroof-") as folder:
        path = Path(folder, "trace.json")
        if not describing.start(str(path)):
            return []
        try:
            kept = run()
        finally:
            describing.stop()
        del kept
        data = path.read_bytes()
    return described_from_json(data) if data else []


def used(
    ops: Sequence[Described], machine: Machine | None, *, cold: bool, tf32: bool = False,
    fused: bool = False, count: Callable[[Sequence[Described]], list[Counted]] = count_ops,
) -> Used:  # fmt: skip
    """Count described ops; `fused` takes them as one kernel whose intermediates stay inside."""
    ops = [_as_on_host(op) for op in ops]
    counted = count(ops)
    units = matrix_units(machine)
    totals: dict[str, float | None] = {"flop/fp32": 0.0}
    unknown: list[str] = []
    for op, one in zip(ops, counted, strict=True):
        if op.scope or one.cost.free:
            continue
        if not one.cost.known:
            unknown.append(op.name)
        for name, value in amounts_of(one.cost, units, tf32=tf32).items():
            before = totals.get(name, 0.0)
            totals[name] = None if value is None or before is None else before + value
    contraction = totals.pop("contraction_flops", 0.0)
    moved = None if totals.pop(DRAM, 0.0) is None else _bytes(ops, counted, machine, cold, fused)
    totals |= moved if moved is not None else {DRAM: None}
    return Used(totals, contraction, float(sum(launches_of(ops, counted))), sorted(set(unknown)))


def _bytes(
    ops: Sequence[Described], counted: Sequence[Counted], machine: Machine | None, cold: bool,
    fused: bool,
) -> dict[str, float | None]:  # fmt: skip
    """The least bytes at every level. Cold: what the ops read that none of them wrote, and their
    results, once each, and more where an intermediate is larger than the caches. Warm: executions
    follow one another, so that whatever fits into a cache may still be there."""
    order = completion_order(ops)
    ranges = all_ranges(ops, counted, order)
    lasting = _lasting(ranges)
    if fused:
        # What enters and leaves, were all ops one kernel.
        every = dict.fromkeys(r for own in ranges for r in own)
        kept = [r for r in every if (r[0] in lasting if r[3] == "write" else not _made(r[0]))]
        ranges = [kept]
    return least_bytes(ranges, lasting, machine, cold=cold)


def least_bytes(
    ranges: Sequence[Sequence[Range]], lasting: Collection[Hashable], machine: Machine | None, *,
    cold: bool,
) -> dict[str, float | None]:  # fmt: skip
    """What ranges of memory, in their order, must move at every level of an ideal cache."""
    accesses = Accesses.of(ranges, lasting)
    levels = caches_above(machine) if machine is not None else [("dram", 0)]
    found: dict[str, float | None] = {"byte/l1": float(sum(r[2] for own in ranges for r in own))}
    traffics = ideal_traffics(accesses, [size for _, size in levels], warm=not cold)
    for (level, _), moved in zip(levels, traffics, strict=True):
        found[f"byte/{level}"] = float(moved.total_bytes)
    return found


def _lasting(ranges: Sequence[Sequence[Range]]) -> set[Hashable]:
    """Storages that are wanted afterwards: results (written, and read by no later op), and
    what was there before and is changed."""
    last: dict[Hashable, str] = {}
    for own in ranges:
        for kind in ("read", "write"):  # an op reads before it writes
            last |= {r[0]: kind for r in own if r[3] == kind}
    return {storage for storage, kind in last.items() if kind == "write"} | {
        r[0] for own in ranges for r in own if r[3] == "write" and not _made(r[0])
    }


def _made(storage: Hashable) -> bool:
    return isinstance(storage, tuple) and storage[1] > 0


def _as_on_host(op: Described) -> Described:
    """The same op as if its tensors were in the host's memory: the study's device is the one."""

    def moved(value: object) -> object:
        if isinstance(value, TensorSeen):
            return value if value.device.startswith("cpu") else replace(value, device="cpu")
        return tuple(map(moved, value)) if isinstance(value, tuple) else value

    return replace(op, inputs=tuple(map(moved, op.inputs)), outputs=tuple(map(moved, op.outputs)))
