"""The team of pinned threads: Ctrl-C waits for what still runs, and for nothing else."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from timeroof.probe.cpu import threads
from timeroof.probe.cpu.threads import Team


def test_ctrl_c_ends_a_call_as_soon_as_its_kernels_end(monkeypatch: pytest.MonkeyPatch) -> None:
    # Were a result lost, the wait would last this long.
    monkeypatch.setattr(threads, "LONGEST_KERNEL_S", 60.0)
    ended: list[int] = []

    def kernel(index: int) -> None:
        time.sleep(0.3)
        ended.append(index)

    with Team([None, None]) as team:
        threading.Timer(0.1, signal.raise_signal, [signal.SIGINT]).start()
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            team.call(kernel)
        assert sorted(ended) == [0, 1]
        assert time.monotonic() - begun < 30.0


def test_a_failure_on_one_thread_is_raised_after_all_have_ended() -> None:
    def kernel(index: int) -> int:
        if index:
            raise ValueError("the second")
        return index

    with Team([None, None]) as team:
        with pytest.raises(ValueError, match="the second"):
            team.call(kernel)
        assert team.call(lambda index: index) == [0, 1]
