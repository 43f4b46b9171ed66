"""Every instant of a step of XLA's counts once: kernels at once share it, then the runtime."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from timeroof.core.vocabulary import IdleCause
from timeroof.live.xla.account import account, waits_of
from timeroof.live.xla.steps import Kernel, Level, XlaStep

# Name, start, end, thread, level, and on whose account its recording went.
EVENTS = [
    ("call", 0, 100, 0, Level.DISPATCH, -1),
    ("run", 10, 90, 1, Level.RUNTIME, -2),
    ("a", 20, 60, 1, Level.KERNEL, 1),
    ("b", 40, 60, 2, Level.KERNEL, -2),
]


def made() -> XlaStep:
    names, start, end, thread, level, charged = zip(*EVENTS, strict=True)
    numbers = np.arange(len(EVENTS))
    return XlaStep(
        names=names, name=numbers, start_ns=np.array(start), end_ns=np.array(end),
        thread=np.array(thread), sequence=numbers * 0 - 1, scope=numbers * 0, begin_ns=0,
        finish_ns=120, main_thread=0, level=np.array([int(one) for one in level]),
        charged=np.array(charged), kernels={2: Kernel("a"), 3: Kernel("b")},
        described=np.array([-1, -1, 0, 1]),
    )  # fmt: skip


def test_kernels_that_run_at_once_share_the_instants() -> None:
    found = account(made(), 0.0)
    times = dict(zip((found.step.names[n] for n in found.step.name), found.self_ns, strict=True))
    assert (times["a"], times["b"]) == (30, 10)
    assert found.idle_ns[IdleCause.RUNTIME] == 40
    assert found.idle_ns[IdleCause.DISPATCH] == 20
    assert found.idle_ns[IdleCause.PYTHON] == 20


def test_recording_is_taken_from_what_surrounds_an_event_and_the_sum_stays() -> None:
    found = account(made(), 2.0)
    own = int(found.self_ns[found.is_op > 0].sum())
    assert own + sum(found.idle_ns.values()) == 120
    assert found.idle_ns[IdleCause.PROFILER] == 8


def test_recording_that_the_runtime_has_no_time_for_is_taken_from_its_kernels() -> None:
    """Kernels of half a microsecond follow one another: most of what recording one takes lies
    between its begin and its end."""
    plain = made()
    close = replace(
        plain, start_ns=np.array([0, 0, 2, 60]), end_ns=np.array([120, 120, 60, 118]),
        charged=np.array([-2, -2, 1, 1]),
    )  # fmt: skip
    found = account(close, 5.0)
    times = dict(zip((found.step.names[n] for n in found.step.name), found.self_ns, strict=True))
    # The runtime has 4 ns of its own, and owes 10.
    assert (times["a"], times["b"]) == (55, 55)
    assert int(found.self_ns[found.is_op > 0].sum()) + sum(found.idle_ns.values()) == 120


def test_a_line_that_waits_has_what_ran_meanwhile_and_what_did_not() -> None:
    """Kernels and the runtime work from 10 to 90; the line waits from 50 to 110."""
    plain = made()
    step = replace(
        plain, names=(*plain.names, "train.py:9"), name=np.arange(5),
        start_ns=np.append(plain.start_ns, 50), end_ns=np.append(plain.end_ns, 110),
        thread=np.append(plain.thread, 0), sequence=np.full(5, -1), scope=np.zeros(5, np.int64),
        level=np.append(plain.level, int(Level.READING)), charged=np.append(plain.charged, -3),
        described=np.append(plain.described, -1), waits=((50, 110, "train.py:9"),),
    )  # fmt: skip
    [wait] = waits_of([step, plain])
    assert (wait.line, wait.calls) == ("train.py:9", 0.5)
    assert (wait.busy_s, wait.idle_s) == (20e-9, 10e-9)
    assert account(step, 0.0).idle_ns[IdleCause.HOST_SYNC] == 20
