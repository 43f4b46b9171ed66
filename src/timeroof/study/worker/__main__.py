"""The worker's loop: `python -m timeroof.study.worker DRIVER_PID REPLY_FD`."""

from __future__ import annotations

import os
import sys

import msgspec

from timeroof.study.worker.messages import (
    Hello,
    Order,
    Setup,
    address_space_bytes,
    be_the_first_to_go,
    limit_memory,
    tie_to,
)


def serve(reply: int) -> None:
    """Answer every order until the driver closes the pipe."""
    lines = sys.stdin.buffer
    setup = msgspec.json.decode(lines.readline(), type=Setup)
    try:
        import torch

        from timeroof.study.worker.measuring import Bench
    except ImportError as error:
        _say(reply, Hello(framework="torch", error=f"torch cannot be imported ({error})"))
        return
    if setup.memory_limit_bytes is not None:
        limit_memory(address_space_bytes() + setup.memory_limit_bytes)
    bench = Bench(setup.machine)
    _say(reply, Hello(framework="torch", version=str(torch.__version__)))
    for line in iter(lines.readline, b""):
        order = msgspec.json.decode(line, type=Order)
        _say(reply, bench.measure(order.case, order.plan))


def _say(reply: int, message: msgspec.Struct) -> None:
    data = msgspec.json.encode(message) + b"\n"
    while data:
        data = data[os.write(reply, data) :]


def main(driver: int, reply: int) -> None:
    """Begin with the ties, then serve."""
    tie_to(driver)
    be_the_first_to_go()
    serve(reply)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
