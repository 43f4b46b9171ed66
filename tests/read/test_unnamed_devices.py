"""Files whose device has no name of the catalogue: what it must be, from what the file says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import timeroof
from tests.kineto_events import document, kernel, launch
from tests.read.test_ncu import base, write_long
from tests.recorded_data import DATA, needs_recorded_data
from timeroof.core.report import Report
from timeroof.machines.catalogue import fitting_machine, inferred_machine

GIB = 2**30


def trace(folder: Path, name: str, facts: tuple[int, int, int, int, int]) -> Report:
    keys = ("computeMajor", "computeMinor", "totalGlobalMem", "numSms", "warpSize")
    device = {"id": 0, "name": name, **dict(zip(keys, facts, strict=True))}
    events = [launch(1, 0), kernel("k", 10, 5, 1)]
    path = folder / "trace.json"
    path.write_text(json.dumps(document(events, deviceProperties=[device])))
    return timeroof.load(path)


@pytest.mark.parametrize(
    ("name", "facts", "machine"),
    [
        ("", (9, 4, 192 * GIB - 10**7, 304, 64), "mi300x"),
        ("AMD Radeon Graphics", (9, 0, 64 * GIB - 10**7, 104, 64), "mi210"),
        ("", (9, 0, 79 * GIB, 132, 32), "h100-sxm"),
        ("", (9, 0, 79 * GIB, 114, 32), "h100-pcie"),
        ("Graphics Device", (7, 0, 15 * GIB, 80, 32), "v100-sxm2"),
        # gfx1201 has the numbers of NVIDIA's 12.0, and 32 threads like it; gfx90a those of 9.0.
        ("AMD Radeon Graphics", (12, 0, 16 * GIB, 32, 32), "rx-9070-xt"),
        ("AMD Instinct", (9, 0, 64 * GIB, 104, 0), "mi210"),
        # Its name tells more than its properties.
        ("NVIDIA H800", (9, 0, 79 * GIB, 132, 32), "h800"),
    ],
)
def test_properties_tell_the_machine_where_the_name_does_not(
    tmp_path: Path, name: str, facts: tuple[int, int, int, int, int], machine: str
) -> None:
    report = trace(tmp_path, name, facts)
    assert report.machine is not None
    assert report.machine.name == machine
    said = [str(n) for n in report.notes if n.code == "inferred-machine"]
    assert len(said) == (name != "NVIDIA H800")
    assert all("--machine" in text and machine in text for text in said)
    assert not [n for n in report.notes if n.code in ("no-device", "unknown-device")]


def test_properties_that_fit_nothing_name_nothing(tmp_path: Path) -> None:
    report = trace(tmp_path, "", (3, 5, 11 * GIB, 13, 32))
    assert report.machine is None
    assert [n for n in report.notes if n.code == "no-device"]


def test_a_compute_capability_names_the_fastest_gpu_of_it(tmp_path: Path) -> None:
    path = write_long(tmp_path / "x.csv", base(), capability="12.0")
    report = timeroof.load(path)
    assert report.machine is not None
    assert report.machine.name == "rtx-pro-6000"
    assert [n for n in report.notes if n.code == "inferred-machine"]
    other = timeroof.analyze(report.profile, "rtx-5070")
    assert other.machine is not None
    assert other.machine.name == "rtx-5070"


@pytest.mark.parametrize(("sms", "machine"), [(170, "rtx-5090"), (48, "rtx-5070")])
def test_ncu_counts_multiprocessors(tmp_path: Path, sms: int, machine: str) -> None:
    rows = [*base(), (0, "k", "# SMs", "SM", sms)]
    report = timeroof.load(write_long(tmp_path / "x.csv", rows, capability="12.0"))
    assert report.machine is not None
    assert report.machine.name == machine


@pytest.mark.parametrize(
    ("name", "machine"),
    [
        ("Tesla V100-DGXS-32GB", "v100-sxm2-32gb"),
        ("NVIDIA H100", "h100-sxm"),
        ("Tesla P100-PCIE", "p100-pcie"),
        ("gfx950", "mi355x"),
    ],
)
def test_names_beside_those_of_the_catalogue(name: str, machine: str) -> None:
    found = inferred_machine(name)
    assert found is not None
    assert found.name == machine


def test_cores_and_memory_tell_gpus_of_one_architecture_apart() -> None:
    told = {(96, 132): "gh200", (64, 132): None, (141, 132): "h200"}
    for (gib, cores), name in told.items():
        found = fitting_machine("9.0", gib * GIB, cores)
        assert (found and found.name) == name


@needs_recorded_data
@pytest.mark.parametrize(
    ("file", "machine"),
    [
        ("kineto/mi250_minitoy_train.json.gz", "mi210"),
        ("kineto/mi300x_vllm_decode_hipgraph.json.gz", "mi300x"),
        ("ncu/rtx5090_deepseek_ocr_details/kernel_0001/ncu.details.csv", "rtx-pro-6000"),
        ("xla/mi300x_jax_conv3d_8gpu.xplane.pb", "mi300x"),
    ],
)
def test_recorded_files_of_unnamed_devices(file: str, machine: str) -> None:
    report = timeroof.load(DATA / file)
    assert report.machine is not None
    assert report.machine.name == machine
