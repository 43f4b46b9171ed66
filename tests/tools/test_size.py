"""What is counted as the weight of the house, and how many modules a command runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from modules_touched import counted_modules, touched_by
from size import LIMITS, SRC, main, weigh

MODULES = {
    "__init__.py": "",
    "alone.py": '"""Doc\nstring."""\nfrom typing import Any\n\nx: Any = 1\n',
    "shared.py": "from ours.alone import x\n",
    "one.py": "from ours import shared\n",
    "two.py": "from ours.shared import (\n    x,\n)\n# a comment\ny = x\n",
    "rules/rule.py": "from ours import one\n",
    "broad.py": "from contextlib import suppress\ntry:\n    pass\nexcept (OSError, Exception):\n    pass\n"
    "with suppress(Exception):\n    pass\nwith suppress(OSError):\n    pass\n",
    "long.py": "def long():\n" + "    pass\n" * 60,
    "nvidia/table.py": "",
    "a/table.py": "",
    "b/table.py": "",
    "c/table.py": "",
}


@pytest.fixture
def src(tmp_path: Path) -> Path:
    for name, text in MODULES.items():
        path = tmp_path / "src" / "ours" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "src"


def test_modules_with_one_importer_are_counted_registries_aside(src: Path) -> None:
    # `one` is imported by a rule only; the rule itself by nobody, since a registry finds it.
    assert weigh(src).single == ["ours.alone", "ours.one"]


def test_import_lines_are_a_share_of_lines_that_hold_code(src: Path) -> None:
    weight = weigh(src)
    assert weight.import_lines == 1 + 1 + 1 + 3 + 1 + 1
    assert weight.code_lines == 2 + 1 + 1 + 4 + 1 + 9 + 61
    assert weight.files == len(MODULES)


def test_any_broad_excepts_and_long_functions_are_found(src: Path) -> None:
    weight = weigh(src)
    assert weight.any_uses == 1
    assert weight.broad_excepts == ["ours/broad.py:4", "ours/broad.py:6"]
    assert weight.long_functions == [(61, "ours/long.py:1 long")]


def test_names_of_files_are_alike_from_four_on_vendors_aside(src: Path) -> None:
    assert weigh(src).alike == {}
    path = src / "ours" / "d" / "table.py"
    path.parent.mkdir()
    path.write_text("")
    assert weigh(src).alike == {"table.py": ["ours/a", "ours/b", "ours/c", "ours/d"]}


def test_check_fails_where_a_limit_is_broken(src: Path, capsys: pytest.CaptureFixture[str]) -> None:
    within = [str(src), "--check", "--most-imports", "50"]
    assert main(within) == 0
    assert main([*within, "--most-files", "3"]) == 1
    assert main([str(src), "--most-files", "3"]) == 0
    assert "12 Python files (limit 3)  OVER" in capsys.readouterr().out


def test_the_house_holds_its_limits_but_that_of_lines() -> None:
    """The limit of lines was set before half of the features were there."""
    weight = weigh(SRC)
    over = {key for key, figure in weight.figures.items() if figure > LIMITS[key]}
    assert over <= {"lines"}
    assert weight.alike == {}


def test_modules_are_named_and_registries_and_others_left_out(tmp_path: Path) -> None:
    package = tmp_path / "ours"
    files = {
        str(package / "api.py"),
        str(package / "advice" / "__init__.py"),
        str(package / "advice" / "rules" / "fuse.py"),
        "/usr/lib/python3/json.py",
        "<string>",
    }
    assert counted_modules(files, [package]) == ["ours.advice", "ours.api"]


def test_a_command_says_which_modules_ran(tmp_path: Path) -> None:
    run = Path(__file__).parents[1] / "golden" / "live" / "conv_padding.troof"
    code, modules = touched_by("read", [str(run)])
    assert code == 0
    assert "timeroof.__main__" in modules
    assert len(modules) > 3
    assert not any(".rules." in name or ".families." in name for name in modules)
