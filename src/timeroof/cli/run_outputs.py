"""Where the report of a run goes: checked before the program runs, each written on its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from timeroof.cli.outputs import STDOUT, check_outputs, keep_inputs, write_json
from timeroof.cli.ranks import for_rank
from timeroof.cli.streams import say
from timeroof.core.errors import TimeroofError, UsageError

if TYPE_CHECKING:
    from timeroof.core.report import Report

_IN_FOLDER = ("report.json", "run.troof", "kernels.csv", "report.html")


@dataclass(frozen=True)
class RunOutputs:
    """Paths that do not hang on the working folder, which the program may change."""

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
        keep_inputs(inputs, files, found.out, _IN_FOLDER)
        return found

    def write(self, report: Report, *, stdout: bool = True) -> None:
        """Write all that was asked for; one that fails is told and costs no other."""
        for name, action in self._actions(report, stdout):
            try:
                action()
            except TimeroofError as error:
                say(error.message)
            except Exception as error:
                say(f"{name}: cannot be written ({said(error)})")

    def _actions(self, report: Report, stdout: bool) -> Iterator[tuple[str, Callable[[], None]]]:
        from timeroof.api.reports import save

        paths = [self.out / name for name in _IN_FOLDER] if self.out is not None else []
        for path in (*paths, self.html, self.save):
            if path is not None:
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
