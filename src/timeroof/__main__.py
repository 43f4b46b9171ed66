"""`python -m timeroof`, and the entry point of the command."""

from __future__ import annotations

import sys


def run() -> None:
    """Run the command line; Ctrl-C is quiet even while modules are still loading."""
    try:
        from timeroof.cli.main import main

        code = main()
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    run()
