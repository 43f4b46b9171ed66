"""How every number of one row came about: what `report.why(id)` and `explain --row` give."""

from __future__ import annotations

import msgspec

from timeroof.core.columns import Number

WHY_SCHEMA = "timeroof.why/1"


class WhyLine(msgspec.Struct, kw_only=True, frozen=True):
    """One number: its formula with the sizes in it, and where these are from.

    Evaluating `formula` with `sizes` gives `value`. Without a formula the number was measured or
    stated by `source`. A number that nobody knows has no value, and `unknown` says why.
    """

    name: str
    title: str
    value: Number | str | None
    unit: str | None = None
    formula: str | None = None
    sizes: dict[str, Number] = {}
    source: str | None = None
    unknown: str | None = None


class Why(msgspec.Struct, kw_only=True, frozen=True):
    """All numbers of one row, in the order in which one follows from another.

    `change` says what would make the row faster, and how far.
    """

    schema: str
    id: int
    name: str
    short_name: str
    op: str | None
    module: str | None
    shape: list[list[int]] | None
    calls: Number
    lines: list[WhyLine]
    change: list[str]

    def line(self, name: str) -> WhyLine:
        """The line of one number."""
        return next(line for line in self.lines if line.name == name)

    def to_json(self) -> bytes:
        """As JSON, `timeroof.why/1`."""
        return msgspec.json.encode(self)
