"""Vector widths and units from lists of extensions."""

from __future__ import annotations

from pathlib import Path

import pytest

from timeroof.probe.cpu.reduced import describe_without_torch, resource_of
from timeroof.probe.cpu.topology import read_features

from .fake_system import write


@pytest.mark.parametrize(
    ("extensions", "widths", "fma"),
    [
        (set(), (128,), False),
        ({"avx"}, (128, 256), False),
        ({"avx", "avx2", "fma"}, (128, 256), True),
        ({"avx", "fma", "avx512f"}, (128, 256, 512), True),
    ],
)
def test_x86(extensions: set[str], widths: tuple[int, ...], fma: bool) -> None:
    features = read_features("x86_64", extensions)
    assert (features.widths_bits, features.fma) == (widths, fma)


def test_arm_with_and_without_scalable_vectors(tmp_path: Path) -> None:
    assert read_features("aarch64", {"neon"}, tmp_path).widths_bits == (128,)
    assert read_features("aarch64", {"sve"}, tmp_path).widths_bits == (128,)
    write(tmp_path, {"proc/sys/abi/sve_default_vector_length": "64\n"})
    assert read_features("aarch64", {"sve"}, tmp_path).widths_bits == (128, 512)
    assert read_features("riscv64", set()).widths_bits == (128,)


def test_arm_extensions_as_linux_lists_them(tmp_path: Path) -> None:
    write(tmp_path, {"proc/cpuinfo": "processor : 0\nFeatures : fp asimd asimddp asimdhp bf16\n"})
    units = read_features("aarch64", set(), tmp_path).units
    assert units == {"bf16": "Arm BF16", "fp16": "Arm FP16", "int8": "Arm DotProd"}


def test_units_of_a_zen_4_and_a_sapphire_rapids() -> None:
    zen = read_features("x86_64", {"avx512bf16", "avx512vnni"})
    assert zen.units == {"bf16": "AVX512_BF16", "int8": "AVX512_VNNI"}
    assert resource_of("bf16", zen) == "flop/bf16"
    assert resource_of("fp16", zen) is None
    rapids = read_features("x86_64", {"avx512bf16", "avx512vnni", "amx-bf16", "amx-int8"})
    assert resource_of("bf16", rapids) == "flop/bf16-tensor"
    assert rapids.units == {"bf16-tensor": "AMX", "int8-tensor": "AMX"}


def test_short_floats_without_a_unit_run_on_fp32() -> None:
    found = describe_without_torch(read_features("x86_64", {"avx512vnni"}))
    assert found.emulated == {"flop/bf16": "flop/fp32", "flop/fp16": "flop/fp32"}
    assert "No ceilings of INT8: this CPU has units for them" in " ".join(found.notes)
    assert found.ceilings == []
