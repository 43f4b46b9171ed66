"""The catalogue: complete, sourced, and found under the names that profilers print."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from timeroof.core.errors import UnknownMachineError
from timeroof.core.machine import Machine, parse_machine
from timeroof.machines import catalogue
from timeroof.machines.catalogue import (
    catalogue_machine,
    find_machine,
    inferred_machine,
    machine_names,
    machine_of_device,
    nearest_machines,
)

ALL = [catalogue_machine(name) for name in machine_names()]

REQUIRED = set(
    """
    v100-paper p100-sxm2 p100-pcie v100-sxm2 v100-pcie t4 rtx-2080-ti rtx-3080 rtx-3090
    rtx-4090 rtx-5070 rtx-5080 rtx-5090 a10 a30 a40 a100-sxm4-40gb a100-sxm4-80gb
    a100-pcie-40gb a100-pcie-80gb l4 l40s h100-sxm h100-pcie h100-nvl h200 h800 h20 gh200 b200
    gb200 jetson-agx-orin mi100 mi210 mi250x mi300a mi300x mi325x mi350x mi355x rx-7900-xtx
    ryzen-ai-max-395 tpu-v2 tpu-v3 tpu-v4 tpu-v5e tpu-v5p tpu-v6e max-1550 gaudi-2 gaudi-3
    apple-m1 apple-m2 apple-m3 apple-m4 epyc-9654 xeon-8480plus
    """.split()  # noqa: SIM905
)


def test_the_catalogue_has_what_was_promised() -> None:
    assert not REQUIRED - set(machine_names())
    assert len(machine_names()) >= 45


@pytest.mark.parametrize("machine", ALL, ids=lambda m: m.name)
def test_every_figure_has_a_source(machine: Machine) -> None:
    for ceiling in machine.ceilings:
        # A source is a sentence, not a key that nobody resolved.
        assert len(ceiling.source) > 12, ceiling.resource
        assert " " in ceiling.source, ceiling.resource
    for level in machine.memory:
        assert " " in level.source, level.level


@pytest.mark.parametrize("machine", ALL, ids=lambda m: m.name)
def test_rates_are_plausible(machine: Machine) -> None:
    rates = {r: c.rate for r, c in machine.roofs().items()}
    if "flop/fp64" in rates:
        assert rates["flop/fp32"] >= rates["flop/fp64"]
    for resource, rate in rates.items():
        if resource.startswith("flop/"):
            assert 1e10 < rate < 5e16, resource
        if resource.startswith("byte/"):
            assert 1e9 < rate < 1e15, resource
    levels = [rates[f"byte/{x}"] for x in ("l1", "l2", "l3", "dram") if f"byte/{x}" in rates]
    assert levels == sorted(levels, reverse=True)
    if machine.kind == "gpu" and machine.vendor in ("NVIDIA", "AMD"):
        assert 1e-6 <= (machine.launch_overhead_s or 0.0) <= 4.2e-6 * (1 + 1e-9)
        assert 0 < (machine.kernel_floor_s or 1e-6) < 5e-6


def test_peaks_are_dense() -> None:
    assert find_machine("h100-sxm").rate("flop/fp16-tensor") == pytest.approx(989.4e12, rel=2e-3)
    assert find_machine("h100-sxm").rate("flop/fp8-tensor") == pytest.approx(1978.9e12, rel=2e-3)
    assert find_machine("a100-sxm4-80gb").rate("flop/bf16-tensor") == pytest.approx(312e12)
    assert find_machine("mi300x").rate("flop/fp16-tensor") == pytest.approx(1307.4e12, rel=1e-3)
    assert find_machine("a100-sxm4-40gb").rate("flop/fp64") == pytest.approx(9.7e12)


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("AMD Instinct MI300X VF", "mi300x"),
        ("Tesla V100-SXM2-32GB", "v100-sxm2-32gb"),
        ("Tesla V100-SXM2-16GB", "v100-sxm2"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm4-40gb"),
        ("nvidia geforce rtx 4090", "rtx-4090"),
        ("NVIDIA B200", "b200"),
        ("Intel(R) Xeon(R) Platinum 8480+", "xeon-8480plus"),
        ("h100-sxm", "h100-sxm"),
        ("NVIDIA A10G", "a10g"),
        ("Quadro RTX 6000", "quadro-rtx-6000"),
        ("GeForce GTX 1080 Ti", "gtx-1080-ti"),
        ("NVIDIA Thor", "jetson-agx-thor"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-server"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx-pro-6000"),
        ("NVIDIA GeForce RTX 3080 Ti", "rtx-3080-ti"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "rtx-4070-ti-super"),
        ("NVIDIA GeForce RTX 5070 Ti", "rtx-5070-ti"),
        ("NVIDIA GB300", "gb300"),
        ("NVIDIA A800-SXM4-80GB", "a800-sxm4-80gb"),
        ("AMD Radeon PRO W7900", "w7900"),
    ],
)
def test_device_names_resolve(device: str, name: str) -> None:
    assert find_machine(device).name == name


def test_no_device_name_belongs_to_two_machines() -> None:
    seen: dict[str, str] = {}
    for machine in ALL:
        for device in machine.device_names:
            assert device not in seen, f"{device}: {machine.name} and {seen.get(device)}"
            seen[device] = machine.name


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(UnknownMachineError) as caught:
        find_machine("NVIDIA H100 96GB HBM5")
    assert "h100-" in caught.value.message
    assert "timeroof machines" in caught.value.message
    assert "mi300x" in nearest_machines("mi300xx")
    assert nearest_machines("zzzz") == []
    with pytest.raises(UnknownMachineError, match=r"\.\.\."):
        find_machine("x" * 10_000)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("h10", "h100-"),
        ("h1oo", "h100-"),
        ("hl00", "h100-"),
        ("h-100", "h100-"),
        ("H100 96GB HBM5", "h100-"),
        ("h100-sxn", "h100-sxm"),
        ("a10O", "a100-"),
        ("b20", "b200"),
        ("gb2000", "gb200"),
        ("rtx-409", "rtx-4090"),
        ("4090", "rtx-4090"),
        ("rtx4090", "rtx-4090"),
        ("mi30x", "mi300x"),
        ("tpuv4", "tpu-v4"),
        ("grav", "graviton"),
        ("apple", "apple-m1"),
        ("A100-SXM-40GB", "a100-sxm4-40gb"),
        ("AMD EPYC 7B13 64-Core Processor", "epyc-7"),
    ],
)
def test_the_machine_that_was_meant_comes_first(typed: str, meant: str) -> None:
    assert nearest_machines(typed)[0].startswith(meant)


@pytest.mark.parametrize("typed", ["h10", "h1oo", "h-100", "NVIDIA H100 96GB"])
def test_other_chips_are_not_named_beside_the_one_that_was_meant(typed: str) -> None:
    assert {name[:5] for name in nearest_machines(typed)} == {"h100-"}


@pytest.mark.parametrize("typed", ["", "x", "frob", "nvidia", "-", "x" * 10_000])
def test_what_names_no_chip_has_no_nearest(typed: str) -> None:
    assert nearest_machines(typed) == []


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The catalogue as a folder of the test's own, with what is remembered of it forgotten."""
    for name in ("h100-sxm", "h100-pcie", "v100-sxm2"):
        shutil.copy(Path(catalogue.__file__).parent / f"{name}.toml", tmp_path)
    monkeypatch.setattr(catalogue.resources, "files", lambda _package: tmp_path)
    remembered = (machine_names, catalogue._toml, catalogue_machine, catalogue._device_index)
    for function in remembered:
        function.cache_clear()
    yield tmp_path
    for function in remembered:
        function.cache_clear()


def test_a_device_parses_its_own_file_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def counted(text: str, *, where: str) -> Machine:
        parsed.append(where)
        return parse_machine(text, where=where)

    catalogue_machine.cache_clear()
    monkeypatch.setattr(catalogue, "parse_machine", counted)
    assert find_machine("NVIDIA H100 80GB HBM3").name == "h100-sxm"
    assert "machines/h100-sxm.toml" in parsed
    assert len(parsed) <= 3


def test_every_name_finds_what_the_whole_index_finds() -> None:
    for known, name in catalogue._device_index().items():
        assert machine_of_device(known) == catalogue_machine(name)
    for machine in ALL:
        for device in (machine.device, *machine.device_names):
            assert machine_of_device(device.upper()) == machine_of_device(device) is not None


def test_a_file_that_is_added_or_edited_counts_at_once(folder: Path) -> None:
    assert machine_of_device("NVIDIA H100 80GB HBM3") is not None
    assert machine_of_device("Brand New 9000") is None
    text = (folder / "h100-sxm.toml").read_text()
    renamed = text.replace("NVIDIA H100 80GB HBM3", "NVIDIA Edited Device")
    (folder / "h100-sxm.toml").write_text(renamed)
    escaped = text.replace("NVIDIA H100 80GB HBM3", "Brand\\u0020New 9000").replace(
        'name = "h100-sxm"', 'name = "new"'
    )
    (folder / "new.toml").write_text(escaped)
    for function in (machine_names, catalogue._toml, catalogue_machine):
        function.cache_clear()
    assert machine_of_device("NVIDIA H100 80GB HBM3") is None
    edited, new = machine_of_device("edited-device"), machine_of_device("BRAND NEW-9000")
    assert edited is not None
    assert new is not None
    assert (edited.name, new.name) == ("h100-sxm", "new")


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("Tesla V100-DGXS-32GB", "v100-sxm2-32gb"),
        ("NVIDIA H100", "h100-sxm"),
        ("Tesla P100-PCIE", "p100-pcie"),
        ("AMD Instinct MI300X VF", "mi300x"),
        ("gfx90a", "mi250x"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", None),
        ("NVIDIA RTX PRO 5000 Blackwell", None),
        ("NVIDIA H200 NVL", "h200"),
        ("NVIDIA GeForce RTX 4090 D", "rtx-4090"),
        ("AMD Radeon Graphics", None),
        ("Intel(R) Xeon(R) 8280", None),
        ("", None),
    ],
)
def test_a_device_of_another_name_is_taken_for_the_fastest_of_its_chip(
    device: str, name: str | None
) -> None:
    found = inferred_machine(device)
    assert (found.name if found else None) == name


def test_kernels_tell_their_generation_only_where_nothing_else_runs_them() -> None:
    hopper = inferred_machine(None, ["void k()", "sm90_xmma_gemm_bf16bf16_bf16f32"])
    assert hopper is not None
    assert hopper.architecture == "Hopper"
    assert inferred_machine(None, ["sm80_xmma_gemm_f16f16", "volta_sgemm_128x64_nn"]) is None


def test_achievable_rates_stand_beside_the_peaks_and_bound_nothing() -> None:
    published = [find_machine(name) for name in machine_names() if find_machine(name).achievable]
    assert published
    for machine in published:
        for best in machine.achievable:
            assert best.source, machine.name
            assert best.rate < (machine.rate(best.resource) or 0.0), machine.name
            assert machine.roofs()[best.resource].rate != best.rate
