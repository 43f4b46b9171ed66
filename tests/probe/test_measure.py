"""The probe on the machine at hand, from end to end; nothing here depends on how fast it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from timeroof.core.machine import check_machine, read_machine, write_machine
from timeroof.probe import measure as door, measure as store
from timeroof.probe.cpu.probe import CpuFindings, measure_cpu
from timeroof.probe.cpu.topology import read_topology
from timeroof.probe.sampling import Budget, Measurement, Steps


@pytest.fixture(scope="module")
def measured() -> Measurement:
    return door.measure(quick=True)


def test_a_quick_measurement_is_a_whole_machine(measured: Measurement) -> None:
    machine = check_machine(measured.machine, "here")
    assert (machine.name, machine.kind, machine.launching) == ("here", "cpu", "synchronous")
    assert {"python", "llvmlite", "os"} <= machine.software.keys()
    for scope in ("core", "socket", "all"):
        roofs = machine.roofs(scope)
        assert {"flop/fp64", "flop/fp32", "byte/l1", "byte/dram", "fault"} <= roofs.keys()
        assert all(roofs[r].threads for r in ("flop/fp64", "byte/dram"))
    for ceiling in machine.ceilings:
        if ceiling.origin == "measured":
            assert ceiling.spread is not None
            assert ceiling.source
    assert measured.errors == []


def test_levels_are_in_order_or_a_warning_says_so(measured: Measurement) -> None:
    roofs = measured.machine.roofs("core", origin="measured")
    rates = [
        roofs[f"byte/{level}"].rate
        for level in ("l1", "l2", "l3", "dram")
        if f"byte/{level}" in roofs
    ]
    assert rates == sorted(rates, reverse=True) or "came out above" in " ".join(measured.warnings)


def test_latencies_and_faults_are_there(measured: Measurement) -> None:
    memory = {level.level: level.latency_s for level in measured.machine.memory}
    assert "dram" in memory
    assert all(latency_s and latency_s > 0 for latency_s in memory.values())
    assert measured.machine.roofs()["fault"].threads


def test_it_is_saved_and_read_back(measured: Measurement, tmp_path: Path) -> None:
    path = tmp_path / "machine.toml"
    write_machine(measured.machine, path)
    # A note of a busy machine comes back as plain text; a launch is written in seconds each, whose
    # reciprocal may be another in the last digit.
    back, before = (msgspec.to_builtins(m) for m in (read_machine(path), measured.machine))
    rates = [[ceiling.pop("rate") for ceiling in one["ceilings"]] for one in (back, before)]
    assert rates[0] == pytest.approx(rates[1], rel=1e-12)
    assert back == before
    text = msgspec.json.encode(measured)
    assert msgspec.json.decode(text, type=Measurement) == measured


def _measure_cpu(root: Path, threads: int | None = None) -> CpuFindings:
    return measure_cpu(
        quick=True,
        threads=threads,
        steps=Steps(None, 1.0),
        budget=Budget(0.0),
        root=root,
        topology=read_topology(root, allowed=sorted(_cpus())[:1]),
    )


def _cpus() -> set[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else {0}


def test_one_core_without_sysfs_works_and_says_what_it_assumed(tmp_path: Path) -> None:
    found = _measure_cpu(tmp_path)
    assert {len(own) for own in found.cpus.values()} == {1}
    assert "does not say its cache sizes" in " ".join(found.notes)
    resources = {ceiling.resource for ceiling in found.ceilings}
    assert {"flop/fp64", "byte/l1", "byte/dram"} <= resources
    assert all("assumed" in level.source for level in found.memory)


PROGRAM = """
import sys
from timeroof.probe.measure import load_or_measure
load_or_measure(fresh=True, progress=lambda name, share: print(name, flush=True))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for child processes")
def test_ctrl_c_in_the_middle_leaves_the_kept_one_intact(
    measured: Measurement, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(store.HOME_VARIABLE, str(tmp_path))
    key = door.current_fingerprint()
    store.save(msgspec.structs.replace(measured, fingerprint=key, quick=False))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert "sitting 1" in child.stdout.readline()
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    # Python's own end after Ctrl-C, not a crash inside a kernel.
    assert child.returncode in (130, -signal.SIGINT)
    assert "KeyboardInterrupt" in errors
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert door.cached_machine() == measured.machine
