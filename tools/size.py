"""What the house weighs: files, lines, modules with one importer, imports, `Any`, long functions.

python tools/size.py             # print it
python tools/size.py --check     # and exit with 1 where a limit is broken
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SRC = Path(__file__).resolve().parents[1] / "src"

# Folders whose files are found by looking into the folder: one importer is how they are meant.
REGISTRIES = frozenset({"rules", "cli", "families", "kernels", "machines"})
# Folders of one vendor's or profiler's files, which have the same parts and name them alike.
VENDORS = frozenset(
    {
        "amd", "apple", "arm", "intel", "nvidia", "kineto", "ncu", "ncu_csv", "nsys", "nsys_sqlite",
        "nvprof", "omniperf", "rocpd", "rocprof", "rocprofv3", "rocprofv3_csv", "xla", "xplane",
    }
)  # fmt: skip
ALIKE = 3
LONG_FUNCTION_LINES = 60
LARGEST = 10
NOT_CODE = frozenset(
    {
        tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
        tokenize.ENCODING, tokenize.ENDMARKER,
    }
)  # fmt: skip
LIMITS = {
    "lines": 52_000,
    "files": 360,
    "single": 60,
    "imports": 9.0,
    "any": 300,
}
MEANINGS = {
    "lines": "lines of Python",
    "files": "Python files",
    "single": "modules with one importer",
    "imports": "% of code lines are imports",
    "any": "uses of Any",
}


@dataclass(frozen=True)
class Module:
    """A file of ours: its dotted name, its path below src, its text and its syntax tree."""

    name: str
    path: Path
    text: str
    tree: ast.Module


@dataclass(frozen=True)
class Weight:
    """All that is counted."""

    files: int
    lines: int
    single: list[str]
    code_lines: int
    import_lines: int
    alike: dict[str, list[str]]
    any_uses: int
    broad_excepts: list[str]
    largest: list[tuple[int, str]]
    long_functions: list[tuple[int, str]]

    @property
    def figures(self) -> dict[str, float]:
        """What has a limit."""
        share = 100 * self.import_lines / self.code_lines if self.code_lines else 0.0
        return {
            "lines": self.lines,
            "files": self.files,
            "single": len(self.single),
            "imports": share,
            "any": self.any_uses,
        }


def weigh(src: Path = SRC) -> Weight:
    """Count everything below a folder of packages."""
    modules = list(read_modules(src))
    code = [code_lines(module) for module in modules]
    imports = [import_lines(module) for module in modules]
    sizes = sorted(((m.text.count("\n"), m.path.as_posix()) for m in modules), reverse=True)
    return Weight(
        files=len(modules),
        lines=sum(size for size, _ in sizes),
        single=single_importer_modules(modules),
        code_lines=sum(map(len, code)),
        import_lines=sum(map(len, imports)),
        alike=names_alike(modules),
        any_uses=sum(map(any_uses, modules)),
        broad_excepts=[place for module in modules for place in broad_excepts(module)],
        largest=sizes[:LARGEST],
        long_functions=sorted((f for m in modules for f in long_functions(m)), reverse=True),
    )


def read_modules(src: Path) -> Iterator[Module]:
    """Every Python file of every package."""
    for file in sorted(src.rglob("*.py")):
        path = file.relative_to(src)
        name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        text = file.read_text(encoding="utf-8")
        yield Module(name, path, text, ast.parse(text))


def single_importer_modules(modules: list[Module]) -> list[str]:
    """Modules that only one other module names in `from … import`, registries aside."""
    names = {module.name for module in modules}
    importers: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    target = f"{node.module}.{alias.name}"
                    importers[target if target in names else node.module].add(module.name)
    return [
        module.name
        for module in modules
        if len(importers.get(module.name, ())) == 1
        and not module.path.name.startswith("__")
        and not REGISTRIES & set(module.path.parts[1:])
    ]


def import_lines(module: Module) -> set[int]:
    """Lines that an import stands on, all of those that it is broken into."""
    return {
        line
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def code_lines(module: Module) -> set[int]:
    """Lines with code: neither blank nor only a comment nor part of a docstring."""
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(module.text).readline)
        if token.type not in NOT_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    return lines - set(_docstring_lines(module.tree))


def _docstring_lines(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ) and ast.get_docstring(node, clean=False):
            first = node.body[0]
            yield from range(first.lineno, (first.end_lineno or first.lineno) + 1)


def names_alike(modules: list[Module]) -> dict[str, list[str]]:
    """File names that more than a few files have, folders of vendors aside."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        if not module.path.name.startswith("__") and not VENDORS & set(module.path.parts[:-1]):
            places[module.path.name].append(module.path.parent.as_posix())
    return {name: found for name, found in sorted(places.items()) if len(found) > ALIKE}


def any_uses(module: Module) -> int:
    """How often `Any` is written, its import aside."""
    return sum(
        (isinstance(node, ast.Name) and node.id == "Any")
        or (isinstance(node, ast.Attribute) and node.attr == "Any")
        for node in ast.walk(module.tree)
    )


def broad_excepts(module: Module) -> list[str]:
    """Where any exception at all is caught or suppressed."""
    return [
        f"{module.path.as_posix()}:{node.lineno}"
        for node in ast.walk(module.tree)
        if (isinstance(node, ast.ExceptHandler) and _catches_all(node))
        or (isinstance(node, ast.Call) and _suppresses_all(node))
    ]


def _catches_all(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or _names_exception(handler.type)


def _suppresses_all(call: ast.Call) -> bool:
    name = ast.unparse(call.func).rpartition(".")[2]
    return name == "suppress" and any(map(_names_exception, call.args))


def _names_exception(node: ast.expr) -> bool:
    names = node.elts if isinstance(node, ast.Tuple) else [node]
    return any(isinstance(n, ast.Name) and n.id in {"Exception", "BaseException"} for n in names)


def long_functions(module: Module) -> list[tuple[int, str]]:
    """Functions of more lines than anyone keeps in mind."""
    return [
        (lines, f"{module.path.as_posix()}:{node.lineno} {node.name}")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > LONG_FUNCTION_LINES
    ]


def print_weight(weight: Weight, limits: dict[str, float], *, names: bool) -> None:
    """The figures with their limits, then what is worth a look."""
    for key, figure in weight.figures.items():
        over = "  OVER" if figure > limits[key] else ""
        shown = f"{figure:,.1f}" if key == "imports" else f"{figure:,}"
        print(f"{shown:>10} {MEANINGS[key]} (limit {limits[key]:,}){over}")
    print(f"{len(weight.broad_excepts):10} times any exception is caught or suppressed")
    for name, places in weight.alike.items():
        print(f"{len(places):10} files are called {name}: {', '.join(places)}")
    print("largest files:")
    for lines, path in weight.largest:
        print(f"{lines:10} {path}")
    print(f"functions of more than {LONG_FUNCTION_LINES} lines: {len(weight.long_functions)}")
    for lines, place in weight.long_functions:
        print(f"{lines:10} {place}")
    if names:
        folders = Counter(name.rpartition(".")[0] for name in weight.single)
        print("modules with one importer:")
        for folder, count in folders.most_common():
            print(f"{count:10} {folder}")
        print("\n".join(f"           {name}" for name in weight.single))
        print("any exception:", *weight.broad_excepts, sep="\n           ")


def main(arguments: list[str] | None = None) -> int:
    """Print the weight; with --check 1 where a limit is broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("src", nargs="?", type=Path, default=SRC, help="folder of the packages")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a limit is broken")
    parser.add_argument("--names", action="store_true", help="list the modules and places, too")
    for key, limit in LIMITS.items():
        option = f"--most-{key}"
        parser.add_argument(
            option, type=type(limit), default=limit, help=f"most {MEANINGS[key]}".replace("%", "%%")
        )
    asked = parser.parse_args(arguments)
    weight = weigh(asked.src)
    limits = {key: getattr(asked, f"most_{key}") for key in LIMITS}
    print_weight(weight, limits, names=asked.names)
    broken = [key for key, figure in weight.figures.items() if figure > limits[key]]
    return 1 if asked.check and broken else 0


if __name__ == "__main__":
    sys.exit(main())
