"""Phases of ops below an optimizer's step: its closure's forward and backward, its own updates."""

from __future__ import annotations

import numpy as np
import pytest

from tests.live.test_cutting import told_of
from timeroof.live.accounting import Account, account
from timeroof.live.frameworks import Context
from timeroof.live.recording import Described, TimedStep
from timeroof.live.rows import phases_of
from timeroof.live.torch.describing import contexts
from timeroof_recorder.torch import ENGINE, MODULE

STEP = "Optimizer.step#SGD.step"
# Name, the place of what called it, scope, sequence.
Told = tuple[str, int | None, int, int]
CLOSURE: list[Told] = [
    (STEP, None, 7, -1),
    ("Optimizer.zero_grad#SGD.zero_grad", 0, 7, -1),
    ("aten::zero_", 1, 0, -1),
    (MODULE + "model", 0, 7, -1),
    ("aten::linear", 3, 0, 4),
    ("aten::addmm", 4, 0, 4),
    ("aten::relu", 3, 0, -1),
    ("aten::mse_loss", 0, 0, 5),
    ("aten::pow", 7, 0, -1),
    (ENGINE + ": MseLossBackward0", 0, 0, -1),
    ("MseLossBackward0", 9, 1, 5),
    ("aten::mul", 10, 0, -1),
    (ENGINE + ": AddmmBackward0", 0, 0, -1),
    ("AddmmBackward0", 12, 1, 4),
    ("aten::mm", 13, 0, -1),
    ("aten::add_", 0, 0, -1),
]
EXPECTED = {
    "aten::zero_": "optimizer", "aten::linear": "forward", "aten::addmm": "forward",
    "aten::relu": "forward", "aten::mse_loss": "forward", "aten::pow": "forward",
    "aten::mul": "backward", "aten::mm": "backward", "aten::add_": "optimizer",
}  # fmt: skip


def described(told: list[Told]) -> list[Described]:
    return [Described(name, above, 1, seq, scope, "", (), ()) for name, above, scope, seq in told]


def without(told: list[Told], name: str) -> list[Told]:
    """As recorded where an annotation is still open when the step ends: it is not there."""
    kept = [i for i, t in enumerate(told) if not t[0].startswith(name)]
    new = {old: place for place, old in enumerate(kept)}
    return [(t[0], None if t[1] is None else new.get(t[1]), *t[2:]) for t in map(told.__getitem__, kept)]  # fmt: skip


def timed(told: list[Told]) -> Account:
    """The same ops as a timed step, whose annotations are all there but for those of modules."""
    told = without(told, MODULE)
    start, end = [0] * len(told), [0] * len(told)
    last = {i: max([i, *(j for j in range(len(told)) if _is_below(told, j, i))]) for i in range(len(told))}  # fmt: skip
    for place in range(len(told)):
        start[place] = 100 * place
        end[place] = 100 * last[place] + 90 - _depth(told, place)
    names = tuple(dict.fromkeys(t[0] for t in told))
    return account(
        TimedStep(
            names,
            np.array([names.index(t[0]) for t in told]),
            np.array(start),
            np.array(end),
            np.ones(len(told), np.int64),
            np.array([t[3] for t in told]),
            np.array([t[2] for t in told]),
            0,
            100 * len(told),
            1,
            told=tuple(told_of(name) for name in names),
        ),
        0.0,
    )


def _is_below(told: list[Told], place: int, above: int) -> bool:
    at: int | None = place
    while at is not None and at != above:
        at = told[at][1]
    return at == above


def _depth(told: list[Told], place: int) -> int:
    above = told[place][1]
    return 0 if above is None else 1 + _depth(told, above)


def named(told: list[Told], phases: list[str]) -> dict[str, str]:
    return {t[0]: p for t, p in zip(told, phases, strict=True) if t[0].startswith("aten::")}


def test_a_closure_has_its_own_phases() -> None:
    found = contexts(described(CLOSURE))
    assert named(CLOSURE, [c.phase for c in found]) == EXPECTED
    assert found[14].module == "model"
    assert found[0].phase == "optimizer"


def test_the_same_where_the_optimizers_annotation_was_open_at_the_end() -> None:
    # A loss outside modules and the update are told by the timed step.
    told = without(CLOSURE, STEP)
    ops = described(told)
    phases = phases_of(ops, contexts(ops), [timed(CLOSURE)])
    assert named(told, phases) == EXPECTED


def test_an_optimizer_in_a_module_updates_and_does_not_forward() -> None:
    told: list[Told] = [
        (MODULE + "trainer", None, 7, -1),
        ("aten::mul", 0, 0, -1),
        (STEP, 0, 7, -1),
        ("aten::add_", 2, 0, -1),
    ]
    found = contexts(described(told))
    assert found[1] == Context("forward", "trainer", None, True)
    assert found[3] == Context("optimizer", "trainer", None, False)


def test_modules_of_a_data_loader_load_data() -> None:
    told: list[Told] = [
        ("enumerate(DataLoader)#_SingleProcess.__next__", None, 7, -1),
        (MODULE + "Normalize", 0, 7, -1),
        ("aten::sub", 1, 0, -1),
    ]
    assert contexts(described(told))[2].phase == "data"


def test_an_annotation_around_all_makes_no_update_forward() -> None:
    told: list[Told] = [
        ("my step", None, 7, -1), (STEP, 0, 7, -1), ("my closure", 1, 7, -1),
        ("aten::mse_loss", 2, 0, 5), ("aten::add_", 1, 0, -1),
        (ENGINE, 1, 0, -1), ("MseLossBackward0", 5, 1, 5),
    ]  # fmt: skip
    phases = [c.phase for c in contexts(described(told))]
    assert named(told, phases) == {"aten::mse_loss": "forward", "aten::add_": "optimizer"}


@pytest.mark.parametrize("first_is_short", [True, False])
def test_updates_that_the_first_timed_step_did_not_do_are_known_from_the_longest(
    first_is_short: bool,
) -> None:
    long: list[Told] = [*CLOSURE, ("aten::dot", 0, 0, -1), ("aten::div", 0, 0, -1)]
    told = without(long, STEP)
    ops = described(told)
    accounts = [timed(CLOSURE), timed(long)][:: 1 if first_is_short else -1]
    phases = named(told, phases_of(ops, contexts(ops), accounts))
    assert phases == EXPECTED | {"aten::dot": "optimizer", "aten::div": "optimizer"}
    assert phases_of(ops, contexts(ops), [])[-1] == "other"
