"""`python -m timeroof`."""

from timeroof.cli.main import run

if __name__ == "__main__":
    run()
