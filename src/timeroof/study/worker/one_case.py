"""One case under a profiler: `python -m timeroof.study.worker.one_case ORDER EXECUTIONS`."""

from __future__ import annotations

import sys

import msgspec

from timeroof.study.counters import count_executions
from timeroof.study.worker.messages import Order


def main(order_json: str, executions: int) -> None:
    """Make the case ready, warm it up, and run it inside the counted region."""
    from timeroof.study.worker.measuring import Bench

    order = msgspec.json.decode(order_json, type=Order)
    with Bench(None).ready(order.case) as ready:
        for _ in range(3):
            ready.run()
        count_executions(ready.run, executions)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
