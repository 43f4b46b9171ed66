"""Machines: which ceiling counts, what is refused, and that files survive a round trip."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import make_machine
from timeroof.core.errors import InputError, SchemaError
from timeroof.core.machine import (
    Ceiling,
    Machine,
    machine_toml,
    parse_machine,
    read_machine,
    write_machine,
)

GOOD = """
schema = "timeroof.machine/1"
name = "mine"
title = "My device"
[sources]
sheet = "The sheet"
[[ceilings]]
resource = "flop/fp32"
rate = 1e12
source = "sheet"
[[ceilings]]
resource = "launch"
seconds_each = 4e-6
origin = "measured"
"""


def test_a_measured_ceiling_beats_a_datasheet() -> None:
    machine = make_machine(
        ceilings=[
            Ceiling(resource="flop/fp32", rate=10.0, origin="datasheet"),
            Ceiling(resource="flop/fp32", rate=8.0, origin="measured"),
            Ceiling(resource="flop/fp32", rate=11.0, origin="theoretical"),
        ]
    )
    assert machine.rate("flop/fp32") == 8.0
    assert machine.roofs(origin="theoretical")["flop/fp32"].rate == 11.0
    assert machine.rate("byte/dram") is None
    assert machine.launch_overhead_s is None


def test_sizes(machine: Machine) -> None:
    assert machine.memory_size("l2") == 50
    assert machine.memory_size("l3") is None
    assert machine.largest_cache_bytes == 50
    assert make_machine(memory=[]).largest_cache_bytes is None


def test_a_file_is_read_with_its_sources() -> None:
    machine = parse_machine(GOOD, "x.toml")
    assert machine.ceilings[0].source == "The sheet"
    assert machine.launch_overhead_s == pytest.approx(4e-6)


def test_round_trip_through_toml(tmp_path: Path, machine: Machine) -> None:
    write_machine(machine, tmp_path / "m.toml")
    assert read_machine(tmp_path / "m.toml") == machine
    assert parse_machine(machine_toml(machine), "again") == machine


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("rate = 1e12", "rate = -1.0"), ["ceilings[0] (flop/fp32)", "-1.0"]),
        (("rate = 1e12", "rate = 0"), ["ceilings[0]", "0.0"]),
        (("rate = 1e12", "rate = nan"), ["ceilings[0]", "nan"]),
        (("rate = 1e12", "rate = inf"), ["ceilings[0]", "inf"]),
        (("rate = 1e12", 'rate = "fast"'), ["ceilings[0].rate"]),
        (("rate = 1e12\n", ""), ["ceilings[0]", "rate", "seconds_each"]),
        (("rate = 1e12", "rate = 1e12\nseconds_each = 1.0"), ["ceilings[0]", "one of"]),
        (("seconds_each = 4e-6", "seconds_each = -4e-6"), ["ceilings[1]", "seconds_each"]),
        (("seconds_each = 4e-6", "seconds_each = 0.0"), ["ceilings[1]", "seconds_each"]),
        (("flop/fp32", "flop/fp31"), ["flop/fp31", "resource"]),
        (('name = "mine"', 'name = " "'), ["name"]),
        (('name = "mine"\n', ""), ["name"]),
        (('name = "mine"', 'nome = "mine"'), ["nome"]),
        (('origin = "measured"', 'origin = "guessed"'), ["guessed", "ceilings[1].origin"]),
        (("[sources]", "[sources"), ["TOML", "line"]),
        (("machine/1", "machine/2"), ["newer", "timeroof.machine/2"]),
        (("timeroof.machine/1", "other/1"), ["other/1"]),
        (('schema = "timeroof.machine/1"\n', ""), ["schema", "missing"]),
        (('resource = "launch"\nseconds_each', 'resource = "flop/fp32"\nrate'), None),
        (("rate = 1e12", "rate = 1e12\nspread = -1.0"), ["spread"]),
        (("rate = 1e12", "rate = 5e-324"), ["ceilings[0]"]),
        (("rate = 1e12", "seconds_each = 1.0"), ["ceilings[0]", "launch and fault"]),
        (("rate = 1e12", "rate = " + "9" * 5000), ["TOML"]),
        (('name = "mine"', 'name = "mine"\nkind = "zorg"'), ["zorg"]),
        (("[sources]", '[[memory]]\nlevel = "l77"\nsize_bytes = 9\n[sources]'), ["l77"]),
        (("[sources]", '[emulated]\n"flop/bf16" = "flop/bf16"\n[sources]'), ["emulated"]),
        (("rate = 1e12", "rate = 1e12\nvariants = { a = -1.0 }"), ["variant", "'a'"]),
        (("[sources]", '[[memory]]\nlevel = "l2"\nsize_bytes = 0\n[sources]'), ["memory[0]"]),
        (("[sources]", '[emulated]\n"flop/bf16" = "flop/x"\n[sources]'), ["emulated"]),
    ],
)
def test_bad_files_are_refused_with_file_and_field(
    change: tuple[str, str], words: list[str] | None
) -> None:
    assert change[0] in GOOD
    text = GOOD.replace(*change)
    if words is None:
        parse_machine(text, "bad.toml")
        return
    with pytest.raises(InputError) as caught:
        parse_machine(text, "bad.toml")
    assert "bad.toml" in caught.value.message
    for word in words:
        assert word in caught.value.message


def test_a_repeated_ceiling_is_refused() -> None:
    again = GOOD + '\n[[ceilings]]\nresource = "flop/fp32"\nrate = 2e12\n'
    with pytest.raises(InputError, match="repeats"):
        parse_machine(again, "bad.toml")


def test_no_ceiling_is_refused() -> None:
    text = GOOD.split("[[ceilings]]", maxsplit=1)[0].replace(
        "[sources]", "ceilings = []\n[sources]"
    )
    with pytest.raises(InputError, match="no entry"):
        parse_machine(text, "bad.toml")


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_machine(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"name = '\xff'")
    with pytest.raises(InputError, match="UTF-8"):
        read_machine(tmp_path / "latin.toml")
    with pytest.raises(InputError, match="is no file"):
        read_machine(tmp_path)
    (tmp_path / "bom.toml").write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert read_machine(tmp_path / "bom.toml").name == "mine"
    (tmp_path / "long.toml").write_bytes(b"#" * 5_000_000)
    with pytest.raises(InputError, match="too large"):
        read_machine(tmp_path / "long.toml")


def test_a_schema_that_is_no_number_is_refused() -> None:
    with pytest.raises(SchemaError):
        parse_machine(GOOD.replace("machine/1", "machine/x"), "bad.toml")
