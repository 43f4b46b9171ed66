"""LLVM IR compiled in this process with llvmlite: no compiler on the user's machine."""

from __future__ import annotations

import ctypes
import functools
import platform
from typing import Any

from timeroof.core.errors import UsageError


class Compiled:
    """A compiled micro-kernel; keeps the engine that owns its code alive."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        address = engine.get_function_address("run")
        # A plain CFUNCTYPE call gives up Python's lock while the kernel runs.
        self.run = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)


def architecture() -> str:
    """The instruction set as LLVM names it: x86_64, aarch64 or what the system says."""
    name = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


@functools.cache
def _binding() -> Any:
    try:
        import llvmlite.binding as llvm
    except (ImportError, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:160]
        raise UsageError(
            f"this computer cannot be measured without llvmlite, which cannot be loaded ({reason})",
            advice="install it (pip install llvmlite) or name a machine with --machine",
        ) from error
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


def host_cpu_name() -> str:
    """LLVM's name of this CPU's microarchitecture, such as znver4."""
    return str(_binding().get_host_cpu_name())


@functools.cache
def host_features() -> frozenset[str]:
    """LLVM's names of the instruction set extensions that this CPU has."""
    return frozenset(name for name, present in _host_features().items() if present)


def _host_features() -> dict[str, bool]:
    """LLVM cannot tell them on every system; the CPU's name alone is then enough for it."""
    try:
        return dict(_binding().get_host_cpu_features())
    except RuntimeError:
        return {}


def compile_ir(text: str) -> Compiled:
    """Compile a module with a function `run` for this very CPU."""
    llvm = _binding()
    module = llvm.parse_assembly(text)
    module.verify()
    # The engine takes the target machine over, so that each kernel needs one of its own.
    target = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=",".join(f"{'+' if on else '-'}{n}" for n, on in _host_features().items()),
        opt=3,
        jit=True,
    )
    engine = llvm.create_mcjit_compiler(module, target)
    engine.finalize_object()
    return Compiled(engine)


def assembly(text: str, triple: str | None = None, cpu: str = "", features: str = "") -> str:
    """The machine code of a module as text, for this machine or another; for tests."""
    llvm = _binding()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple or llvm.get_process_triple())
    machine = target.create_target_machine(cpu=cpu, features=features, opt=3)
    return str(machine.emit_assembly(llvm.parse_assembly(text)))
