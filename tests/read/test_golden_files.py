"""Small files in every layout, invented by us: snapshot, blind sniffing, save and load."""

from __future__ import annotations

import gzip
import json
import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import zstandard

from timeroof.core.errors import as_notes
from timeroof.core.profile import Profile
from timeroof.core.run_file import SavedRun, load_run, save_run
from timeroof.read.load import plan_of, read_files
from timeroof.read.open import open_input

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "read"
EXPECTED: dict[str, Any] = json.loads((GOLDEN / "expected.json").read_text())
NAMES = sorted(EXPECTED)
FILES = [name for name in NAMES if (GOLDEN / name).is_file()]
LEFT_OUT = ("id", "short_name", "launches")


def rows_of(profile: Profile) -> list[dict[str, Any]]:
    return [
        {c: v for c, v in row.items() if v is not None and c not in LEFT_OUT}
        for row in profile.kernels.to_dicts()
    ]


def assert_same(found: object, expected: object, where: str = "") -> None:
    if isinstance(expected, float) and isinstance(found, float):
        assert found == pytest.approx(expected, rel=1e-9), where
    elif isinstance(expected, dict):
        assert isinstance(found, dict), where
        assert set(found) == set(expected), where
        for key in expected:
            assert_same(found[key], expected[key], f"{where}/{key}")
    elif isinstance(expected, list):
        assert isinstance(found, list), where
        assert len(found) == len(expected), where
        for index, value in enumerate(expected):
            assert_same(found[index], value, f"{where}/{index}")
    else:
        assert found == expected, where


def test_every_golden_file_has_an_expectation() -> None:
    assert {p.name for p in GOLDEN.iterdir()} - {"expected.json"} == set(EXPECTED)


@pytest.mark.parametrize("name", NAMES)
def test_snapshot(name: str) -> None:
    profile = read_files([GOLDEN / name])
    expected = EXPECTED[name]
    assert_same(rows_of(profile), expected["rows"], name)
    assert profile.device == expected["device"]
    assert profile.source.command == expected["command"]
    assert [note.code for note in as_notes(profile.notes)] == expected["notes"]
    assert_same(profile.wall_s, expected["wall_s"])
    assert_same(profile.kernel_s, expected["kernel_s"])


@pytest.mark.parametrize("name", FILES)
def test_blind_sniffing_in_every_wrapping(name: str, tmp_path: Path) -> None:
    data = (GOLDEN / name).read_bytes()
    wrapped = {
        "plain": data,
        "gz": gzip.compress(data),
        "zst": zstandard.ZstdCompressor().compress(data),
    }
    for kind, content in wrapped.items():
        path = tmp_path / kind
        path.write_bytes(content)
        assert plan_of(open_input(path)).jobs[0].format.name == EXPECTED[name]["format"], kind
    with zipfile.ZipFile(tmp_path / "x", "w") as archive:
        archive.writestr("y", data)
    with tarfile.open(tmp_path / "t", "w") as tar:
        tar.add(GOLDEN / name, "z")
    for packed in ("x", "t"):
        assert_same(rows_of(read_files([tmp_path / packed])), EXPECTED[name]["rows"])


@pytest.mark.parametrize("name", NAMES)
def test_save_and_load_is_the_identity(name: str, tmp_path: Path) -> None:
    profile = read_files([GOLDEN / name])
    save_run(SavedRun(profile, None), tmp_path / "run.troof")
    loaded = load_run(tmp_path / "run.troof").profile
    assert loaded.kernels.select(profile.kernels.columns).equals(profile.kernels)
    assert loaded.source == profile.source
    assert loaded.notes == profile.notes
    again = read_files([tmp_path / "run.troof"])
    assert again.kernels.equals(loaded.kernels)


@pytest.mark.parametrize("name", FILES)
def test_utf16_reads_the_same(name: str, tmp_path: Path) -> None:
    text = (GOLDEN / name).read_bytes().removeprefix(b"\xef\xbb\xbf").decode()
    path = tmp_path / "powershell"
    path.write_bytes(text.encode("utf-16"))
    assert_same(rows_of(read_files([path])), EXPECTED[name]["rows"])


def test_files_have_names_and_digests_without_their_folder(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "ncu_metrics", tmp_path / "secret" / "run")
    files = read_files([tmp_path / "secret" / "run"]).source.files
    assert [f.name for f in files][:2] == ["out.a", "out.b"]
    assert all(f.sha256 and len(f.sha256) == 64 for f in files)
    one = read_files([tmp_path / "secret" / "run" / "out.a", tmp_path / "secret" / "run" / "out.b"])
    assert [f.name for f in one.source.files] == ["out.a", "out.b"]
