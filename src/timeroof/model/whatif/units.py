"""Which unit does the work where another machine lacks the one that a run uses."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import polars as pl

from timeroof.core.machine import Machine
from timeroof.core.profile import Profile
from timeroof.core.resources import LAUNCH, Scope
from timeroof.model.whatif.amounts import format_of

# Units that do the work where a machine lacks one; the first that it has.
SUBSTITUTES: dict[str, tuple[str, ...]] = {
    "flop/fp16-tensor": ("flop/bf16-tensor", "flop/fp16", "flop/fp32"),
    "flop/bf16-tensor": ("flop/fp16-tensor", "flop/bf16", "flop/fp32"),
    "flop/tf32-tensor": ("flop/fp32",),
    "flop/fp8-tensor": ("flop/fp16-tensor", "flop/bf16-tensor", "flop/fp32"),
    "flop/fp4-tensor": ("flop/fp8-tensor", "flop/fp16-tensor", "flop/fp32"),
    "flop/int8-tensor": ("flop/int8", "flop/fp16-tensor", "flop/fp32"),
    "flop/fp64-tensor": ("flop/fp64",),
    "flop/fp16": ("flop/fp32",),
    "flop/bf16": ("flop/fp32",),
}


@dataclass(frozen=True)
class Substituted:
    """A machine that does the run's work on the units it has: `used` by the unit it lacks."""

    machine: Machine
    used: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def name_units(self, limiter: pl.Expr) -> pl.Expr:
        """Limiters by the unit that is used, not by the one that the machine lacks."""
        return limiter.replace(self.used) if self.used else limiter


def with_substitutes(
    machine: Machine, profile: Profile, scope: Scope, precision: str | None = None
) -> Substituted:
    """The machine with another unit in place of one that it lacks but the run uses.

    `precision` is the one that was asked for, if any: its absence has a note of its own.
    """
    roofs = machine.roofs(scope)
    used: dict[str, str] = {}
    notes = []
    for resource in profile.amount_columns:
        if resource in roofs or not profile.kernels.select((pl.col(resource) > 0).any()).item():
            continue
        unit = next((s for s in SUBSTITUTES.get(resource, ()) if s in roofs), None)
        if unit is not None:
            # What is itself emulated runs on the unit below.
            used[resource] = machine.emulated.get(unit, unit)
            notes.append(_replaced(machine, resource, used[resource], precision))
        elif resource.startswith("flop/"):
            notes.append(f"{machine.name} has no ceiling for {resource}: left out of its bounds.")
    if LAUNCH not in roofs:
        notes.append(
            f"{machine.name} has no launch ceiling: rows that launching limits keep their time."
        )
    emulated = {**machine.emulated, **used}
    return Substituted(msgspec.structs.replace(machine, emulated=emulated), used, tuple(notes))


def _replaced(machine: Machine, resource: str, unit: str, precision: str | None) -> str:
    wanted = format_of(resource)
    if wanted != precision or format_of(unit) == wanted:
        return f"{machine.name} has no {resource}: its {unit} is used."
    return (
        f"{machine.name} has no unit for {wanted} at all: products run on its {unit}, only the"
        f" data has the width of {wanted}."
    )
