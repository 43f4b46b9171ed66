"""How much `timeroof run` slows JAX and TensorFlow programs down, against the bare program.

    python benchmarks/run_overhead_xla.py jax|tensorflow [--rounds 12]

Paired and alternating: a bare step, one that is looked at, a bare step; medians of the ratios.
Limits: timed steps 1.05 on large products and 3 on kernels of half a microsecond, steps that are
only watched 1.02: those that a session leaves alone when it has seen what it wanted. A step is as
long as its results take.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from timeroof_recorder.instruments import Instruments, instruments_of
from timeroof_recorder.log import Log
from timeroof_recorder.schedule import Pass
from timeroof_recorder.session import Session

Step = Callable[[], object]
Makes = dict[str, Callable[[], Step]]
# Sides of the matrices, and turns of the loop.
HEAVY, SMALL, TURNS = 1500, 8, 300
LIMITS = {"heavy": 1.05, "small": 3.0}
WATCHED = 1.02
# Pairs of watched steps per round, and steps after which a session leaves them alone.
PAIRS = {"heavy": 4, "small": 40}
SETTLED = 12


def jax_step(jax: Any, side: int, turns: int) -> Step:
    jnp = importlib.import_module("jax.numpy")
    given = jnp.full((side, side), 1 / side)

    def turn(_: object, y: Any) -> Any:
        # A sort keeps XLA from making one kernel of a small loop.
        return jax.lax.sort(y @ given, dimension=0) if side == SMALL else jnp.tanh(y @ given)

    chain = jax.jit(lambda x: jax.lax.fori_loop(0, turns, turn, x))
    return lambda: jax.block_until_ready(chain(given))


def tensorflow_step(tf: Any, side: int, turns: int) -> Step:
    given = tf.fill((side, side), 1.0 / side)

    @tf.function(autograph=False)
    def chain(x: Any) -> Any:
        for _ in range(turns):
            x = tf.tanh(tf.linalg.matmul(x, given))
        return x

    # Made before a session is there, it is the call that nobody watches.
    call = type(chain).__call__
    return lambda: call(chain, given).numpy()


def seconds(step: Step) -> float:
    begin = time.perf_counter()
    step()
    return time.perf_counter() - begin


def slow_down(step: Step, look: Callable[[], None], away: Callable[[], None], rounds: int) -> float:
    ratios = []
    for turn in range(rounds + 2):
        before = seconds(step)
        look()
        watched = seconds(step)
        away()
        after = seconds(step)
        if turn > 1:
            ratios.append(2 * watched / (before + after))
    return statistics.median(ratios)


def timed(instruments: Instruments) -> tuple[Callable[[], None], Callable[[], None]]:
    def look() -> None:
        instruments.start("timed")

    def away() -> None:
        instruments.stop("timed")

    return look, away


def timed_ratios(name: str, makes: Makes, folder: str, rounds: int) -> list[float]:
    # Marks that nobody asks for: only what the benchmark switches on is on.
    plan = {"marker": "optimizer", "warmup": 1, "steps": 1}
    session = Session(Log(folder), plan, instruments_of(name))
    session.start()
    look, away = timed(session.instruments)
    found = []
    for make in makes.values():
        step = make()
        step()
        found.append(slow_down(step, look, away, rounds))
    session.finish(calibrate=False)
    return found


def watched_ratio(name: str, make: Callable[[], Step], folder: str, rounds: int) -> float:
    """Steps that a session watches and leaves alone, against the same step beside it."""
    plain, passes = make(), [""]
    plan = {"marker": "auto", "warmup": 1, "steps": 4}
    session = Session(
        Log(folder), plan, instruments_of(name), told=lambda _, chosen: passes.append(chosen)
    )
    session.start()
    step = make()
    while session.steps_seen < SETTLED:
        step()
        plain()
    ratios: list[float] = []
    while len(ratios) < rounds:
        del passes[:-1]
        first, second = (step, plain) if len(ratios) % 2 else (plain, step)
        both = {first: seconds(first), second: seconds(second)}
        if set(passes) == {Pass.FREE}:
            ratios.append(both[step] / both[plain])
    session.finish(calibrate=False)
    return statistics.median(ratios)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("framework", choices=["jax", "tensorflow"])
    parser.add_argument("--rounds", type=int, default=12)
    args = parser.parse_args()
    framework = importlib.import_module(args.framework)
    make = jax_step if args.framework == "jax" else tensorflow_step
    makes: Makes = {
        "heavy": lambda: make(framework, HEAVY, 2),
        "small": lambda: make(framework, SMALL, TURNS),
    }
    held = True
    with tempfile.TemporaryDirectory() as folder:
        timed_all = timed_ratios(args.framework, makes, folder, args.rounds)
        for (name, made), ratio in zip(makes.items(), timed_all, strict=True):
            pairs = PAIRS[name] * args.rounds
            watched = watched_ratio(args.framework, made, folder, pairs)
            print(
                f"{args.framework} {name:6} timed x{ratio:.3f} (limit {LIMITS[name]})"
                f"  watched x{watched:.3f} (limit {WATCHED})"
            )
            held &= ratio <= LIMITS[name] and watched <= WATCHED
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
