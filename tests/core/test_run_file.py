"""Saved runs: refused where broken or newer, never half-written."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from timeroof.api.reports import load
from timeroof.core import run_file
from timeroof.core.errors import InputError, Note, SchemaError, as_notes
from timeroof.core.machine import Machine
from timeroof.core.profile import Profile, Source, Steps
from timeroof.core.run_file import SavedRun, load_run, save_run


@pytest.fixture
def saved(tmp_path: Path, machine: Machine) -> Path:
    profile = Profile.of(
        [{"name": "k", "time_s": 1.0}], Source(tool="t"), notes=(Note("n", "test", "warning"),)
    )
    save_run(SavedRun(profile, machine), tmp_path / "a.troof")
    return tmp_path / "a.troof"


def rewritten(path: Path, **members: bytes | None) -> Path:
    """A copy with members replaced, or left out where None."""
    with zipfile.ZipFile(path) as old:
        files = {name: old.read(name) for name in old.namelist()}
    names = {"meta": "meta.json", "kernels": "kernels.parquet"}
    for key, value in members.items():
        if value is None:
            del files[names[key]]
        else:
            files[names[key]] = value
    out = path.with_name("b.troof")
    with zipfile.ZipFile(out, "w") as new:
        for name, data in files.items():
            new.writestr(name, data)
    return out


def meta_of(path: Path) -> dict[str, object]:
    with zipfile.ZipFile(path) as archive:
        data: dict[str, object] = json.loads(archive.read("meta.json"))
        return data


def test_it_is_a_zip_with_the_promised_members(saved: Path) -> None:
    with zipfile.ZipFile(saved) as archive:
        assert set(archive.namelist()) == {"meta.json", "kernels.parquet"}
    assert {"schema", "machine", "source", "totals"} <= set(meta_of(saved))
    (note,) = as_notes(load_run(saved).profile.notes)
    assert (note, note.code, note.level) == ("n", "test", "warning")


def test_a_newer_schema_is_refused_by_name(saved: Path) -> None:
    newer = meta_of(saved) | {"schema": "timeroof.run/3", "unheard": 1}
    path = rewritten(saved, meta=json.dumps(newer).encode())
    with pytest.raises(SchemaError) as caught:
        load_run(path)
    assert "timeroof.run/3" in caught.value.message
    assert "update" in caught.value.message
    assert str(path) in caught.value.message


@pytest.mark.parametrize(
    "members",
    [
        {"meta": None},
        {"kernels": None},
        {"meta": b"{"},
        {"meta": b"[]"},
        {"meta": b'{"schema": "timeroof.run/1"}'},
        {"kernels": b"no parquet"},
    ],
)
def test_broken_members_are_refused(saved: Path, members: dict[str, bytes | None]) -> None:
    with pytest.raises(InputError) as caught:
        load_run(rewritten(saved, **members))
    assert "b.troof" in caught.value.message


def test_files_that_are_no_runs(tmp_path: Path, saved: Path) -> None:
    (tmp_path / "text.troof").write_text("hello")
    with pytest.raises(InputError, match="zip"):
        load_run(tmp_path / "text.troof")
    with pytest.raises(InputError, match="cannot be read"):
        load_run(tmp_path / "none.troof")
    cut = tmp_path / "cut.troof"
    cut.write_bytes(saved.read_bytes()[:-40])
    with pytest.raises(InputError):
        load_run(cut)


def test_a_bad_machine_inside_is_refused(saved: Path) -> None:
    meta = meta_of(saved)
    meta["machine"]["ceilings"][0]["rate"] = -1.0  # type: ignore[index]
    with pytest.raises(InputError, match=r"ceilings\[0\]"):
        load_run(rewritten(saved, meta=json.dumps(meta).encode()))


def test_a_member_that_unpacks_too_large_is_refused(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_file, "MAX_MEMBER_BYTES", 10)
    with pytest.raises(InputError, match="unpacks"):
        load_run(saved)


def test_a_failed_save_leaves_the_old_file(
    saved: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = saved.read_bytes()

    def broken(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", broken)
    profile = Profile.of([{"name": "k", "time_s": 2.0}], Source(tool="t"))
    with pytest.raises(InputError, match="No space left"):
        save_run(SavedRun(profile, machine), saved)
    assert saved.read_bytes() == before
    assert sorted(p.name for p in saved.parent.iterdir()) == ["a.troof"]


def test_a_folder_that_cannot_be_made(tmp_path: Path, machine: Machine) -> None:
    (tmp_path / "file").write_text("")
    profile = Profile.of([{"name": "k", "time_s": 2.0}], Source(tool="t"))
    with pytest.raises(InputError, match="cannot be written"):
        save_run(SavedRun(profile, machine), tmp_path / "file" / "a.troof")


def test_samples_timeline_and_rungs_survive(tmp_path: Path, machine: Machine) -> None:
    import polars as pl

    timeline = pl.DataFrame({"start_s": [0.0], "duration_s": [1.0], "stream": ["1"], "kernel": [0]})
    rungs = pl.DataFrame({"name": ["ideal"], "time_s": [1.0]})
    profile = Profile.of(
        [{"name": "a", "time_s": 1.0, "samples": [1.0, 1.1]}, {"name": "b", "time_s": 2.0}],
        Source(tool="t"),
        timeline=timeline,
        rungs=rungs,
    )
    save_run(SavedRun(profile, None), tmp_path / "a.troof")
    again = load_run(tmp_path / "a.troof")
    assert again.machine is None
    assert again.profile.kernels["samples"].to_list() == [None, [1.0, 1.1]]
    assert again.profile.timeline is not None
    assert again.profile.timeline.drop("idle_cause").equals(timeline)
    assert again.profile.rungs is not None
    assert again.profile.rungs.equals(rungs)
    with zipfile.ZipFile(io.BytesIO((tmp_path / "a.troof").read_bytes())) as archive:
        assert "samples.parquet" in archive.namelist()


LIVE = sorted((Path(__file__).parents[1] / "golden" / "live").glob("*.troof"))


@pytest.mark.parametrize("path", LIVE, ids=lambda path: path.stem)
def test_an_older_live_run_comes_in_seconds_of_an_unprofiled_step(path: Path) -> None:
    meta = meta_of(path)
    assert meta["schema"] == "timeroof.run/1"
    old: Any = meta["whole"]
    profile = load_run(path).profile
    assert profile.steps is not None
    assert profile.wall_s == profile.steps.unprofiled_s == old["steps"]["clean_s"]
    assert profile.steps.profiled_s == old["steps"]["timed_s"] == old["wall_s"]
    assert profile.steps.samples == old["steps"]["clean_samples"]
    assert profile.kernel_s == old["kernel_s"]
    profiler_s = old["idle_by_cause"].pop("profiler", 0.0)
    # The contract's word for a cause that older runs call the dispatcher's.
    causes = {c.replace("dispatcher", "dispatch"): s for c, s in old["idle_by_cause"].items()}
    assert profile.idle_by_cause == pytest.approx(causes)
    totals = load(path).totals
    corrected_s = old["wall_s"] - profiler_s
    assert totals.unexplained_s == pytest.approx(profile.wall_s - corrected_s, rel=1e-6)
    assert totals.kernel_s is not None
    assert totals.idle_s is not None
    assert totals.wall_s == pytest.approx(totals.kernel_s + totals.idle_s + totals.unexplained_s)
    assert not any(str(note).startswith("residual") for note in profile.notes)


def test_an_older_live_run_without_unprofiled_steps_is_the_corrected_one(saved: Path) -> None:
    meta: Any = meta_of(saved)
    meta |= {"schema": "timeroof.run/1", "source": {"tool": "timeroof run"}}
    meta["whole"] |= {
        "wall_s": 2.0, "kernel_s": 1.0, "idle_by_cause": {"python": 0.25, "profiler": 0.5},
        "steps": {"count": 1, "timed_s": 2.0}, "notes": ["partial: it was stopped", "residual: x"],
    }  # fmt: skip
    profile = load_run(rewritten(saved, meta=json.dumps(meta).encode())).profile
    assert profile.wall_s == 1.5
    assert profile.idle_by_cause == {"python": 0.25, "unknown": 0.25}
    assert profile.steps == Steps(count=1, profiled_s=2.0)
    assert [(note, note.code) for note in as_notes(profile.notes)] == [
        ("partial: it was stopped", "partial")
    ]


def test_an_older_run_of_a_file_stays_as_it_was(saved: Path) -> None:
    meta: Any = meta_of(saved) | {"schema": "timeroof.run/1"}
    meta["whole"] |= {"wall_s": 2.0, "idle_by_cause": {"profiler": 0.5}, "notes": []}
    profile = load_run(rewritten(saved, meta=json.dumps(meta).encode())).profile
    assert (profile.wall_s, profile.idle_by_cause) == (2.0, {"profiler": 0.5})
