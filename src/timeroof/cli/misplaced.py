"""Options of ours behind the script, where a program refused them: how the command is meant."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from timeroof.cli.outputs import rank_here
from timeroof.cli.process import say
from timeroof.core.errors import EXIT_INPUT

if TYPE_CHECKING:
    from timeroof.live.running import Ended

# How parsers (argparse, click, getopt, absl, fire and those that people write) call what they
# do not know. A bad value of an option that they do know is told in other words.
_UNKNOWN = re.compile(
    r"unrecogni[sz]ed|not recogni[sz]ed|no such|unknown|unexpected|unsupported|undefined"
    r"|not understood|could not consume|(?:invalid|illegal|bad) (?:option|argument|flag)",
    re.IGNORECASE,
)

# What a program has in its text that looks at its arguments, itself or by a library.
_READS = re.compile(
    r"argv|arg_?parse|parse_?arg|getopt|docopt|click|typer|fire|absl|tap\b|hydra|cyclopts|cli\b|main\(",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class CommandLine:
    """A command as it was given: our options, the program, its arguments."""

    ours: tuple[str, ...]
    program: tuple[str, ...]
    words: tuple[str, ...]
    # Our long options, each with a word that stands for its value; None for a flag.
    options: Mapping[str, str | None]

    @classmethod
    def of(
        cls, args: Sequence[str], words: Sequence[str], options: Mapping[str, str | None]
    ) -> CommandLine:
        """What followed `timeroof run`, and those of it that are arguments of the program.

        >>> line = CommandLine.of(["--steps", "3", "--", "a.py", "-x"], ["-x"], {})
        >>> line.ours, line.program, line.words
        (('--steps', '3'), ('--', 'a.py'), ('-x',))
        """
        before = tuple(args[: len(args) - len(words)])
        place = len(before) - (2 if before[-2:-1] in (("-m",), ("--",)) else 1)
        long = {name: value for name, value in options.items() if name.startswith("--")}
        return cls(before[:place], before[place:], tuple(words), long)

    def behind(self) -> list[str]:
        """Options of ours among the program's arguments."""
        listed = self.words[: self.words.index("--")] if "--" in self.words else self.words
        found = (word.partition("=")[0] for word in listed)
        return [name for name in dict.fromkeys(found) if name in self.options]

    def mended(self, wrong: Iterable[str]) -> str:
        """The command with these options before the script, quoted for a shell.

        >>> words = ("--html", "a b.html", "-x")
        >>> line = CommandLine((), ("-m", "pkg"), words, {"--html": "HTML"})
        >>> line.mended(["--html"])
        "timeroof run --html 'a b.html' -m pkg -x"
        """
        moved, kept = _parted(self.words, {name: self.options[name] for name in wrong})
        return shlex.join(["timeroof", "run", *self.ours, *moved, *self.program, *kept])


def _parted(words: Sequence[str], wrong: Mapping[str, str | None]) -> tuple[list[str], list[str]]:
    """The words that belong to some options, and the others."""
    moved: list[str] = []
    kept: list[str] = []
    place = 0
    while place < len(words) and words[place] != "--":
        name, equals, _ = words[place].partition("=")
        stands_for = wrong.get(name)
        taken = 2 if stands_for and not equals else 1
        (moved if name in wrong else kept).extend(words[place : place + taken])
        if name in wrong and place + taken > len(words) and stands_for:
            moved.append(stands_for)  # the value was forgotten: without one the script would be it
        place += taken
    return moved, [*kept, *words[place:]]


def say_misplaced(
    line: CommandLine, ended: Ended, script: Path | None, *, ran_steps: bool = False
) -> None:
    """One line for a user whose program refused options of ours; none where it did not.

    The ranks of a launcher have command lines that nobody typed: the first says where options
    go, the others nothing.
    """
    rank = rank_here()
    wrong = [] if rank else unread(line.behind(), ended, script)
    if not wrong and not ran_steps and not rank:
        wrong = refused(line.behind(), ended, script)
    if not wrong:
        return
    what = "is an option of timeroof and goes" if len(wrong) == 1 else "are timeroof's and go"
    said = f"{', '.join(wrong)} {what} before the script"
    say(f"{said}: {line.mended(wrong)}" if rank is None else said)


def unread(options: Sequence[str], ended: Ended, script: Path | None) -> list[str]:
    """Those of the options that came to a program which looks at none of its arguments."""
    if not options or ended.code or script is None or not script.is_file():
        return []
    return [] if _READS.search(script.read_text("utf-8", "replace")) else list(options)


def refused(options: Sequence[str], ended: Ended, script: Path | None = None) -> list[str]:
    """Those of the options that made the program end with a usage error."""
    complaint = ended.complaint
    if not options or complaint is None or not ended.code:
        return []
    if complaint or ended.code != EXIT_INPUT:
        return [name for name in options if is_refused_in(complaint, name)]
    # No word of why (click): what the script names is known to it.
    is_there = script is not None and script.is_file()
    known = script.read_text("utf-8", "replace") if script is not None and is_there else ""
    return [name for name in options if name.lstrip("-") not in known]


def is_refused_in(complaint: str, option: str) -> bool:
    """Whether a parser's words say that it does not know an option.

    >>> is_refused_in("unrecognized arguments: --html report.html", "--html")
    True
    >>> is_refused_in("argument --steps: invalid int value: 'x'", "--steps")
    False
    """
    name = re.escape(option.lstrip("-"))
    named = re.compile(rf"(?<![\w-])-{{1,2}}{name}(?![\w-])|flag '{name}'")
    return any(_UNKNOWN.search(line) and named.search(line) for line in complaint.splitlines())
