"""Programs of several processes: every rank runs under its own `timeroof run`, with own files."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from timeroof.core.import_path import package_root

if TYPE_CHECKING:
    from timeroof.live.torch.program import Ended

LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch")


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


def launched(module: str | None, words: Sequence[str]) -> list[str] | None:
    """The launcher's arguments with `timeroof run` before its script; None for other programs.

    Named by `-m torch.distributed.run`, or as the script `torchrun`.
    """
    if module in LAUNCHERS:
        given = list(words)
    elif module is None and words and Path(words[0]).name == "torchrun":
        given = list(words[1:])
    else:
        return None
    from torch.distributed.run import get_args_parser

    parsed = get_args_parser().parse_args(given)
    if parsed.no_python:
        return None  # it starts something else than Python
    before = given[: len(given) - len(parsed.training_script_args) - 1]
    before = [w for w in before if w not in ("-m", "--module")]
    target = ["-m", parsed.training_script] if parsed.module else [parsed.training_script]
    ours = [*rank_command(), *_own_options(words, module is not None)]
    return [*before, "--no-python", *ours, *target, *parsed.training_script_args]


def rank_command() -> list[str]:
    """How a rank starts us: it is a program of the user's, so that its environment stays."""
    # Found through the working folder alone, we would not be found without it.
    lives_here = package_root() == os.path.realpath(Path.cwd())
    return [sys.executable, *([] if lives_here else ["-P"]), "-m", "timeroof", "run"]


def _own_options(words: Sequence[str], is_module: bool) -> list[str]:
    """What stands between `run` and the launcher on this command line."""
    given = sys.argv[sys.argv.index("run") + 1 :]
    own = given[: len(given) - len(words) - (2 if is_module else 0)]
    return own[:-1] if own and own[-1] == "--" else own


def run_launcher(arguments: Sequence[str]) -> Ended:
    """Start the ranks; the launcher itself is not looked at."""
    from timeroof.cli.process import left_to_program
    from timeroof.live.torch.program import Program, run_program

    execute = Program(LAUNCHERS[0], tuple(arguments), is_module=True).prepare()
    with left_to_program():
        return run_program(execute)
