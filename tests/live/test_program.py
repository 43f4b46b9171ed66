"""Modules are noticed when a program imports them, once, and its options are its own."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import sys
import threading
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

from timeroof.cli.run import after_module
from timeroof_recorder.process import Waiting, after_import


def test_the_options_of_a_module_are_its_own() -> None:
    takers = {"--steps", "-m"}
    assert after_module(["-m", "x", "-m", "y"], takers) == ["-m", "x", "--", "-m", "y"]
    assert after_module(["a.py", "-m", "x"], takers) == ["a.py", "-m", "x"]
    assert after_module(["--steps", "-m"], takers) == ["--steps", "-m"]


def test_an_import_is_noticed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "awaited_module.py").write_text("value = 5\n")
    monkeypatch.syspath_prepend(tmp_path)
    seen: list[int] = []
    after_import("awaited_module", lambda: seen.append(sys.modules["awaited_module"].value))
    assert seen == []
    import awaited_module  # type: ignore[import-not-found]

    assert seen == [5]
    assert type(awaited_module.__loader__).__name__ == "SourceFileLoader"
    after_import("awaited_module", lambda: seen.append(1))
    assert seen == [5, 1]
    before = list(sys.meta_path)
    take_back = after_import("never_imported", lambda: seen.append(2))
    # Another test of this process may wait for something, too.
    assert len([finder for finder in sys.meta_path if isinstance(finder, Waiting)]) == 1
    take_back()
    assert sys.meta_path == before


def test_looking_for_a_module_is_not_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "looked_for.py").write_text("value = 6\n")
    monkeypatch.syspath_prepend(tmp_path)
    seen: list[int] = []
    before = list(sys.meta_path)
    after_import("looked_for", lambda: seen.append(sys.modules["looked_for"].value))
    for _ in range(3):
        spec = importlib.util.find_spec("looked_for")
        assert spec is not None
        assert isinstance(spec.loader, SourceFileLoader)
        assert type(copy.deepcopy(spec.loader)) is SourceFileLoader
    assert seen == []
    # Loaded by hand, for the caller alone.
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert seen == []
    module = importlib.import_module("looked_for")
    assert seen == [6]
    assert type(module.__spec__.loader) is type(module.__loader__) is SourceFileLoader
    assert sys.meta_path == before
    importlib.reload(module)
    assert seen == [6]


def test_an_import_that_fails_is_awaited_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fails_first.py").write_text("import sys\nif 'ready' not in sys.argv: 1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    seen: list[str] = []
    after_import("fails_first", lambda: seen.append("loaded"))
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            importlib.import_module("fails_first")
    assert seen == []
    monkeypatch.setattr(sys, "argv", ["ready"])
    importlib.import_module("fails_first")
    assert seen == ["loaded"]


def test_an_import_in_another_thread_is_noticed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in_a_thread.py").write_text("import time\ntime.sleep(0.05)\n")
    monkeypatch.syspath_prepend(tmp_path)
    seen: list[str] = []
    after_import("in_a_thread", lambda: seen.append(threading.current_thread().name))
    threads = [
        threading.Thread(target=importlib.import_module, args=("in_a_thread",), name="theirs")
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == ["theirs"]


def test_finders_that_ask_all_others_come_to_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another tool with a finder of this kind, which asks ours, which asks it."""
    (tmp_path / "asked_for.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)

    class Asking:
        busy = False

        def find_spec(self, name: str, path: object, target: object = None) -> object:
            if name != "asked_for" or self.busy:
                return None
            self.busy = True
            try:
                return importlib.util.find_spec(name)
            finally:
                self.busy = False

    seen: list[str] = []
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    after_import("asked_for", lambda: seen.append("one"))
    sys.meta_path.insert(0, Asking())  # type: ignore[arg-type]
    sys.meta_path.append(Asking())  # type: ignore[arg-type]
    after_import("asked_for", lambda: seen.append("two"))
    importlib.import_module("asked_for")
    assert sorted(seen) == ["one", "two"]
