"""Marks inside the program that is counted."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from timeroof.counters import counted_region, repetitions


def fake_torch(said: list[str], *, gpu: bool = True, hip: str | None = None) -> SimpleNamespace:
    def tell(what: str):  # type: ignore[no-untyped-def]
        return lambda *args: said.append(" ".join([what, *map(str, args)]))

    cudart = SimpleNamespace(cudaProfilerStart=tell("start"), cudaProfilerStop=tell("stop"))
    nvtx = SimpleNamespace(range_push=tell("push"), range_pop=tell("pop"))
    cuda = SimpleNamespace(
        is_available=lambda: gpu, synchronize=tell("wait"), nvtx=nvtx, cudart=lambda: cudart
    )
    return SimpleNamespace(cuda=cuda, version=SimpleNamespace(hip=hip))


def test_a_region_is_marked_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setitem(sys.modules, "torch", fake_torch(said))
    with counted_region("step"):
        said.append("work")
    assert said == ["wait", "start", "push step", "work", "wait", "pop", "stop"]


def test_an_error_ends_the_region(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setitem(sys.modules, "torch", fake_torch(said))
    with pytest.raises(ValueError, match="x"), counted_region():
        raise ValueError("x")
    assert said[-1] == "stop"


def test_amd_without_roctx_still_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setitem(sys.modules, "torch", fake_torch(said, hip="6.2"))
    with counted_region():
        pass
    assert "push timeroof" in said


def test_without_a_gpu_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setitem(sys.modules, "torch", fake_torch(said, gpu=False))
    with counted_region():
        pass
    assert said == []


@pytest.mark.parametrize(("set_to", "times"), [("2", 2), ("0", 1), ("x", 1), (None, 1)])
def test_repetitions(monkeypatch: pytest.MonkeyPatch, set_to: str | None, times: int) -> None:
    monkeypatch.delenv("TIMEROOF_REPETITIONS", raising=False)
    if set_to is not None:
        monkeypatch.setenv("TIMEROOF_REPETITIONS", set_to)
    assert repetitions() == times
