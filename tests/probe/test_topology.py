"""Cores, sockets, caches and limits from made-up systems; what is missing is assumed and said."""

from __future__ import annotations

from pathlib import Path

import pytest

from timeroof.core.errors import UsageError
from timeroof.probe.cpu.probe import scope_cpus
from timeroof.probe.cpu.topology import (
    available_memory,
    cpu_quota,
    read_topology,
    sysctl_caches,
    total_memory,
)

from .fake_system import cpu, write


@pytest.fixture
def two_sockets(tmp_path: Path) -> Path:
    """Two sockets of two cores with two threads each: CPUs 0,4 1,5 | 2,6 3,7."""
    files: dict[str, str] = {"proc/cpuinfo": "processor : 0\nmodel name : Fake CPU 9000\n"}
    for number in range(8):
        core = number % 4
        files |= cpu(
            number, f"{core},{core + 4}", package=core // 2, l3="0-1,4-5" if core < 2 else "2-3,6-7"
        )
    return write(tmp_path, files)


def test_one_cpu_per_physical_core(two_sockets: Path) -> None:
    shape = read_topology(two_sockets, allowed=range(8))
    assert shape.cores == (0, 1, 2, 3)
    assert shape.sockets == ((0, 1), (2, 3))
    assert shape.model_name == "Fake CPU 9000"
    assert shape.notes == ()


def test_capacity_counts_each_cache_once(two_sockets: Path) -> None:
    shape = read_topology(two_sockets, allowed=range(8))
    assert shape.levels() == [1, 2, 3]
    assert shape.capacity(1, [0]) == 32 * 1024
    assert shape.capacity(2, [0, 1]) == 2 * 1024**2
    assert shape.capacity(3, [0, 1]) == 16 * 1024**2
    assert shape.capacity(3, [0, 2]) == 32 * 1024**2


def test_a_cpuset_leaves_only_its_cpus(two_sockets: Path) -> None:
    shape = read_topology(two_sockets, allowed=[5, 6])
    assert shape.cores == (5, 6)
    assert shape.sockets == ((5,), (6,))


def test_one_core(tmp_path: Path) -> None:
    shape = read_topology(write(tmp_path, cpu(0, "0", l3="0")), allowed=[0])
    assert scope_cpus(shape, None) == {"core": (0,), "socket": (0,), "all": (0,)}


def test_without_sysfs_everything_is_assumed_and_said(tmp_path: Path) -> None:
    shape = read_topology(tmp_path, allowed=[0, 1])
    assert shape.cores == (0, 1)
    assert shape.sockets == ((0, 1),)
    assert not shape.caches_known
    assert shape.levels() == [1, 2, 3]
    assert "cache sizes" in " ".join(shape.notes)
    assert "share a core" in " ".join(shape.notes)


@pytest.mark.parametrize("text", ["", "?", "-5", "K"])
def test_cache_sizes_that_make_no_sense_are_left_out(tmp_path: Path, text: str) -> None:
    files = cpu(0, "0", l3="0")
    files["sys/devices/system/cpu/cpu0/cache/index3/size"] = text
    assert read_topology(write(tmp_path, files), allowed=[0]).levels() == [1, 2]


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000"}, 1.5),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000"}, None),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/cpu.max": "50000 100000"}, 0.5),
        ({"sys/fs/cgroup/cpu.max": "not a number"}, None),
    ],
)
def test_cpu_quota(tmp_path: Path, files: dict[str, str], quota: float | None) -> None:
    assert cpu_quota(write(tmp_path, files)) == quota


def test_a_quota_below_the_cores_limits_the_threads(two_sockets: Path) -> None:
    write(two_sockets, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "250000 100000"})
    shape = read_topology(two_sockets, allowed=range(8))
    assert shape.cores == (0, 1)
    assert "quota of 2.5 cores" in " ".join(shape.notes)


def test_memory_is_the_least_of_free_and_allowed(tmp_path: Path) -> None:
    write(tmp_path, {"proc/meminfo": "MemTotal: 2000 kB\nMemAvailable: 1000 kB\n"})
    assert (available_memory(tmp_path), total_memory(tmp_path)) == (1000 * 1024, 2000 * 1024)
    write(tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "4096"})
    assert available_memory(tmp_path) == 4096
    assert total_memory(tmp_path / "nowhere") is None


def test_scopes(two_sockets: Path) -> None:
    shape = read_topology(two_sockets, allowed=range(8))
    assert scope_cpus(shape, None) == {"core": (0,), "socket": (0, 1), "all": (0, 1, 2, 3)}
    assert scope_cpus(shape, 1) == {"core": (0,), "socket": (0,), "all": (0,)}
    with pytest.raises(UsageError, match="5 threads"):
        scope_cpus(shape, 5)


def test_sysctl_prefers_the_performance_cores() -> None:
    sizes = {
        "hw.perflevel0.l1dcachesize": 131072,
        "hw.l1dcachesize": 65536,
        "hw.l2cachesize": 4194304,
    }
    assert sysctl_caches(sizes.get) == [(1, 131072), (2, 4194304)]
