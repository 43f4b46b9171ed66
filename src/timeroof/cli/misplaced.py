"""Options of ours behind the script, where a program refused them: how the command is meant."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from timeroof.cli.process import say
from timeroof.cli.ranks import rank_here
from timeroof.core.errors import EXIT_INPUT

if TYPE_CHECKING:
    from timeroof.live.torch.program import Ended

# How parsers (argparse, click, getopt, absl, fire and those that people write) call what they
# do not know. A bad value of an option that they do know is told in other words.
_UNKNOWN = re.compile(
    r"unrecogni[sz]ed|not recogni[sz]ed|no such|unknown|unexpected|unsupported|undefined"
    r"|not understood|could not consume|(?:invalid|illegal|bad) (?:option|argument|flag)",
    re.IGNORECASE,
)
_LONGEST_SOURCE_BYTES = 2_000_000


@dataclass(frozen=True)
class CommandLine:
    """A command as it was given: what started us, our options, the program, its arguments."""

    start: tuple[str, ...]
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
        return cls(start_of(sys.argv), before[:place], before[place:], tuple(words), long)

    def behind(self) -> list[str]:
        """Options of ours among the program's arguments."""
        listed = self.words[: self.words.index("--")] if "--" in self.words else self.words
        found = (word.partition("=")[0] for word in listed)
        return [name for name in dict.fromkeys(found) if name in self.options]

    def mended(self, wrong: Iterable[str]) -> str:
        """The command with these options before the script, quoted for a shell.

        >>> words = ("--html", "a b.html", "-x")
        >>> line = CommandLine(("timeroof", "run"), (), ("-m", "pkg"), words, {"--html": "HTML"})
        >>> line.mended(["--html"])
        "timeroof run --html 'a b.html' -m pkg -x"
        """
        moved, kept = _parted(self.words, {name: self.options[name] for name in wrong})
        return shlex.join([*self.start, *self.ours, *moved, *self.program, *kept])


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


def say_misplaced(line: CommandLine, ended: Ended, *, ran_steps: bool = False) -> None:
    """One line for a user whose program refused options of ours; none where it did not.

    The ranks of a launcher have command lines that nobody typed: the first says where options
    go, the others nothing.
    """
    rank = rank_here()
    wrong = [] if ran_steps or rank else refused(line.behind(), ended)
    if not wrong:
        return
    what = "is an option of timeroof and goes" if len(wrong) == 1 else "are timeroof's and go"
    said = f"{', '.join(wrong)} {what} before the script"
    say(f"{said}: {line.mended(wrong)}" if rank is None else said)


def refused(options: Sequence[str], ended: Ended) -> list[str]:
    """Those of the options that made the program end with a usage error."""
    complaint = ended.complaint
    if not options or complaint is None or not ended.code:
        return []
    named = [name for name in options if is_refused_in(complaint, name)]
    bare = ended.code == EXIT_INPUT and not complaint
    if named or not (bare or "usage:" in complaint.lower()):
        return named
    # No word of why: what the program's own files name is known to it.
    known = _own_sources()
    return [name for name in options if not _mentions(known + complaint, name)]


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


def _mentions(text: str, option: str) -> bool:
    name = "[-_]".join(re.escape(part) for part in option.lstrip("-").split("-"))
    return re.search(rf"(?<![A-Za-z0-9]){name}(?![A-Za-z0-9])", text) is not None


def _own_sources() -> str:
    """The text of the program's files: its main one, and what it loaded from the same folder."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if not main:
        return ""
    folder = Path(main).resolve().parent
    loaded = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    paths = {Path(name) for name in loaded if isinstance(name, str) and name.endswith(".py")}
    own = {Path(main)} | {p for p in paths if p.is_relative_to(folder)}
    return "\n".join(_source(path) for path in own)


def _source(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_LONGEST_SOURCE_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def start_of(argv: Sequence[str]) -> tuple[str, ...]:
    """What the user typed to start us, shortened to `timeroof` where the shell finds that.

    >>> start_of(["/somewhere/else/timeroof", "run"])
    ('/somewhere/else/timeroof', 'run')
    """
    given = argv[0] if argv else ""
    if Path(given).name == "__main__.py":
        return ("python", "-m", "timeroof", "run")
    found = shutil.which("timeroof")
    same = found is not None and Path(found) == Path(given).absolute()
    return ("timeroof" if same or Path(given).name != "timeroof" else given, "run")
