"""Work for many processes: a function and a list of orders, answers as they come.

On one machine a pool of warm workers runs it, on many an engine that is there already: a Dask
cluster, or Dask's own jobs on Slurm. Each of them survives a worker that dies: the order that it
had is tried again, and one that fails for good is an answer like any other, never the end.

The pool is loky's. The standard library's breaks as a whole when one worker dies and runs an
unguarded script of the user's again in each; loky's workers import nothing of `__main__`. Every
worker is an executor of its own here, so that a dead one takes only its own order with it.
"""

from __future__ import annotations

import os
import queue
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from timeroof.core import SAFE_VARIABLE, VERSION
from timeroof.core.children import safe_environment, tie_to
from timeroof.core.errors import InputError, TimeroofError, UsageError, reason_of, trace_ignored

if TYPE_CHECKING:
    from distributed import Client

Order = TypeVar("Order")
Value = TypeVar("Value")

# An order whose worker died is tried so often in all.
TRIES = 2
# An idle worker of a driver that forgot it ends by itself.
IDLE_S = 60
CONNECT_S = 10
_PATH = "PYTHONPATH"
# Slurm's jobs may wait in its queue; a cluster without any worker for so long is no cluster.
FIRST_WORKER_S = 120


@dataclass(frozen=True)
class Failure:
    """An error on its way back from a worker."""

    what: str
    where: str | None = None
    advice: str | None = None

    @property
    def error(self) -> InputError:
        """The error itself."""
        return InputError(self.what, self.where, self.advice)


@dataclass(frozen=True)
class Answer(Generic[Value]):
    """What one order gave: a value, or why there is none."""

    index: int
    value: Value | None
    failure: Failure | None = None


class Engine(Protocol):
    """Runs a function over orders; the answers come in the order in which they are ready."""

    def map(
        self, function: Callable[[Order], Value], orders: Sequence[Order]
    ) -> Iterator[Answer[Value]]:
        """One answer per order. The function is importable, order and value can be pickled."""
        ...


def _guarded(function: Callable[[Order], Value], order: Order) -> Value | Failure:
    """What the function gives, or our own error as a value: exceptions lose fields on the way."""
    try:
        return function(order)
    except TimeroofError as error:
        return Failure(error.what, error.where, error.advice)


def _answer(index: int, value: Value | Failure) -> Answer[Value]:
    if isinstance(value, Failure):
        return Answer(index, None, value)
    return Answer(index, value)


def workers_for(largest_bytes: float, jobs: int) -> int:
    """How many workers this machine has cores and memory for; a rank of text takes half its size.

    >>> workers_for(0, 1)
    1
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    each = 200e6 + 0.5 * largest_bytes
    return int(max(1, min(cores or 1, jobs, _free_bytes() / each)))


def _free_bytes() -> float:
    with suppress(OSError, ValueError, StopIteration), open("/proc/meminfo", "rb") as lines:  # noqa: PTH123
        words = next(line.split() for line in lines if line.startswith(b"MemAvailable"))
        return 1024.0 * int(words[1])
    return 4e9


class Here:
    """This process, for what is too little to share."""

    def map(
        self, function: Callable[[Order], Value], orders: Sequence[Order]
    ) -> Iterator[Answer[Value]]:
        """One answer per order, one after the other."""
        for index, order in enumerate(orders):
            yield _answer(index, _guarded(function, order))


class Pool:
    """Warm workers on this machine."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def map(
        self, function: Callable[[Order], Value], orders: Sequence[Order]
    ) -> Iterator[Answer[Value]]:
        """One answer per order; an order whose worker died is tried once more."""
        waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        ready: queue.SimpleQueue[Answer[Value] | BaseException] = queue.SimpleQueue()
        for index in range(len(orders)):
            waiting.put(index)
        with _safe_variables():
            yield from self._answers(function, orders, waiting, ready)

    def _answers(
        self,
        function: Callable[[Order], Value],
        orders: Sequence[Order],
        waiting: queue.SimpleQueue[int],
        ready: queue.SimpleQueue[Answer[Value] | BaseException],
    ) -> Iterator[Answer[Value]]:
        slots = [_Slot() for _ in range(min(self.workers, len(orders)))]
        threads = [
            threading.Thread(
                target=_serve, args=(slot, function, orders, waiting, ready), daemon=True
            )
            for slot in slots
        ]
        for thread in threads:
            thread.start()
        try:
            for _ in orders:
                answer = ready.get()
                if isinstance(answer, BaseException):
                    raise answer
                yield answer
        finally:
            for slot in slots:
                slot.end()


class _Slot:
    """One worker, started anew where it died."""

    def __init__(self) -> None:
        self._executor: Any = None
        self._ended = False

    def run(self, function: Callable[[Order], Value], order: Order) -> Value | Failure:
        """The value, or why there is none."""
        from loky.process_executor import ProcessPoolExecutor, TerminatedWorkerError

        for left in reversed(range(TRIES)):
            if self._executor is None:
                self._executor = ProcessPoolExecutor(
                    1, timeout=IDLE_S, initializer=tie_to, initargs=(os.getpid(),)
                )
            try:
                answer = self._executor.submit(_guarded, function, order).result()
                return cast("Value | Failure", answer)
            except TerminatedWorkerError:
                trace_ignored("a worker died")
                self._executor.shutdown(wait=False, kill_workers=True)
                self._executor = None
                if self._ended:
                    break
                if not left:
                    return Failure(f"could not be read: its process died {TRIES} times")
            except Exception as error:
                trace_ignored("an order failed")
                if not left:
                    return Failure(f"could not be read ({reason_of(error)})")
        return Failure("was not read")

    def end(self) -> None:
        """Stop the worker, whatever it does."""
        self._ended = True
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False, kill_workers=True)


@contextmanager
def _safe_variables() -> Iterator[None]:
    """What processes start with that a library starts for us: they import nothing from the
    working folder. loky starts one of its own beside the workers, and gives it no other."""
    # Its own process says on the terminal what it cleans up after a driver that was killed.
    quiet = {"PYTHONWARNINGS": "ignore"}
    wanted = {SAFE_VARIABLE: "1", _PATH: safe_environment().get(_PATH)} | quiet
    before = {name: os.environ.get(name) for name in wanted}
    _set(wanted)
    try:
        yield
    finally:
        _set(before)


def _set(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _serve(
    slot: _Slot,
    function: Callable[[Order], Value],
    orders: Sequence[Order],
    waiting: queue.SimpleQueue[int],
    ready: queue.SimpleQueue[Answer[Value] | BaseException],
) -> None:
    try:
        while True:
            index = waiting.get_nowait()
            ready.put(_answer(index, slot.run(function, orders[index])))
    except queue.Empty:
        return
    except BaseException as error:
        ready.put(error)


# Clusters are tested by slow and long tests, which coverage does not watch.
class DaskCluster:  # pragma: no cover
    """The workers of a Dask scheduler that runs already, or that Slurm runs for us."""

    def __init__(self, address: str | None = None, slurm: str | None = None) -> None:
        self.address, self.slurm = address, slurm

    def map(
        self, function: Callable[[Order], Value], orders: Sequence[Order]
    ) -> Iterator[Answer[Value]]:
        """One answer per order; Dask gives the orders of lost workers to others."""
        with _closing(self._client()) as client:
            from distributed import as_completed

            _refuse_other_versions(client)
            futures = client.map(
                _guarded, [function] * len(orders), orders, retries=TRIES - 1, pure=False
            )
            places = {future.key: index for index, future in enumerate(futures)}
            for future in as_completed(futures, loop=client.loop):
                index = places[future.key]
                try:
                    yield _answer(index, future.result())
                except Exception as error:
                    trace_ignored("an order failed")
                    yield Answer(index, None, Failure(f"could not be read ({reason_of(error)})"))
                future.release()

    def check(self) -> None:
        """Refuse a cluster that cannot be reached, before anything else is done."""
        try:
            import distributed  # noqa: F401
        except ImportError as error:
            raise UsageError(
                "Dask is not installed", advice="install it: pip install '.[dask]' in the checkout"
            ) from error
        if self.slurm is not None:
            return _check_slurm()
        try:
            _knock(self.address or "")
        except (OSError, ValueError, TypeError) as error:
            raise self._unanswered(error) from error

    def _client(self) -> Client:
        self.check()
        if self.slurm is not None:
            return _slurm_client(self.slurm)
        import distributed

        try:
            return distributed.Client(self.address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise self._unanswered(error) from error

    def _unanswered(self, error: Exception) -> UsageError:
        return UsageError(
            f"no Dask scheduler answers at {self.address} ({reason_of(error)})",
            advice="start one with `dask scheduler`, or check the address",
        )


def _knock(address: str) -> None:  # pragma: no cover
    """An error where an address is none, or nobody listens there: a client would leave threads."""
    from distributed.comm import get_address_host_port, parse_address, registry

    scheme, _ = parse_address(address)
    registry.get_backend(scheme)
    if scheme != "inproc":
        socket.create_connection(get_address_host_port(address), timeout=CONNECT_S).close()


def _check_slurm() -> None:  # pragma: no cover
    if shutil.which("sbatch") is None:
        raise UsageError("Slurm's sbatch is not on this computer", advice="run on a login node")
    try:
        asked = ["sinfo", "--noheader"]
        subprocess.run(asked, capture_output=True, check=True, timeout=3 * CONNECT_S)
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip()
        why = said.rpartition("\n")[2] or reason_of(error)
        raise UsageError(
            f"Slurm does not answer ({why})", advice="check it with `sinfo`"
        ) from error


@dataclass
class _closing:  # noqa: N801  # pragma: no cover
    """A client that goes, with the jobs that were started for it."""

    client: Client

    def __enter__(self) -> Client:
        try:
            self.client.wait_for_workers(1, timeout=FIRST_WORKER_S)
        except TimeoutError as error:
            self.__exit__()
            raise UsageError(
                f"the cluster has had no worker for {FIRST_WORKER_S} s",
                advice="start workers with `dask worker ADDRESS`, or look at Slurm's queue",
            ) from error
        return self.client

    def __exit__(self, *_: object) -> None:
        cluster = self.client.cluster
        with suppress(Exception):
            self.client.close()
        if cluster is not None:
            with suppress(Exception):
                cluster.close()


def _versions() -> str:  # pragma: no cover
    import platform

    import polars

    return f"timeroof {VERSION}, Python {platform.python_version()}, Polars {polars.__version__}"


def _refuse_other_versions(client: Client) -> None:  # pragma: no cover
    """Every node must read as this one does: pickled orders and tables are of one version."""
    here = _versions()
    try:
        found = client.run(_versions)
    except Exception as error:
        raise UsageError(
            f"a node of the cluster cannot run timeroof ({reason_of(error)})",
            advice="install the same timeroof on every node",
        ) from error
    for worker, there in found.items():
        if there != here:
            raise UsageError(
                f"{worker} has {there}, this computer {here}",
                advice="install the same versions on every node",
            )


# What `--slurm` may say, and what dask-jobqueue calls it.
SLURM_WORDS = {
    "time": "walltime", "partition": "queue", "account": "account", "cores": "cores",
    "memory": "memory", "interface": "interface",
}  # fmt: skip


@dataclass(frozen=True)
class SlurmJobs:
    """How many jobs to ask Slurm for, and with what."""

    nodes: int
    settings: dict[str, str]
    directives: tuple[str, ...] = ()


def slurm_jobs(text: str) -> SlurmJobs:
    """What `--slurm 'nodes=2,time=00:10:00'` asks for; other words are sbatch's own options.

    >>> slurm_jobs("nodes=2,time=00:10:00,qos=debug")
    SlurmJobs(nodes=2, settings={'walltime': '00:10:00'}, directives=('--qos=debug',))
    """
    nodes, settings, directives = 1, {}, []
    for part in (p.strip() for p in text.split(",") if p.strip()):
        word, equals, value = part.partition("=")
        if not equals or not value:
            raise UsageError(
                f"--slurm has {part!r}, which is not NAME=VALUE",
                advice="write for example --slurm nodes=2,time=00:10:00,partition=debug",
            )
        if word == "nodes":
            nodes = _count(word, value)
        elif word in SLURM_WORDS:
            if word == "cores":
                _count(word, value)
            settings[SLURM_WORDS[word]] = value
        else:
            directives.append(f"--{word}={value}")
    return SlurmJobs(nodes, settings, tuple(directives))


def _count(word: str, value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise UsageError(f"--slurm {word}={value} is not a number of {word}")
    return int(value)


def _slurm_client(text: str) -> Client:  # pragma: no cover
    """A client of Dask workers that Slurm starts, one job per node; lost jobs are replaced."""
    jobs = slurm_jobs(text)
    try:
        import dask_jobqueue
    except ImportError as error:
        raise UsageError(
            "dask-jobqueue is not installed",
            advice="install it: pip install '.[dask]' in the checkout",
        ) from error
    given = {"cores": "1", "memory": "4GB"} | jobs.settings
    try:
        cluster = dask_jobqueue.SLURMCluster(
            **given | {"cores": int(given["cores"])},
            processes=int(given["cores"]),
            job_extra_directives=list(jobs.directives),
        )
        cluster.adapt(minimum_jobs=jobs.nodes, maximum_jobs=jobs.nodes)
        return cluster.get_client()
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"Slurm started no worker ({reason_of(error)})") from error
