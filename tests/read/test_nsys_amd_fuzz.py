"""Cut and damaged files of every reader of Nsight Systems', AMD's, XLA's and oneDNN's formats.

Whatever happens to the bytes, a reader returns a profile or an InputError, nothing else.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.read import (
    test_nsys_csv,
    test_omniperf,
    test_onednn,
    test_rocprof_csv,
    test_rocprofv3,
    test_xplane,
)
from tests.read.test_nsys_sqlite import write_export
from timeroof.core.errors import InputError
from timeroof.core.profile import Profile
from timeroof.read.formats import Format, ReadOptions, format_named
from timeroof.read.open import Entry, Input, open_input

CASES = 60


def _sqlite(write: Callable[[Path], Path]) -> Callable[[Path], bytes]:
    return lambda folder: write(folder / "made").read_bytes()


SAMPLES: dict[str, tuple[Format, Callable[[Path], bytes]]] = {
    "nsys-sqlite": (format_named("nsys-sqlite"), _sqlite(write_export)),
    "rocpd": (format_named("rocpd"), _sqlite(test_rocprofv3.write_rocpd)),
    "nsys-summary": (format_named("nsys-csv"), lambda _: test_nsys_csv.SUMMARY.encode()),
    "nsys-trace": (format_named("nsys-csv"), lambda _: test_nsys_csv.TRACE.encode()),
    "v3-kernels": (format_named("rocprofv3-csv"), lambda _: test_rocprofv3.KERNELS.encode()),
    "v3-counters": (format_named("rocprofv3-csv"), lambda _: test_rocprofv3.COUNTERS.encode()),
    "v3-copies": (format_named("rocprofv3-csv"), lambda _: test_rocprofv3.COPIES.encode()),
    "v3-stats": (format_named("rocprofv3-csv"), lambda _: test_rocprofv3.STATS.encode()),
    "v3-json": (
        format_named("rocprofv3-json"),
        lambda _: json.dumps(test_rocprofv3.make_json()).encode(),
    ),
    "v1": (format_named("rocprof-csv"), lambda _: test_rocprof_csv.V1.encode()),
    "v2": (format_named("rocprof-csv"), lambda _: test_rocprof_csv.V2.encode()),
    "rewritten": (format_named("rocprof-csv"), lambda _: test_rocprof_csv.REWRITTEN.encode()),
    "roofline": (format_named("omniperf"), lambda _: test_omniperf.ROOFLINE.encode()),
    "xplane": (format_named("xplane"), lambda _: test_xplane.make_space()),
    "onednn": (format_named("onednn-verbose"), lambda _: test_onednn.LOG.encode()),
}


@st.composite
def damages(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """Cut somewhere, and a few bytes overwritten, doubled or taken out."""
    keep = draw(st.floats(0, 1))
    edits = draw(
        st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=6), st.booleans()), max_size=4)
    )

    def damage(data: bytes) -> bytes:
        out = bytearray(data if keep > 0.5 else data[: int(len(data) * 2 * keep)])
        for where, new, overwrite in edits:
            at = int(where * len(out))
            out[at : at + (len(new) if overwrite else 0)] = new
        return bytes(out)

    return damage


def is_sound(format_: Format, found: Input) -> bool:
    """Whether a file gives a profile or a clear error, and no warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        format_.sniff(found)
        try:
            return isinstance(format_.read(found, ReadOptions()), Profile)
        except InputError as error:
            return bool(error.message)


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    made = {}
    for name, (_, make) in SAMPLES.items():
        made[name] = make(tmp_path_factory.mktemp(name))
    return made


@pytest.mark.parametrize("name", SAMPLES)
@given(damage=damages())
@settings(
    max_examples=CASES,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
def test_damaged_files_end_in_a_profile_or_a_clear_error(
    samples: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory, name: str, damage
) -> None:
    data = damage(samples[name])
    if not data:
        return
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(data)
    assert is_sound(SAMPLES[name][0], open_or_none(path))


def open_or_none(path: Path) -> Input:
    """The file as one entry, even where its first bytes look like an archive's."""
    try:
        found = open_input(path)
    except InputError:
        found = Input(str(path), ())
    if len(found.entries) == 1:
        return found
    return Input(str(path), (Entry(str(path), lambda: path.open("rb"), plain_path=path),))


@pytest.mark.parametrize("name", ["v1", "v3-kernels", "nsys-summary"])
def test_a_name_of_megabytes_and_many_columns(
    samples: dict[str, bytes], tmp_path: Path, name: str
) -> None:
    text = samples[name].replace(b"body(", b"b" * 3_000_000, 1).replace(b"gemm", b"g" * 3_000_000)
    header, _, rest = text.partition(b"\n")
    wide = header + b"".join(b",X%d" % n for n in range(10_000)) + b"\n" + rest
    for data in (text, wide):
        (tmp_path / "x").write_bytes(data)
        assert is_sound(SAMPLES[name][0], open_input(tmp_path / "x"))


def test_deep_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text('{"rocprofiler-sdk-tool": ' + "[" * 100_000)
    with pytest.raises(InputError):
        format_named("rocprofv3-json").read(open_input(tmp_path / "x"), ReadOptions())
