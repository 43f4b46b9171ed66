"""Options that several commands have, each said once, and where results go.

Outputs are checked before any work is done, then written.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from timeroof.cli.main import say, stdout_goes_nowhere
from timeroof.core.errors import TimeroofError, UsageError
from timeroof.core.files import write_atomically

if TYPE_CHECKING:
    from timeroof.core.report import Report
    from timeroof.views.compare_page import Outputs


STDOUT = "-"
# What stands behind an annotated parameter: typer gives its options no type of their own.
Option = Any

JsonTarget = Annotated[
    str | None, typer.Option(help="Write the result as JSON to a file, or to stdout with '-'.")
]
RunTarget = Annotated[Path | None, typer.Option(help="Save the run to this file (.troof).")]
PageTarget = Annotated[
    Path | None, typer.Option(help="Write the result as one interactive HTML page.")
]
MarkdownTarget = Annotated[
    Path | None, typer.Option(help="Write the result as Markdown to this file.")
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print every note.")]
JudgingMachine = Annotated[
    str | None,
    typer.Option(
        help="Compare with the ceilings of this machine: a catalogue name, a TOML file or 'here'."
        " [default: the one it ran on]"
    ),
]

StepKindName = Annotated[
    str | None,
    typer.Option(
        "--step-kind",
        metavar="NAME",
        help="Report on steps of this kind, as the summary names them."
        " [default: the kind with the most time]",
    ),
]

Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="Work on this Dask cluster, such as tcp://host:8786.",
        rich_help_panel="Many machines",
    ),
]  # fmt: skip
Slurm = Annotated[
    str | None,
    typer.Option(
        metavar="SETTINGS",
        help="Work on Slurm jobs, such as 'nodes=2,time=00:10:00,partition=debug'.",
        rich_help_panel="Many machines",
    ),
]


def folder_option(default: str | None = None) -> Option:
    """`--out`; `default` is the folder that takes the result where no other output is named."""
    text = "Write every form of the result to this folder."
    if default is not None:
        text += f" [default: {default}, unless another output is named]"
    return typer.Option(help=text)


FolderTarget = Annotated[Path | None, folder_option()]


def picture_option(pictures: str) -> Option:
    """`-o FILE` of a command that has pictures of its own."""
    return typer.Option("--output", "-o", help=f"Write by suffix: {pictures}, html, md, json.")


# Outputs that no reader takes: in a folder that is read they may be written anew.
NEVER_READ = (".html", ".md", ".png", ".svg", ".pdf")
# What `--out` of `run` and `read` writes.
REPORT_FILES = ("report.html", "report.json", "report.md", "kernels.csv", "run.troof")


def write_json(data: bytes, target: str) -> None:
    """Write JSON to a file, or to stdout for `-`."""
    if target == STDOUT:
        sys.stdout.buffer.write(data + b"\n")
        sys.stdout.buffer.flush()
    else:
        write_atomically(Path(target), data + b"\n")


def keep_inputs(
    inputs: Iterable[Path | str | None],
    outputs: Iterable[Path | str | None],
    folder: Path | None = None,
    names: Iterable[str] = (),
) -> None:
    """Refuse outputs that would overwrite an input or one another, before any work is done.

    `names` are those that the command writes into `folder`. What is no file (stdout, a device, a
    pipe) cannot be lost. A machine's name that is no file is never an output's name.
    """
    wanted = [Path(p) for p in outputs if p is not None and p != STDOUT]
    wanted += [] if folder is None else [folder / name for name in names]
    read = [Path(p) for p in inputs if p is not None]
    seen: set[Path] = set()
    for path in wanted:
        target = _target(path)
        if target is None:
            continue
        if any(_is_read(path, one) for one in read):
            raise UsageError(
                f"{path} is read by this command and would be overwritten",
                advice="name another file to write",
            )
        if target in seen:
            raise UsageError(f"{path} is to be written twice", advice="name a file for each output")
        seen.add(target)


def _target(path: Path) -> Path | None:
    """The file that a name leads to; None where it is no file or no usable name.

    Names that no system takes and links that lead nowhere are refused where they are written.
    """
    try:
        return None if path.exists() and not path.is_file() else path.resolve()
    except (OSError, RuntimeError, ValueError):
        return None


def _is_read(path: Path, source: Path) -> bool:
    """Whether a file is an input or lies in a folder that is one, through links as well."""
    try:
        if source.is_dir():
            inside = path.is_file() and path.resolve().is_relative_to(source.resolve())
            return inside and path.suffix not in NEVER_READ
        return path.samefile(source)
    except (OSError, RuntimeError, ValueError):
        return False


def check_folder(path: Path) -> Path:
    """A folder to write into; a file of that name is refused before any work is done."""
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is a file", advice="name a folder with --out")
    return path


def check_outputs(
    *,
    json: Path | str | None = None,
    html: Path | None = None,
    save: Path | None = None,
    out: Path | None = None,
) -> None:
    """Refuse outputs of a report that could not be written, before anything is read or written."""
    for path, suffix, what in ((html, ".html", "page"), (save, ".troof", "run")):
        if path is not None and path.suffix != suffix:
            raise UsageError(f"{path.name!r} is no {what}'s name", advice=f"end it in {suffix}")
    if out is not None:
        check_target(check_folder(out))
    for target in (json, html, save):
        if target == STDOUT and stdout_goes_nowhere():
            raise UsageError("stdout is closed", advice="name a file, or leave stdout open")
        if target is None or target == STDOUT:
            continue
        if Path(target).is_dir():
            raise UsageError(f"{target} is a folder", advice="name a file")
        check_target(Path(target))


def check_target(path: Path) -> Path:
    """A file to write; one that cannot be written is refused before any work is done."""
    try:
        path.resolve().exists()
    except (OSError, RuntimeError) as error:
        # A name that is too long, links that lead in a circle.
        why = getattr(error, "strerror", None) or "its links lead in a circle"
        raise UsageError(f"{path} cannot be written", advice=why) from error
    there = next(p for p in (path, *path.absolute().parents) if p.exists())
    if there != path and not there.is_dir():
        raise UsageError(f"{path} cannot be written", advice=f"{there} is no folder")
    if not os.access(there, os.W_OK) or str(there.resolve()).startswith("/proc"):
        raise UsageError(f"{path} cannot be written", advice=f"{there} is not writable")
    return path


def write_outputs(
    report: Report, *, html: Path | None = None, save: Path | None = None, out: Path | None = None
) -> None:
    """Write a report's page, its run, or a folder with all its forms.

    Their names are taken as they are: `check_outputs` goes first, before any work.
    """
    from timeroof.api.reports import save as save_report

    for path in _report_paths(html, save, out):
        save_report(report, path)


def check_views(html: Path | None, output: Path | None, out: Path | None) -> list[Path]:
    """The files that `compare` or `whatif` writes by suffix, refused before any work is done."""
    from timeroof.views.compare_page import SUFFIXES
    from timeroof.views.render import check_suffix

    wanted = [(html, ("html",)), (output, SUFFIXES)]
    files = [path for path, allowed in wanted if path is not None and check_suffix(path, allowed)]
    if out is not None:
        check_folder(out)
    return files


def write_views(
    outputs: Outputs, files: Sequence[Path], json: str | None, folder: Path | None
) -> None:
    """Write what was asked for of a comparison or a what-if."""
    import msgspec

    from timeroof.views.compare_page import write_folder, write_output

    if json is not None:
        write_json(msgspec.json.encode(outputs.document), json)
    for path in files:
        write_output(outputs, path)
    if folder is not None:
        write_folder(outputs, folder)


def _report_paths(html: Path | None, save: Path | None, out: Path | None) -> list[Path]:
    folder = [] if out is None else [out / name for name in REPORT_FILES]
    return [*folder, *(path for path in (html, save) if path is not None)]


class RunOutputs(NamedTuple):
    """Outputs of `run`: absolute paths, as the program may change the working folder."""

    out: Path | None
    json: str | None
    save: Path | None
    html: Path | None
    # The user sends stdout to nowhere: no message where the JSON goes there.
    discards: bool = False

    @classmethod
    def of(
        cls,
        out: Path | None,
        json: str | None,
        save: Path | None,
        html: Path | None,
        rank: int | None = None,
        inputs: Iterable[Path | str | None] = (),
    ) -> RunOutputs:
        """The outputs of one rank, as absolute paths.

        Refuses what cannot be written, and what would overwrite one of `inputs`.
        """
        text = None if json in (None, STDOUT) else _placed(Path(str(json)), rank)
        found = cls(
            _placed(out, rank), json if text is None else str(text),
            _placed(save, rank), _placed(html, rank),
            sys.__stdout__ is not None and stdout_leads_nowhere(),
        )  # fmt: skip
        check_outputs(json=found.json, html=found.html, save=found.save, out=found.out)
        files = (found.json, found.html, found.save)
        keep_inputs(inputs, files, found.out, REPORT_FILES)
        return found

    def write(self, report: Report, *, stdout: bool = True) -> None:
        """Write all that was asked for; a failure is reported and stops no other."""
        for name, action in self._actions(report, stdout):
            try:
                action()
            except TimeroofError as error:
                say(error.message)
            except Exception as error:
                say(f"{name}: cannot be written ({said(error)})")

    def _actions(self, report: Report, stdout: bool) -> Iterator[tuple[str, Callable[[], None]]]:
        from timeroof.api.reports import save

        for path in _report_paths(self.html, self.save, self.out):
            yield str(path), lambda path=path: save(report, path)  # type: ignore[misc]
        target = self.json
        if target is not None and (stdout or target != STDOUT):
            name = "stdout" if target == STDOUT else target
            yield name, lambda: self._write_json(report, target)

    def _write_json(self, report: Report, target: str) -> None:
        # A closed stdout, the caller's or one that the program closed, was put in order meanwhile.
        if target == STDOUT and not self.discards and stdout_leads_nowhere():
            raise UsageError("stdout is closed, the JSON is lost", advice="name a file with --json")
        write_json(report.to_json(), target)


def _placed(path: Path | None, rank: int | None) -> Path | None:
    return None if path is None else for_rank(path.absolute(), rank)


def stdout_leads_nowhere() -> bool:
    """Whether what is written to stdout is thrown away."""
    try:
        written = os.fstat(sys.stdout.fileno())
        return os.path.samestat(written, Path(os.devnull).stat())
    # Replaced by something that is no file, which may well keep what it is given.
    except (OSError, ValueError, AttributeError):
        return False


def said(error: BaseException) -> str:
    """An error in words, without the name of its class."""
    return str(getattr(error, "strerror", None) or error) or "without a word of why"


# Ranks that are started under `timeroof run` one by one: each has its own files.


def rank_here() -> int | None:
    """This process's rank where a launcher started several, else None."""
    rank, size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    return int(rank) if rank.isdigit() and size.isdigit() and int(size) > 1 else None


def for_rank(path: Path | None, rank: int | None) -> Path | None:
    """A file or folder of one rank, so that ranks do not overwrite one another's.

    >>> str(for_rank(Path("run.troof"), 1)), str(for_rank(Path("out"), 0))
    ('run.rank1.troof', 'out/rank0')
    """
    if path is None or rank is None:
        return path
    return path.with_suffix(f".rank{rank}{path.suffix}") if path.suffix else path / f"rank{rank}"
