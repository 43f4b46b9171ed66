"""oneDNN's verbose lines in the spellings of its versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile
from timeroof.read.formats import ReadOptions, format_named, sniffed
from timeroof.read.onednn import parse_execution
from timeroof.read.open import open_input

CONV = "mb2_ic16oc16_ih7oh7kh5sh1dh0ph2_iw7ow7kw5sw1dw0pw2"
CONV_SHAPE = [[2, 16, 7, 7], [16, 16, 5, 5]]
TAIL = f"convolution,jit:avx2,forward_training,src_f32::blocked:aBcd8b:f0 wei_f32::blocked:ABcd8b8a:f0 dst_f32::blocked:aBcd8b:f0,,alg:convolution_direct,{CONV},0.039"
LINES = {
    "0.x": f"mkldnn_verbose,exec,convolution,jit:avx2,forward_training,fsrc:nChw8c fwei:OIhw8i8o fdst:nChw8c,alg:convolution_direct,{CONV},0.039",
    "1.x": f"dnnl_verbose,exec,cpu,{TAIL}",
    "2.x": f"onednn_verbose,exec,cpu,{TAIL}",
    "2.x with time": f"onednn_verbose,1629380000123.5,exec,cpu,{TAIL}",
    "3.0": f"onednn_verbose,primitive,exec,cpu,{TAIL}",
    "3.x": f"onednn_verbose,v1,primitive,exec,cpu,{TAIL}",
    "3.x with time": f"onednn_verbose,v1,1.62938e+12,primitive,exec,gpu:0,{TAIL}",
}
LOG = f"""\
Loading model ...
onednn_verbose,v1,info,oneDNN v3.7.3 (commit N/A)
onednn_verbose,v1,info,cpu,runtime:OpenMP,nthr:8
onednn_verbose,v1,info,cpu,isa:Intel AVX-512 with Intel DL Boost
onednn_verbose,v1,primitive,create:cache_miss,cpu,{TAIL}
{LINES["3.x"]}
{LINES["3.x"]}
onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:u8::blocked:ab::f0 dst:f32::blocked:ba::f0,,,8960x1,0.183
onednn_verbose,v1,graph,exec,cpu,100002,sdp,x,0.5
onednn_verbose,v1,primitive,exec,cpu,matmul,brg:avx512_core_amx,undef,src:bf16::blo
done
"""


@pytest.mark.parametrize("line", LINES.values(), ids=LINES.keys())
def test_lines_of_all_versions(line: str) -> None:
    found = parse_execution(line)
    assert found is not None
    what = found.primitive
    assert (what.kind, what.implementation) == ("convolution", "jit:avx2")
    assert (what.prop, what.problem, found.time_ms) == ("forward_training", CONV, 0.039)
    assert what.auxiliary == "alg:convolution_direct"


def test_timestamps_and_engines() -> None:
    found = parse_execution(LINES["3.x with time"])
    assert found is not None
    assert (found.timestamp_ms, found.primitive.engine, found.primitive.dtype) == (
        1.62938e12,
        "gpu:0",
        "fp32",
    )


@pytest.mark.parametrize(
    "line", ["onednn_verbose,exec,cpu", "onednn_verbose,exec,cpu,a,b,c,d,e,nan"]
)
def test_cut_lines_are_none(line: str) -> None:
    assert parse_execution(line) is None


def read(tmp_path: Path, text: str) -> Profile:
    path = tmp_path / "file"
    path.write_text(text)
    found = open_input(path)
    assert sniffed(found) is format_named("onednn-verbose")
    return format_named("onednn-verbose").read(found, ReadOptions())


def test_a_log_among_other_text(tmp_path: Path) -> None:
    profile = read(tmp_path, LOG)
    assert (profile.source.version, profile.threads) == ("3.7.3", 8)
    conv, reorder = sorted(
        profile.kernels.iter_rows(named=True), key=lambda r: str(r["short_name"])
    )
    assert (conv["kind"], conv["calls"], conv["label.onednn_problem"]) == ("primitive", 2, CONV)
    assert conv["shape"] == CONV_SHAPE
    assert (conv["phase"], conv["dtype"], conv["flop/fp32"]) == ("forward", "fp32", None)
    assert conv["time_s"] == pytest.approx(78e-6)
    assert (reorder["flop/fp32"], reorder["label.onednn_kind"]) == (0, "reorder")
    assert any("graph partitions" in note for note in profile.notes)
    assert any("cut" in note for note in profile.notes)
    assert profile.wall_s is None


def test_timestamps_give_a_wall_time(tmp_path: Path) -> None:
    lines = [f"onednn_verbose,{1000 + n}.0,exec,cpu,{TAIL}" for n in (0, 2)]
    profile = read(tmp_path, "\n".join(lines))
    assert profile.wall_s == pytest.approx(2.039e-3)
    assert profile.kernel_s == pytest.approx(78e-6)


def test_a_log_without_executions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no primitive that ran"):
        read(tmp_path, "onednn_verbose,info,oneDNN v2.6.0 (commit x)\n")
