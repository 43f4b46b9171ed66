"""Which cases `timeroof study` is asked for, and how far it has come when a signal stops it."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from timeroof.cli.main import PlainCommand, stop_if_pressed
from timeroof.core.errors import EXIT_INTERRUPT, InputError, TimeroofError, UsageError
from timeroof.core.files import SIGNALS, allow_words

if TYPE_CHECKING:
    from timeroof.core.machine import Machine
    from timeroof.study.case import Case, Hello, OwnFunction, Plan, Value
    from timeroof.study.run import Worker

Sweeps = dict[str, "dict[str, list[Value]] | None"]


class StudyCommand(PlainCommand):
    """Parameters of kernels are given with `--set`; one that is typed as an option is told so."""

    def parse_args(self, ctx: object, args: list[str]) -> list[str]:
        """Refuse parameters that are typed as options, with the words to type instead."""
        from timeroof.study.kernels import kernels

        known = {p.name for k in kernels().values() for p in k.parameters}
        for place, word in enumerate(args):
            typed, _, values = word.partition("=")
            name = typed.removeprefix("--").replace("-", "_")
            if typed.startswith("--") and name in known:
                values = values or next(iter(args[place + 1 : place + 2]), "")
                text = f"{name}={values}" if values and not values.startswith("-") else f"{name}=…"
                raise UsageError(f"{typed} is a parameter of kernels", advice=f"write --set {text}")
        return super().parse_args(ctx, args)


def split_names(
    names: Sequence[str], frameworks: Sequence[str] | None
) -> tuple[list[str], list[OwnFunction]]:
    """Kernels of ours, and functions of the user's."""
    from timeroof.study.own import is_own, reference

    own = [name for name in names if is_own(name)]
    if own and frameworks is not None and len(frameworks) > 1:
        advice = "name one with --framework, or leave it out"
        raise UsageError(f"{own[0]} runs in one framework", advice=advice)
    found = [reference(name, frameworks[0] if frameworks else None) for name in own]
    twice = [one.name for one in found if sum(one.name == other.name for other in found) > 1]
    if twice:
        advice = "study one of them, or rename a file"
        raise UsageError(f"two functions are called {twice[0]}", advice=advice)
    return [name for name in names if not is_own(name)], found


def sets_for(
    kernels: Sequence[str], sets: Sequence[str], functions: Sequence[OwnFunction]
) -> list[str]:
    """The values for kernels of ours: beside functions, those of parameters that kernels have."""
    from timeroof.study.kernels import kernel

    if not functions:
        return list(sets)
    known = {p.name for name in kernels for p in kernel(name).parameters}
    return [text for text in sets if set(parse_sets([text])) <= known]


class Met(NamedTuple):
    """A user's function whose worker has started, and what it said of itself."""

    function: OwnFunction
    worker: Worker
    hello: Hello


def met_functions(
    functions: Sequence[OwnFunction], choices: Choices, precision: str | None, stack: ExitStack
) -> list[Met]:
    """Import every function in a worker of its own, which ends with the stack."""
    from timeroof.probe.measure import cached_machine
    from timeroof.study.run import Worker

    if functions and precision is not None:
        advice = "give it a parameter for its number format, and sweep it with --set"
        raise UsageError(f"--precision is not for {functions[0].name}", advice=advice)
    found = []
    # Before anything is measured: a mistake in the file shows at once.
    machine = cached_machine() if functions and choices.device == "cpu" else None
    for function in functions:
        worker = Worker(machine, device=choices.device, own=function)
        stack.callback(worker.stop)
        found.append(Met(function, worker, worker.start()))
    return found


def function_cases(
    met: Sequence[Met], sets: Sequence[str], choices: Choices, kernels: Sequence[str]
) -> list[Case]:
    """The cases of the user's functions; each takes the values of the parameters that it has."""
    from timeroof.study.kernels import kernel
    from timeroof.study.own import OwnChoices, own_cases, swept_values

    if not met:
        return []
    given = parse_sets(sets)
    known = {p.name for one in met for p in one.hello.parameters}
    elsewhere = {p.name for name in kernels for p in kernel(name).parameters}
    own = OwnChoices(
        passes=choices.passes or ["forward"],
        variants=choices.variants or ["eager"],
        caches=choices.caches,
        threads=choices.threads,
        device=choices.device,
    )
    found: list[Case] = []
    for one in met:
        has = {p.name for p in one.hello.parameters}
        others = (known - has) | (elsewhere - has)
        values = {name: texts for name, texts in given.items() if name not in others}
        swept = swept_values(one.function, one.hello, values, typed=True)
        found += own_cases(one.function, one.hello, swept, own)
    return found


def parameter_lines(names: Sequence[str]) -> list[str]:
    """The parameters of kernels, of all where none is named: base values, and what is swept."""
    from timeroof.study.kernels import kernel, kernel_names

    own = split_names(names, None)[1]
    lines = [line for function in own for line in _function_lines(function)]
    for name in split_names(names, None)[0] or (() if own else kernel_names()):
        for parameter in kernel(name).parameters:
            values = parameter.choices or parameter.full or (parameter.base,)
            shown = f"{parameter.name}={','.join(map(str, values))}"
            lines.append(f"{name:12} {shown:40} base {parameter.base}")
    return lines


def _function_lines(function: OwnFunction) -> list[str]:
    from timeroof.study.run import Worker

    worker = Worker(None, own=function)
    try:
        hello = worker.start()
    finally:
        worker.stop()
    return [
        f"{function.name:12} {f'{p.name}=…':40} "
        + ("needs a value" if p.required else f"base {p.default}")
        for p in hello.parameters
    ]


def parse_sets(texts: Sequence[str]) -> dict[str, list[str]]:
    """Values by parameter, as `--set` gives them; one name cannot be given twice.

    >>> parse_sets(["batch=1,8", "time-steps=16"])
    {'batch': ['1', '8'], 'time_steps': ['16']}
    """
    given: dict[str, list[str]] = {}
    for text in texts:
        typed, equals, values = text.partition("=")
        name = typed.strip().replace("-", "_")
        if not name or not equals:
            advice = "write for example --set batch=1,8; --set list prints all parameters"
            what = f"--set {text!r} does not name a parameter and its values"
            raise UsageError(what, advice=advice)
        if name in given:
            raise UsageError(
                f"--set {name} is given twice", advice=f"write --set {name}=V,V with all values"
            )
        given[name] = words(values, f"--set {name}")
    return given


def given_sweeps(
    kernels: Sequence[str], given: Mapping[str, Sequence[str]], *, quick: bool
) -> Sweeps:
    """The sweeps of every kernel; None where nothing is given for it.

    Where only single values are given they move the base case, and the other parameters keep
    their own sweeps. Where a parameter has several values, only such are swept.
    """
    from timeroof.study.grid import check_value, own_sweeps
    from timeroof.study.kernels import kernel as find_kernel

    found = [find_kernel(name) for name in kernels]
    known = dict.fromkeys(p.name for k in found for p in k.parameters)
    for name in given:
        if name not in known:
            has = "has" if len(found) == 1 else "have"
            what = f"{' and '.join(kernels)} {has} no parameter {name!r}"
            what = what if found else f"--set {name} needs a kernel that has it"
            advice = f"use {', '.join(known)}" if known else "name a kernel"
            raise UsageError(what, advice=advice)
    sweeps: Sweeps = {}
    for kernel in found:
        own: dict[str, list[Value]] = {
            p.name: [check_value(p, v) for v in given[p.name]]
            for p in kernel.parameters
            if p.name in given
        }
        if own and all(len(values) == 1 for values in own.values()):
            rest = own_sweeps(kernel, quick=quick)
            own = {n: list(v) for n, v in rest.items() if n not in own} | own
        sweeps[kernel.name] = own or None
    return sweeps


def words(text: str, option: str = "the list") -> list[str]:
    """A list as it is typed.

    >>> words("16, 32,64")
    ['16', '32', '64']
    """
    found = [word.strip() for word in text.split(",") if word.strip()]
    if not found:
        advice = "give one or more with commas, or leave the option out"
        raise UsageError(f"{option} has no value in {text!r}", advice=advice)
    return list(dict.fromkeys(found))


def thread_counts(text: str = "all") -> list[int]:
    """Numbers of threads; `all` is one per core."""
    from timeroof.study.grid import all_cores

    most = all_cores()
    counts = {"all": most} | {str(n): n for n in range(1, most + 1)}
    typed = words(text, "--threads")
    for word in typed:
        if word not in counts:
            raise UsageError(
                f"--threads cannot be {word[:40]!r}",
                advice=f"use numbers from 1 to {most}, the cores that this process may use, or all",
            )
    return list(dict.fromkeys(counts[word] for word in typed))


@dataclass(frozen=True)
class Choices:
    """What the command line says besides kernels and their parameters."""

    framework: str
    device: str
    precisions: list[str]
    # None: what a kernel has by default.
    passes: list[str] | None
    caches: list[str]
    threads: list[int]
    # None: what a framework has by default.
    variants: list[str]
    quick: bool
    # All frameworks that run the cases; `framework` runs the experiments on factors.
    frameworks: tuple[str, ...] = ()

    def check(self, names: Sequence[str]) -> None:
        """Refuse words that nothing has, and a pass, precision or variant of no named kernel."""
        from timeroof.study import grid
        from timeroof.study.case import PASSES
        from timeroof.study.kernels import kernel

        frameworks = self.frameworks or (self.framework,)
        grid.check_choice("framework", frameworks, grid.FRAMEWORKS)
        grid.check_choice("cache", self.caches, grid.CACHES)
        found = [kernel(name) for name in names]
        for what, many, values, known in (
            ("pass", "passes", self.passes or [], PASSES),
            ("precision", "precisions", self.precisions, grid.PRECISIONS),
            ("variant", "variants", self.variants, grid.variant_names()),
        ):
            grid.check_choice(what, values, known)
            more = [v for f in frameworks for v in grid.FRAMEWORK_VARIANTS.get(f, ())]
            more = more if what == "variant" else []
            # A kernel's own variants are PyTorch's.
            torch = what != "variant" or "torch" in frameworks
            there = {
                k.name: list(dict.fromkeys([*(getattr(k, many) if torch else ()), *more]))
                for k in found
            }
            for value in values:
                if there and not any(value in have for have in there.values()):
                    has = "has" if len(there) == 1 else "have"
                    raise UsageError(
                        f"{' and '.join(there)} {has} no {what} {value!r}",
                        advice="; ".join(f"{n} has {', '.join(own)}" for n, own in there.items()),
                    )


def checked_sweeps(
    names: list[str], sets: list[str], choices: Choices, factors: list[str],
    functions: Sequence[OwnFunction] = (),
) -> Sweeps:  # fmt: skip
    """Refuse what cannot be before anything is measured; the sweeps by kernel."""
    from timeroof.study.factors import FACTOR_NAMES
    from timeroof.study.grid import check_choice
    from timeroof.study.kernels import kernel_names

    if not names and not factors and not functions:
        raise UsageError("no kernel is named", advice=f"name some of {', '.join(kernel_names())}")
    check_choice("factor", factors, (*FACTOR_NAMES, "all"))
    choices.check(names)
    return given_sweeps(names, parse_sets(sets), quick=choices.quick)


PRESETS = ("paper", "czaja")


def preset_cases(preset: str | None, others: Sequence[str], *, quick: bool) -> list[Case]:
    """The cases of a preset that is no grid, for the cores of this machine. `others` are options
    that a preset decides itself."""
    if preset is None:
        return []
    from timeroof.probe.cpu.topology import read_topology
    from timeroof.study import czaja
    from timeroof.study.grid import check_choice
    from timeroof.study.worker.turns import place_counts

    check_choice("preset", [preset], PRESETS)
    if others:
        raise UsageError(
            f"--preset {preset} and {others[0]} exclude each other",
            advice=f"leave {' and '.join(others)} out; --quick, --resume and outputs are allowed",
        )
    if preset == "paper":
        return []
    return czaja.preset_cases(place_counts(read_topology()), quick=quick)


def preset_plan(plan: Plan, machine: Machine | None, *, quick: bool) -> Plan:
    """A plan for cases that are bound to their cores, and cold after memory was overwritten."""
    import msgspec

    from timeroof.study.czaja import overwritten_bytes

    largest = machine.largest_cache_bytes if machine is not None else None
    return msgspec.structs.replace(
        plan,
        bind=True,
        # Cores are what is compared: no case runs on fewer than it says.
        one_thread_beside_others=False,
        overwrite_bytes=overwritten_bytes(largest, quick=quick),
    )


def own_cases(sweeps: Sweeps, choices: Choices) -> list[Case]:
    """The cases of the kernels' own grids; a pass that a kernel lacks is recorded for it."""
    from timeroof.study.case import Case
    from timeroof.study.grid import all_cores, compared_cases, grid_cases
    from timeroof.study.kernels import kernel

    found: list[Case] = []
    for name, own in sweeps.items():
        lacking = [p for p in choices.passes or () if p not in kernel(name).passes]
        found += [
            Case(kernel=name, params=kernel(name).base, pass_name=p, threads=all_cores(),
                 device=choices.device)
            for p in lacking
        ]  # fmt: skip
        given = {key: value for key, value in vars(choices).items() if key != "frameworks"}
        if len(choices.frameworks) > 1 and not choices.variants:
            found += compared_cases(name, choices.frameworks, sweeps=own, **given)
            continue
        for framework in choices.frameworks or (choices.framework,):
            found += grid_cases(name, sweeps=own, **given | {"framework": framework})
    return found


def designed_cases(
    names: list[str], choices: Choices, factors: list[str], machine: Machine | None,
    *, one_precision: bool,
) -> list[Case]:  # fmt: skip
    """The cases of the factors' experiments. Where frameworks are compared and no precision is
    asked for, a matrix product shows what a narrow format does in each."""
    from timeroof.study.factors import designs
    from timeroof.study.factors.precision import across_design
    from timeroof.study.grid import DesignOptions, all_cores

    names_shared = ("framework", "device", "precisions", "quick")
    shared = {name: getattr(choices, name) for name in names_shared}
    options = DesignOptions(kernels=names, threads=all_cores(), machine=machine, **shared)
    across = len(choices.frameworks) > 1 and not choices.variants and one_precision
    more = across_design(options, choices.frameworks) if across and names else []
    return [*designs(factors, options), *more]


class InterruptedStudyError(TimeroofError):
    """A signal: what is finished is kept."""

    exit_code = EXIT_INTERRUPT


@dataclass
class Stage:
    """How far a study has come, as far as an interruption needs to know."""

    fresh: bool = False
    store: Path | None = None
    keys: Sequence[str] = field(default_factory=list)

    def error(self) -> InterruptedStudyError:
        """What to say when it is interrupted now."""
        kept, total = 0 if self.store is None else self._kept(), len(self.keys)
        if not kept:
            of = f"of {total} cases" if total > 1 else "case"
            what = f"interrupted before any {of} was measured"
            return InterruptedStudyError(what, advice="run the same command again")
        again = "--resume in place of --fresh" if self.fresh else "--resume"
        part, does = (f"{kept} of {total}", "measures the rest")
        if kept >= total:
            part, does = (f"all {total}", "writes the report")
        what = f"interrupted: {part} cases are kept in {self.store}"
        return InterruptedStudyError(what, advice=f"the same command with {again} {does}")

    def _kept(self) -> int:
        from timeroof.study.store import Store

        assert self.store is not None
        with suppress(InputError):
            if self.store.exists():
                with Store(self.store) as store:
                    return len(set(self.keys) & set(store.finished()))
        return 0


@contextmanager
def stoppable(stage: Stage) -> Iterator[None]:
    """Say what is kept where Ctrl-C, SIGTERM or SIGHUP ends the block."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
        stop_if_pressed()
    except KeyboardInterrupt:
        # A second signal, or an impatient second Ctrl-C, must not break into the sentence.
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        allow_words()
        raise stage.error() from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
