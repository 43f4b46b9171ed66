"""`timeroof.sweep`: from Python what `timeroof study FILE.py:FUNCTION` does."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from timeroof.api.live import machine_for
from timeroof.api.reports import Report, machine as find_machine
from timeroof.core.errors import InputError, UsageError
from timeroof.core.files import temporary_folder
from timeroof.core.machine import Machine
from timeroof.probe.measure import cached_machine
from timeroof.study.case import FULL, QUICK, Case, Hello, OwnFunction, Plan, Result
from timeroof.study.own import OwnChoices, located, own_cases, swept_values
from timeroof.study.report import case_name, judged_study
from timeroof.study.run import Measures, Place, Worker, check_store, run_cases
from timeroof.study.store import Store
from timeroof.study.worker import own as worker_own
from timeroof.study.worker.own import ImportedEnoughError, Own

DATABASE = "timeroof-study.sqlite"


class Here:
    """Measures a function that no other process could import: one of a notebook, or a lambda."""

    def __init__(self, function: Own, machine: Machine | None, framework: str) -> None:
        self._given = (framework, machine, function)

    def measured(self, cases: Sequence[Case], plan: Plan) -> Iterator[Result]:
        """Measure cases in this process; a crash of theirs ends it."""
        from timeroof.study.worker.__main__ import bench

        return bench(*self._given).measure(cases, plan, lambda: None)


def sweep(  # noqa: PLR0913
    make: Callable[..., object], /, parameters: Mapping[str, Sequence[object]] | None = None, *,
    passes: Sequence[str] = ("forward",), variants: Sequence[str] = ("eager",),
    caches: Sequence[str] = ("warm",), threads: Sequence[int] = (), device: str = "cpu",
    framework: str | None = None, machine: str | None = None, quick: bool = False,
    db: str | Path | None = None, out: str | Path | None = None, resume: bool = False,
    **values: Sequence[object],
) -> Report:  # fmt: skip
    """Measure what a function makes over values of its parameters, and judge it.

    ``make`` returns a function without arguments, or a module and its inputs, in PyTorch, JAX or
    TensorFlow. Parameters that are called like an option of this function go into ``parameters``.
    A function that a file defines runs in a process of its own, any other one in this process.

        report = timeroof.sweep(make, batch=[1, 8, 64], out="my-study")
    """
    if worker_own.is_importing():
        raise ImportedEnoughError
    given = {**(parameters or {}), **values}
    with ExitStack() as stack:
        own, found, hello = _met(make, framework, device, stack)
        cases = own_cases(
            own, hello, swept_values(own, hello, given, typed=False),
            OwnChoices(passes=passes, variants=variants, caches=caches, threads=threads,
                       device=device),
        )  # fmt: skip
        where, notes = (find_machine(machine), []) if machine else machine_for(None, lambda _: None)
        if isinstance(found, Worker):
            found.judge_on(where)
        measures: Measures = (
            Here(found, where, hello.framework) if isinstance(found, Own) else found
        )
        place = replace(Place.here(where, hello.framework), own={own.name: own})
        folder = out or (stack.enter_context(temporary_folder()) if db is None else "")
        store = stack.enter_context(Store(Path(db) if db else Path(folder) / DATABASE))
        check_store(store, [place.key(case) for case in cases], resume=resume)
        plan = QUICK if quick else FULL
        mine = {own.name: measures}
        done = run_cases(cases, store, place, plan, lambda _: None, own=mine)
    return _reported(done.results, where, notes, out)


def _met(
    make: object, framework: str | None, device: str, stack: ExitStack
) -> tuple[OwnFunction, Worker | Own, Hello]:
    """The function where it can be measured, and what it said of itself."""
    if not callable(make):
        advice = "give a function that makes a case, such as def make(batch): …"
        raise UsageError(f"a value of type {type(make).__name__} cannot be swept", advice=advice)
    place = _place_of(make)
    if place is not None:
        own = located(*place, framework)
        worker = Worker(cached_machine(), device=device, own=own)
        stack.callback(worker.stop)
        return own, worker, worker.start()
    name = getattr(make, "__name__", type(make).__name__)
    function = Own(name, make)
    hello = function.hello(framework)
    if hello.error is not None:
        raise UsageError(hello.error, advice=hello.advice)
    return OwnFunction(name=name, path="", function=name), function, hello


def _place_of(make: Callable[..., object]) -> tuple[Path, str] | None:
    """The file and the name by which another process can import a function."""
    name = getattr(make, "__qualname__", "")
    main: object = sys.modules.get("__main__")
    home: object = sys.modules.get(getattr(make, "__module__", "") or "")
    file = getattr(home, "__file__", None)
    known = inspect.isroutine(make) or inspect.isclass(make)
    if not known or not name or "<" in name or file is None or not str(file).endswith(".py"):
        return None
    if home is main and hasattr(main, "get_ipython"):
        return None
    path = Path(str(file)).absolute()
    return (path, name) if path.exists() else None


def _reported(
    results: Sequence[Result], where: Machine | None, notes: Sequence[str], out: str | Path | None
) -> Report:
    failed = [f"{case_name(r.case)}: {r.error}" for r in results if r.status != "done"]
    study = judged_study(results, where, command="timeroof.sweep", notes=[*notes, *failed])
    if not study.rows:
        first = study.failures[0].error if study.failures else "there was nothing to measure"
        raise InputError(f"no case could be measured: {first}")
    if out is not None:
        from timeroof.study.output.page import write_study

        write_study(study, Path(out))
    return study.report
