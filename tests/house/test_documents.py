"""What code and docs point to is in the repository, and what they tell to install can be had."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from functools import cache
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


ROOMS = "|".join(p.name for p in (ROOT / "src" / "timeroof").iterdir() if p.is_dir())
# `timeroof.work.cost`, `work.cost` between backticks, `src/timeroof/work/cost.py`.
NAMED = re.compile(
    rf"(?<![\w./-])(?:timeroof\.(?:{ROOMS})|timeroof_recorder)(?:\.(?!pth\b)[A-Za-z_]\w*)+"
    rf"|(?<=`)(?:{ROOMS})(?:\.(?!json\b|troof\b)[A-Za-z_]\w*)+(?=(?:\(\))?`)"
    rf"|(?<![\w/])src/timeroof(?:_recorder)?(?:/\w+)+|(?<=`)(?:{ROOMS})(?:/\w+)+(?=\.py`)"
)


def words_of(path: Path) -> str:
    """A page whole; of code its comments and docstrings, which no import checks."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    said = [token.string for token in tokens if token.type == tokenize.COMMENT]
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, documented))
    return "\n".join([*said, *(ast.get_docstring(node) or "" for node in nodes)])


@cache
def names_in(path: Path) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", path.read_text(encoding="utf-8")))


def is_there(name: str) -> bool:
    """Whether a module, a folder or a name within one is what words call it."""
    parts = re.split(r"[./]", name.removeprefix("src/"))
    place = ROOT / "src"
    parts = parts if parts[0].startswith("timeroof") else ["timeroof", *parts]
    while parts and (place / parts[0]).is_dir():
        place /= parts.pop(0)
    if not parts:
        return True
    file = place / f"{parts[0]}.py"
    if file.is_file():
        return len(parts) == 1 or parts[1] in names_in(file)
    beside = [*place.glob(f"{parts[0]}.*"), place / "__init__.py"]
    return beside[0].suffix != ".py" or parts[0] in names_in(beside[0])


def test_modules_that_words_name_are_there() -> None:
    files = [p for p in PAGES if p.name != "CHANGELOG.md"]
    files += [p for d in ("src", "tests", "tools", "benchmarks") for p in (ROOT / d).rglob("*.py")]
    gone = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in files
        for name in NAMED.findall(words_of(path))
        if not is_there(name)
    }
    assert gone == set()


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
