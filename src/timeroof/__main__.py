"""`python -m timeroof`, and the entry point of the command."""

import gc
import sys

from timeroof import core

# So many new objects before Python looks for garbage: commands make few cycles and much else.
FEW_COLLECTIONS = (400_000, 50, 100)


def run() -> None:
    """Run the command line; Ctrl-C is quiet even while modules are still loading."""
    try:
        core.leave_folder()
        # Not before: these import what a file of that folder may be named like.
        from timeroof.core.files import leave, watch

        if sys.argv[1:2] != ["run"]:  # a program has Python's own settings
            gc.set_threshold(*FEW_COLLECTIONS)
            watch()
        from timeroof.cli.main import flush_streams, main, was_interrupted

        code = main()
        # Libraries wait at an end for processes and threads of theirs. With -i Python would ask on:
        # that is the program's to do, and it has.
        if was_interrupted() or sys.flags.inspect:
            flush_streams()
            leave(code)
    except KeyboardInterrupt:
        code = 130
    # Nothing here needs to be found as garbage at the end: looking through every module would be
    # a twelfth of a small command.
    gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    run()
