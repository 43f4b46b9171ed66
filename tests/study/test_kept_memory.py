"""Workers keep freed memory: results are written to pages that are mapped already."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Larger than the 64 MB that an arena of a thread holds at once, on such a thread: where JAX and
# TensorFlow make their results. Prints the pages that the second round touched first.
PROGRAM = """
import ctypes, resource, sys, threading
from timeroof.study.worker.turns import keep_memory
keep_memory()
libc, size = ctypes.CDLL(None), 80 << 20
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
def write():
    found = libc.malloc(size)
    ctypes.memset(found, 1, size)
    libc.free(found)
def rounds():
    write()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    write()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
thread = threading.Thread(target=rounds)
thread.start()
thread.join()
"""


def faults(**setting: str) -> int:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    clean.pop("GLIBC_TUNABLES", None)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=clean | setting, capture_output=True, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(
    sys.platform != "linux" or "CS_GNU_LIBC_VERSION" not in os.confstr_names,
    reason="mallopt is glibc's",
)
def test_a_large_result_is_written_to_mapped_pages_and_a_setting_of_the_user_stays() -> None:
    assert faults() < 100
    # 80 MB in huge pages are 40 faults; in pages of 4 kB they are 20480.
    assert faults(MALLOC_MMAP_THRESHOLD_="131072") >= 40
