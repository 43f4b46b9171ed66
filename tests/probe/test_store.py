"""The kept measurement: found again, never half written, measured anew where it is broken."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from timeroof.core.machine import Ceiling, Machine
from timeroof.probe import measure as door, measure as store
from timeroof.probe.cpu.topology import is_virtual
from timeroof.probe.measure import fingerprint, hardware, software
from timeroof.probe.sampling import Budget, Measurement, Steps

from .test_levels import shape


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(store.HOME_VARIABLE, str(tmp_path))
    monkeypatch.setattr(door, "current_fingerprint", lambda **_: "key")
    return tmp_path


def made(rate: float = 1.0, *, quick: bool = False) -> Measurement:
    ceilings = [Ceiling(resource="flop/fp32", rate=rate, origin="measured")]
    machine = Machine(name="here", device="Fake", ceilings=ceilings, kind="cpu")
    return Measurement(machine=machine, quick=quick, fingerprint="key")


def rate(measurement: Measurement | None) -> float | None:
    return None if measurement is None else measurement.machine.ceilings[0].rate


def test_what_is_kept_comes_back() -> None:
    kept = made(3.0)
    store.save(kept)
    assert store.load("key", quick=False) == (kept, None)
    assert store.load("other", quick=False) == (None, None)


def test_a_full_measurement_goes_before_a_quick_one() -> None:
    store.save(made(1.0, quick=True))
    assert rate(door.load_best("key")[0]) == 1.0
    store.save(made(2.0))
    assert rate(door.load_best("key")[0]) == 2.0
    assert (door.cached_machine() or made().machine).ceilings[0].rate == 2.0


def test_load_or_measure_measures_once() -> None:
    calls = []

    def measuring(**how: object) -> Measurement:
        calls.append(how)
        return made(float(len(calls)), quick=bool(how["quick"]))

    assert rate(door.load_or_measure(quick=True, measuring=measuring)) == 1.0
    assert rate(door.load_or_measure(quick=True, measuring=measuring)) == 1.0
    # A quick one does not serve where a full one is asked for; a full one serves both.
    assert rate(door.load_or_measure(measuring=measuring)) == 2.0
    assert rate(door.load_or_measure(quick=True, measuring=measuring)) == 2.0
    assert rate(door.load_or_measure(fresh=True, measuring=measuring)) == 3.0
    assert len(calls) == 3


@pytest.mark.parametrize("was_quick", [True, False])
def test_a_disturbed_measurement_is_replaced_by_the_next(was_quick: bool) -> None:
    store.save(msgspec.structs.replace(made(1.0, quick=was_quick), is_disturbed=True))
    # Who cannot wait takes it.
    assert (door.cached_machine() or made().machine).ceilings[0].rate == 1.0

    def measuring(**how: object) -> Measurement:
        return made(2.0, quick=bool(how["quick"]))

    assert rate(door.load_or_measure(quick=True, measuring=measuring)) == 1.0
    found = door.load_or_measure(quick=True, calm=True, measuring=measuring)
    assert rate(found) == 2.0
    assert any("disturbed" in note for note in found.notes)
    assert (door.cached_machine() or made().machine).ceilings[0].rate == 2.0
    assert rate(door.load_or_measure(quick=True, calm=True, measuring=lambda **_: made(3.0))) == 2.0


def test_memory_that_another_measurement_contradicts_is_told() -> None:
    """A virtual machine reads memory at 165 or at 83 GB/s, as its host places it."""

    def memory(rate: float) -> Measurement:
        dram = Ceiling(resource="byte/dram", rate=rate, origin="measured")
        found = msgspec.structs.replace(made(), created="2026-01-02T03:04:05+00:00")
        machine = msgspec.structs.replace(found.machine, ceilings=[dram])
        return msgspec.structs.replace(found, machine=machine)

    def again(rate: float) -> list[str]:
        return door.load_or_measure(fresh=True, measuring=lambda **_: memory(rate)).notes

    assert again(165e9) == []
    assert again(150e9) == []
    (note,) = again(83e9)
    assert "Memory gives 83.0 GB/s now" in note
    assert "it gave 150 GB/s" in note
    # It is a word of that run: what is kept stays as it was measured.
    assert door.load_or_measure(measuring=lambda **_: memory(1.0)).notes == []


@pytest.mark.parametrize(("flags", "virtual"), [("fpu hypervisor lm", True), ("fpu lm", False)])
def test_a_hypervisor_is_seen(tmp_path: Path, flags: str, virtual: bool) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(f"processor : 0\nflags\t\t: {flags}\n")
    assert is_virtual(tmp_path) is virtual
    assert not is_virtual(tmp_path / "nowhere")


def test_ctrl_c_leaves_the_previous_one_intact(home: Path) -> None:
    store.save(made(5.0))
    before = {path: path.read_bytes() for path in home.rglob("*.json")}

    def interrupted(**_: object) -> Measurement:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        door.load_or_measure(fresh=True, measuring=interrupted)
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before
    assert rate(door.load_best("key")[0]) == 5.0


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b'{"machine": 3}', b"[]", msgspec.json.encode(made(-1.0))],
)
def test_a_broken_file_is_measured_again_with_a_note(content: bytes) -> None:
    path = store.path_of("key", quick=False)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    assert door.load_best("key")[0] is None
    found = door.load_or_measure(measuring=lambda **_: made(7.0))
    assert rate(found) == 7.0
    assert "measured again" in found.notes[0]
    assert rate(door.load_best("key")[0]) == 7.0


def test_a_file_of_another_machine_or_version_is_not_used() -> None:
    store.save(msgspec.structs.replace(made(), schema="timeroof.measurement/0"))
    found, note = store.load("key", quick=False)
    assert found is None
    assert "another version" in (note or "")


def test_home_without_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(store.HOME_VARIABLE)
    assert store.home().name == "timeroof"


def test_fingerprints_differ_by_hardware_software_and_threads() -> None:
    one, two = (hardware(shape(cores=n), "znver4", 8 << 30) for n in (1, 2))
    keys = {
        fingerprint(one, software(), None, "cpu"),
        fingerprint(two, software(), None, "cpu"),
        fingerprint(one, software(), 1, "cpu"),
        fingerprint(one, {}, None, "cpu"),
        fingerprint(one, software(), None, "cuda"),
    }
    assert len(keys) == 5
    assert {"python", "os", "llvmlite"} <= software().keys()


def test_a_budget_ends() -> None:
    now = iter([0.0, 1.0, 9.0])
    budget = Budget(10.0, clock=lambda: next(now))
    assert budget.left(0.5)
    assert not budget.left(0.5)


def test_steps_without_a_listener() -> None:
    told: list[tuple[str, float]] = []
    for listener in (None, lambda what, share: told.append((what, share))):
        steps = Steps(listener, 1.0)
        steps.begin("a", 1.0)
        steps.end()
    assert told[0][0] == "a"
    assert told[-1][1] == 1.0


def test_a_folder_that_cannot_be_written_costs_no_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(store.HOME_VARIABLE, str(tmp_path / "file"))
    found = door.load_or_measure(measuring=lambda **_: made(7.0))
    assert rate(found) == 7.0
    told = next(note for note in found.notes if "could not be kept" in note)
    assert store.HOME_VARIABLE in told


def test_a_damaged_file_is_told_once_and_not_kept(home: Path) -> None:
    path = store.path_of("key", quick=False)
    path.parent.mkdir(parents=True)
    path.write_text("{")
    assert "cannot be used" in door.load_or_measure(measuring=lambda **_: made(2.0)).notes[0]
    assert door.load_or_measure(measuring=lambda **_: made(3.0)).notes == []
