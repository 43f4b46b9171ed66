"""Torch as the neutral session sees it: marks, passes, descriptions, surroundings."""

from __future__ import annotations

import _thread
import ctypes
import gc
import os
import sys
import weakref
from collections.abc import Callable, Container, Iterable, Sequence
from typing import TYPE_CHECKING

from timeroof_recorder import torch as names
from timeroof_recorder.instruments import Events, Instruments
from timeroof_recorder.marks import Marks
from timeroof_recorder.process import KERAS, Ignoring, after_import, keras_backend, step_aside, wrap
from timeroof_recorder.schedule import Pass
from timeroof_recorder.seen import plain
from timeroof_recorder.torch.beside import (
    Beginnings,
    beside_dynamo,
    close_ops,
    missing_compiler,
    ops_apart,
)
from timeroof_recorder.torch.calls import CallCounts, watch_calls
from timeroof_recorder.torch.describing import (
    Describing,
    Workshop,
    cannot_describe,
    others_are_past,
    tensors_and_modules,
)
from timeroof_recorder.torch.timing import (
    DevicePass,
    PrimitivePass,
    Timing,
    device_activities,
    is_profiling,
    synchronize,
    used_devices,
)

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.optim import Optimizer

# More modules than so many are not told apart in unprofiled steps: those that were called, and
# others that are in no module and may still be.
MOST_ROOTS, MOST_OTHERS = 16, 64


class TorchInstruments(Instruments):
    """The instruments of PyTorch."""

    name = "torch"

    def __init__(self) -> None:
        import torch

        self.version = str(torch.__version__)
        self._marks: Marks | None = None
        self._unwatch_calls: Callable[[], None] = lambda: None
        self._back: list[Callable[[], None]] = []
        self._workshop = Workshop()
        self._timing = Timing()
        self._primitives, self._device = PrimitivePass(self._timing), DevicePass()
        self._describing: Describing | None = None
        self._modules_seen: list[weakref.ref[Module]] | None = None
        self._described: dict[str, object] | None = None
        self._is_foreign = self._has_profiled = False
        self._depth: dict[int, int] = {}
        # The module whose call is being marked.
        self._entered: Module | None = None
        self._roots: frozenset[int] = frozenset()
        # Of modules that are called by themselves: whether they are in no other such, nor hold one.
        self._is_apart: dict[int, bool] = {}
        self._counts = CallCounts()
        self._known: dict[int, Callable[[], Module | None]] = {}
        self._op_names: list[str] = []
        self._kernels_told = -1

    @property
    def offers(self) -> frozenset[str]:
        """On a GPU a pass with its kernels, elsewhere one with oneDNN's primitives."""
        common = {Pass.TIMED, Pass.DESCRIBED, Pass.PRIMITIVES}
        return frozenset(common | ({Pass.DEVICE} if device_activities() else set()))

    @property
    def libraries(self) -> tuple[str, ...]:
        """Torch's own folder, where Dynamo and Inductor compile, and modules that they wrote."""
        import torch

        return (os.path.dirname(torch.__file__) + os.sep,)  # noqa: PTH120

    def attach(self, marks: Marks) -> None:
        """Hooks under keys of our own; in a forked child they are there already."""
        is_there = self._marks is not None
        if is_there:
            self._marks = marks
            marks.counted = self._counts.take
            return
        from torch.autograd.profiler import profile  # both of torch's profilers go through it

        self._back += step_aside(
            [profile], "_prepare_trace _start_trace", "__exit__",
            self._foreign_starts, self._foreign_ends,
        )  # fmt: skip
        self._workshop.attach()
        self.attach_marks(marks)

    def attach_marks(self, marks: Marks) -> None:
        """Watch in torch what marks need, and nothing else."""
        self._marks = marks
        marks.counted = self._counts.take
        self._back.append(Beginnings(marks).end)
        if marks.wants_steps:
            self._back.append(_watch_optimizers(self._stepped))
            self._back.append(after_import(KERAS, self._watch_keras))
        if marks.wants_calls:
            self._unwatch_calls = watch_calls(self._called, self._left)

    def watch(self, roots: frozenset[int] | None) -> None:
        """From now on these modules only: calls of others stay as quick as they are."""
        self._unwatch_calls()
        self._depth, self._is_apart = {}, {}
        if roots is None:
            self._unwatch_calls = watch_calls(self._called, self._left)
            return
        self._roots = frozenset(sorted(roots)[:MOST_ROOTS])
        known = (self._known.get(root, lambda: None)() for root in self._roots)
        modules = [module for module in known if module is not None]
        if roots:
            modules += _others(modules, self._known, self._alive_modules())
        self._unwatch_calls = watch_calls(self._called, self._left, only=modules)

    def _alive_modules(self) -> list[Module]:
        """The modules that were seen alive when a description last began; before the first, those
        of now. A walk over all objects is nothing for every optimizer that a program makes."""
        if self._modules_seen is None:
            alive = _modules_of(tensors_and_modules())
            self._modules_seen = [weakref.ref(module) for module in alive]
            return alive
        return [module for known in self._modules_seen if (module := known()) is not None]

    def detach(self) -> None:
        """Leave torch as it was."""
        self._unwatch_calls()
        self._workshop.detach()
        while self._back:
            self._back.pop()()

    def sync(self) -> bool:
        """Wait for the devices that the program uses."""
        synchronize()
        return bool(used_devices())

    def is_used(self) -> bool:
        """Workers of a data loader only prepare batches."""
        return not _is_loader_worker()

    def will_train(self) -> bool:
        """Whether the program has made an optimizer, used or not."""
        import torch

        base = torch.optim.Optimizer
        return any(issubclass(type(thing), base) for thing in gc.get_objects())

    def is_foreign(self) -> bool:
        """Whether the program's own torch.profiler is on, or warms up."""
        return self._is_foreign or is_profiling()

    # Marks.

    def _stepped(self, optimizer: Optimizer, _args: object, _kwargs: object) -> None:
        if self._marks is not None:
            alive = weakref.ref(optimizer)
            label = type(optimizer).__name__
            self._marks.stepped(id(optimizer), label, lambda: alive() is not None)

    def _watch_keras(self) -> None:
        """Optimizers of Keras, whose back end torch may be, are none of torch's."""

        def applied(
            original: Callable[..., object], optimizer: Optimizer, *args: object, **kwargs: object
        ) -> object:
            found = original(optimizer, *args, **kwargs)
            if keras_backend() == "torch":
                self._stepped(optimizer, None, None)
            return found

        with Ignoring("optimizers of Keras are not watched"):
            owner = sys.modules[KERAS].BaseOptimizer
            self._back.append(wrap(owner, "apply", applied))

    def _called(self, module: Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        thread = _thread.get_ident()
        self._depth[thread] = depth = self._depth.get(thread, 0) + 1
        if depth == 1:
            self._root_called(module, args, kwargs)

    def _left(self, _module: Module, _args: object, _kwargs: object) -> None:
        thread = _thread.get_ident()
        self._depth[thread] = max(0, self._depth.get(thread, 0) - 1)

    def _root_called(
        self, module: Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        if self._marks is None:
            return
        import torch

        flags = ("train" if module.training else "eval") + (
            " grad" if torch.is_grad_enabled() else ""
        )
        alive = self._known[id(module)] = weakref.ref(module)
        self._entered = module
        with torch._C.DisableTorchFunction():  # a mode of the program's sees who asks for a shape
            sizes = _sizes(args, kwargs)
        label = type(module).__name__
        may_count = self._marks.called(
            id(module), label, flags, sizes, lambda: alive() is not None
        )  # fmt: skip
        self._entered = None
        if may_count and self._stands_apart(module):
            self._counts.count(module, label, flags)

    def _stands_apart(self, module: Module) -> bool:
        """Whether calls of a module are neither parts of other modules' that are watched, nor have
        such as parts: what is only counted does not say where it begins and ends."""
        if id(module) not in self._is_apart:
            known = (self._known.get(root, lambda: None)() for root in self._roots)
            parts = [{id(part) for part in root.modules()} for root in known if root is not None]
            around = [ids for ids in parts if id(module) in ids]
            inside = {id(part) for part in module.modules()} & self._roots
            self._is_apart[id(module)] = len(around) == 1 and inside == {id(module)}
        return self._is_apart[id(module)]

    def _root_seen(self, module: Module) -> None:
        """A described step watches all calls: modules that are called by themselves only now."""
        if self._roots and id(module) not in self._roots and len(self._roots) < MOST_ROOTS:
            self._roots |= {id(module)}
            self._known[id(module)] = weakref.ref(module)

    # Passes.

    def start(self, pass_: str) -> bool:
        """Switch torch's profiler, its execution trace or oneDNN's lines on."""
        if pass_ == Pass.TIMED:
            self._has_profiled = True
            self._timing.start()
            return True
        if pass_ == Pass.DESCRIBED:
            return self._start_describing()
        if pass_ == Pass.PRIMITIVES:
            self._has_profiled = True
            return self._primitives.start()
        if pass_ == Pass.DEVICE:
            self._has_profiled = True
            return self._device.start(device_activities())
        if pass_ == "block":
            self._start_describing()
            self._has_profiled = True
            self._timing.start()
            return True
        return False

    def _start_describing(self) -> bool:
        alive = tensors_and_modules()
        if cannot_describe(self._op_names, alive):
            self.tell("undescribed", "compressed")
            return False
        if not others_are_past():
            return False
        describing = Describing(
            self._workshop.graphs, with_lines=self.with_lines, root_called=self._root_seen
        )
        path = self.file_for("trace", ".json")
        if not describing.start(path, self._entered):
            self.tell("undescribed", "other-trace")
            return False
        # Held weakly: what the program drops in this step must go.
        self._modules_seen = [weakref.ref(module) for module in _modules_of(alive)]
        self._describing, self._described = describing, {"file": path}
        return True

    def stop(self, pass_: str) -> Events | None:
        """Switch off; what was seen of ops and their times."""
        if pass_ == Pass.DESCRIBED:
            self._stop_describing()
            return None
        if pass_ == Pass.PRIMITIVES:
            both = self._primitives.stop()
            self._described = None if both is None else {"lines": both[1]}
            return None if both is None else both[0]
        if pass_ == Pass.DEVICE:
            path = self.file_for("device", ".json")
            self._described = {"file": path} if self._device.stop(path) else None
            return None
        events = self._timing.stop()
        if events is not None:
            self._op_names = events.names
        if pass_ == "block":
            self._stop_describing()
        return events

    def _stop_describing(self) -> None:
        if self._describing is not None:
            describing, self._describing = self._describing, None
            if not describing.stop():
                self._described = None
            if self._roots:
                self.watch(self._roots)

    def bound(self, *, begins: bool) -> None:
        """Mark where the block begins or ends."""
        self._timing.bound(begins=begins)

    def abort(self) -> None:
        """Switch off whatever is on, and forget it."""
        self._device.abort()
        self._primitives.abort()
        self._timing.abort()
        if self._describing is not None:
            self._stop_describing()
            path = (self._described or {}).get("file")
            if isinstance(path, str):
                with Ignoring("a trace was not removed"):
                    os.unlink(path)  # noqa: PTH108
        self._described = None

    def describe(self) -> dict[str, object] | None:
        """The file that torch wrote, or oneDNN's lines; compiled kernels where some are new."""
        described, self._described = self._described, None
        if described is not None and "lines" not in described:
            kernels, graphs = self._workshop.kernels, self._workshop.graphs
            if len(kernels) != self._kernels_told:
                self._kernels_told = len(kernels)
                described["kernels"] = plain(list(kernels))
            described["graphs"] = plain([graph.seen for graph in graphs])
        return described

    def cause(self, name: str, is_numbered: bool) -> str | None:
        """By torch's own words for its events."""
        return names.cause_of_name(name, is_numbered)

    def phase(self, name: str) -> str | None:
        """Backward, optimizer and data by torch's own words for its events."""
        return names.phase_of_name(name)

    def surroundings(self) -> dict[str, object]:
        """Threads, rank, devices, and a compiler that is missing."""
        import torch

        rank, world = _rank()
        return {
            "threads": torch.get_num_threads(),
            "rank": rank,
            "world": world,
            "devices": used_devices(),
            "missing_compiler": missing_compiler(),
            "is_worker": _is_loader_worker(),
            "with_lines": self.with_lines,
        }

    def small_programs(self) -> tuple[Callable[[], None], Callable[[], None]]:
        """Close ops, and ops with kernels between them, both with one thread."""
        return close_ops(), ops_apart()

    def forked(self) -> None:
        """The profiler's threads are the parent's: C++ would wait for them at the end for ever.

        Whatever Python does at its end is done by then; the exit code is C's own.
        """
        self._describing = None
        self._timing.forget()
        self._device.forget()
        if self._has_profiled:
            with Ignoring("a forked child ends with C++"):
                library = ctypes.CDLL(None)
                library.on_exit(library._exit, None)

    # The program's own profiler goes first.

    def _foreign_starts(self) -> None:
        self._is_foreign = True
        self.tell("foreign", None)

    def _foreign_ends(self) -> None:
        self._is_foreign = False


def _watch_optimizers(
    stepped: Callable[[Optimizer, object, object], None],
) -> Callable[[], None]:
    """Call a function after every optimizer's step; returns a way to end that. Under a key of our
    own: torch numbers all hooks in a row, and a program's own hooks keep their numbers in its
    checkpoints."""
    from torch.optim import optimizer

    hooks: dict[object, object] = optimizer._global_optimizer_post_hooks  # type: ignore[assignment]
    key = object()
    hooks[key] = beside_dynamo(stepped)

    def back() -> None:
        hooks.pop(key, None)

    return back


def _sizes(args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[int, ...]:
    """The shape of the first tensor that a module is called with."""
    for given in (*args, *kwargs.values()):
        values = given if isinstance(given, (tuple, list)) else (given,)
        for value in values[:4]:
            shape = getattr(value, "shape", None)
            if isinstance(shape, tuple):
                return tuple(int(size) for size in shape)
    return ()


def _modules_of(things: Iterable[object]) -> list[Module]:
    from torch.nn import Module

    return [thing for thing in things if issubclass(type(thing), Module)]  # type: ignore[misc]


def _others(watched: list[Module], called: Container[int], found: Sequence[Module]) -> list[Module]:
    """Modules that are part of no other: they may be called rarely, or later. Of those that never
    were, also what they hold at the first level: a program may call that by itself (`vae.decode`
    calls the decoder)."""
    inner = {id(child) for module in found for child in _children(module)}
    inner |= {id(module) for module in watched}
    outer = [module for module in found if id(module) not in inner][:MOST_OTHERS]
    unused = [module for module in outer if id(module) not in called]
    return [*outer, *(child for module in unused for child in _children(module))][:MOST_OTHERS]


def _children(module: Module) -> list[Module]:
    held = vars(module).get("_modules") or {}
    return [child for child in held.values() if child is not None]


def _rank() -> tuple[int | None, int | None]:
    """The rank in the program's process group, or as a launcher has set it."""
    if "torch.distributed" in sys.modules:
        from torch import distributed

        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
    rank, world = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    return int(rank) if rank.isdigit() else None, int(world) if world.isdigit() else None


def _is_loader_worker() -> bool:
    worker = sys.modules.get("torch.utils.data._utils.worker")
    return worker is not None and worker.get_worker_info() is not None
