"""ARCHITECTURE.md is a true map: its rooms are those on disk, in the order of the spine."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAP = (ROOT / "ARCHITECTURE.md").read_text("utf-8")


def rooms_on_the_map() -> list[str]:
    table = MAP.split("## Rooms", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^\| `(\w+)/` \|", table, re.MULTILINE)


def test_every_room_is_on_the_map_and_nothing_else_lies_beside_them() -> None:
    package = ROOT / "src" / "timeroof"
    on_disk = {p.name for p in package.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert set(rooms_on_the_map()) == on_disk
    assert {p.name for p in package.glob("*.py")} == {"__init__.py", "__main__.py"}


def test_the_map_has_the_order_that_the_linter_holds() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = config["tool"]["importlinter"]["contracts"]
    (spine,) = [c for c in contracts if c["name"].startswith("The spine")]
    order = [room for layer in reversed(spine["layers"]) for room in layer.split(" | ")]
    assert rooms_on_the_map() == order
    assert "ignore_imports" not in spine


def test_what_the_table_of_rooms_names_is_in_the_room() -> None:
    table = MAP.split("## Rooms", 1)[1].split("\n## ", 1)[0]
    for room, row in re.findall(r"^\| `(\w+)/` \|(.*)\|$", table, re.MULTILINE):
        files = [*(ROOT / "src" / "timeroof" / room).rglob("*")]
        text = "\n".join(p.read_text("utf-8") for p in files if p.suffix == ".py")
        for name in re.findall(r"`([a-z_/]+)`", row):
            last = name.rstrip("/").split("/")[-1]
            is_file = any(p.stem == last and name.rstrip("/") in str(p) for p in files)
            assert is_file or re.search(rf"\bdef {last}\b", text), (room, name)


def test_modules_that_the_walks_name_exist() -> None:
    walks = MAP.split("## A walk", 1)[1].split("## The central table", 1)[0]
    named = set(re.findall(r"`((?:cli|api|read|work|model|advice|views|live)(?:\.\w+)+)", walks))
    assert named
    for name in sorted(named):
        parts = name.split(".")
        places = [ROOT / "src" / "timeroof" / Path(*parts[:n]) for n in range(2, len(parts) + 1)]
        found = [p for p in places if p.with_suffix(".py").exists() or p.is_dir()]
        assert found, name
        module = found[-1].with_suffix(".py")
        left = parts[len(found[-1].relative_to(ROOT / "src" / "timeroof").parts) :]
        if left and module.exists():
            assert re.search(rf"\b(def|class) {left[0]}\b", module.read_text("utf-8")), name
