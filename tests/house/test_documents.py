"""What code and docs point to is in the repository, and what they tell to install can be had."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from timeroof.core.machine import KINDS, LEVELS, PHASES, PRECISIONS

ROOT = Path(__file__).resolve().parents[2]
CODE = [*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*.md")]
# Packages are imported under names of their own.
IMPORTED_AS = {
    "ncu-report": "ncu_report",
    "tensorflow-cpu": "tensorflow",
    "dask-jobqueue": "dask_jobqueue",
}


def texts(paths: list[Path]) -> dict[str, str]:
    return {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8") for p in paths}


def test_pages_that_the_code_cites_are_there() -> None:
    for name, text in texts([*CODE, *PAGES]).items():
        if name == "tests/house/test_documents.py":
            continue
        cited = re.findall(r"\bdocs/[a-z_]+\.md|\bcontract\.md", text)
        assert all((ROOT / page).is_file() for page in cited), (name, cited)


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([\w./-]+\.\w+)[)#]", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), (page.name, target)


def test_nothing_is_installed_from_an_index_that_does_not_have_it() -> None:
    """There is no release of timeroof: it is installed from its repository."""
    wrong = re.compile(r"pip install [^\n]*(?<![\w./-])timeroof\b(?!/)")
    for name, text in texts([*CODE, *PAGES]).items():
        if name != "tests/house/test_documents.py":
            assert not wrong.search(text), name


def test_every_extra_is_imported_by_something() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    source = "\n".join(texts(list((ROOT / "src").rglob("*.py"))).values())
    for extra, packages in project["optional-dependencies"].items():
        for package in packages if extra != "dev" else ():
            name = re.split(r"[<>=\[]", package)[0]
            module = re.escape(IMPORTED_AS.get(name, name))
            assert re.search(rf'import {module}\b|import_module\("{module}"\)', source), package


def test_the_page_of_words_has_every_name() -> None:
    page = (ROOT / "docs" / "model.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in page for name in (*PRECISIONS, *LEVELS, *PHASES, *KINDS))
