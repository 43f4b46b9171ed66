"""What is kept between runs: made once, never trusted blindly, never needed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from timeroof.core import files as module
from timeroof.core.files import cache_folder, kept, stamp
from timeroof.views.page import templates


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIMEROOF_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def only_file() -> Path:
    (found,) = cache_folder().iterdir()
    return found


class Maker:
    """Counts how often the thing was made."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> bytes:
        self.times += 1
        return b"dear"


def test_a_thing_is_made_once_for_each_key() -> None:
    make = Maker()
    assert [kept("thing", "a", make), kept("thing", "a", make)] == [b"dear", b"dear"]
    assert make.times == 1
    kept("thing", "b", make)
    assert make.times == 2


@pytest.mark.parametrize("damage", [b"", b"short", b"\0" * 36])
def test_a_damaged_file_is_made_again(damage: bytes) -> None:
    make = Maker()
    kept("thing", "a", make)
    only_file().write_bytes(damage)
    assert kept("thing", "a", make) == b"dear"
    assert kept("thing", "a", make) == b"dear"
    assert make.times == 2


def test_a_file_of_another_user_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    make = Maker()
    kept("thing", "a", make)
    monkeypatch.setattr(module.os, "geteuid", lambda: os.getuid() + 1)
    assert kept("thing", "a", make) == b"dear"
    assert make.times == 2


def test_a_folder_that_cannot_be_written_is_no_error(home: Path) -> None:
    home.write_text("a file where the folder should be")
    make = Maker()
    assert [kept("thing", "a", make), kept("thing", "a", make)] == [b"dear", b"dear"]
    assert make.times == 2


def test_a_stamp_changes_with_the_file(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text("one")
    before = stamp(file)
    file.write_text("three")
    assert stamp(file) != before


def test_a_kept_template_is_the_same_and_an_edited_one_is_made_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "{% for x in rows %}\n{{ x }} {{ s | seconds }}\n{% endfor %}\n"

    def render(text: str) -> str:
        monkeypatch.setattr(templates, "asset", lambda _path, _package: text)
        made = templates.page_template.__wrapped__("t.html.j2")
        return str(made.render(rows=["<a>", "b"], s=1e-3))

    first = render(text)
    assert first == "&lt;a&gt; 1.00 ms\nb 1.00 ms\n"
    file = only_file()
    assert render(text) == first
    assert only_file() == file
    assert render(text.replace("{{ x }}", "[{{ x }}]")) == "[&lt;a&gt;] 1.00 ms\n[b] 1.00 ms\n"
