"""`timeroof machine`: measure this computer, or show a machine of the catalogue."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from timeroof.cli.options import JsonTarget, PageTarget

if TYPE_CHECKING:
    from timeroof.core.machine import Machine
    from timeroof.probe.sampling import Measurement

HERE = "here"


def machine(
    name: Annotated[
        str,
        typer.Argument(
            help="A catalogue name (h100-sxm), a device name as profilers print it"
            " ('NVIDIA H100 80GB HBM3'), or the path of a TOML file; 'here' measures this computer."
        ),
    ] = HERE,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure again although a measurement is kept.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure in seconds rather than up to a minute.")
    ] = False,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads to measure with. [default: one per core]")
    ] = None,
    device: Annotated[
        str, typer.Option(help="A torch device to measure, such as cuda or cuda:1.")
    ] = "cpu",
    json: JsonTarget = None,
    save: Annotated[
        Path | None,
        typer.Option(help="Write the machine as a TOML file, to share and to use as a machine."),
    ] = None,
    html: PageTarget = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Draw the ceilings and the bandwidth curve into this folder."),
    ] = None,
) -> None:
    """Measure this computer's ceilings, or show those of a machine in the catalogue.

    Measures peak FLOP/s per precision, bandwidth per memory level and the cost of a page fault, on
    one core and on all. Measures launch overhead in every installed framework. The result is
    kept; `--fresh` measures again. The next call replaces one that other programs disturbed.

    Example: `timeroof machine --quick`, `timeroof machine h100-sxm`
    """
    import msgspec

    from timeroof.api.reports import machine as find
    from timeroof.cli.options import write_json
    from timeroof.core.errors import UsageError
    from timeroof.core.machine import write_machine
    from timeroof.core.report import machine_document

    _check_targets(json, save, html, out)
    if name == HERE:
        measured = _measure(fresh=fresh, quick=quick, threads=threads, device=device)
        found = measured.machine
    elif fresh or quick or threads is not None or device != "cpu":
        raise UsageError(
            "--fresh, --quick, --threads and --device are for measuring", advice="leave NAME out"
        )
    else:
        measured, found = None, find(name)
    if save is not None:
        write_machine(found, save)
    if html is not None:
        from timeroof.core.files import write_atomically
        from timeroof.views.machine import machine_page

        notes = (*measured.notes, *measured.warnings) if measured is not None else ()
        write_atomically(html, machine_page(found, notes).encode())
    if out is not None:
        _draw(found, measured, out)
    if json is not None:
        write_json(msgspec.json.encode(machine_document(found)), json)
    if json != "-":
        _show(found, measured)
    elif measured is not None:
        _remark(measured)


def _check_targets(
    json: str | None, save: Path | None, html: Path | None, out: Path | None
) -> None:
    """Refuse what could not be written before a minute is spent on measuring."""
    from timeroof.cli.options import check_folder, check_target
    from timeroof.core.errors import UsageError

    if save is not None and save.suffix != ".toml":
        raise UsageError(f"{str(save)!r} is no machine file", advice="end its name in .toml")
    if out is not None:
        check_folder(out)
    for target in (save, html, Path(json) if json not in (None, "-") else None):
        if target is not None:
            check_target(target)


def _measure(*, fresh: bool, quick: bool, threads: int | None, device: str) -> Measurement:
    from timeroof.cli.main import share_bar
    from timeroof.probe.measure import load_or_measure

    with share_bar("measuring") as progress:
        return load_or_measure(
            fresh=fresh, quick=quick, threads=threads, device=device, progress=progress, calm=True,
            frameworks=True,
        )  # fmt: skip


def _show(machine: Machine, measured: Measurement | None) -> None:
    from timeroof.views.machine import print_measured
    from timeroof.views.terminal import print_machine

    if measured is None:
        print_machine(machine)
        return
    clocks = {c.threads: c.rate_per_s for c in measured.clocks}
    print_measured(machine, clocks, when=_when(measured))
    _remark(measured)


def _remark(measured: Measurement) -> None:
    """What a reader must know of the figures, on stderr."""
    from timeroof.views.machine import print_remarks

    print_remarks("Note", measured.notes)
    print_remarks("Warning", measured.warnings, style="yellow")
    print_remarks("Refused", measured.errors, style="red")


def _when(measured: Measurement) -> str:
    """How it was measured, and when, where it was not just now."""
    from datetime import UTC, datetime

    taken = datetime.fromisoformat(measured.created)
    quick = " (--quick)" if measured.quick else ""
    # What is older than this command can have taken since its measurement ended was kept.
    if (datetime.now(UTC) - taken).total_seconds() < 10:
        return f"measured in {measured.duration_s:.0f} s{quick}"
    day = taken.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"measured {day}{quick}, --fresh measures again"


def _draw(machine: Machine, measured: Measurement | None, out: Path) -> None:
    from timeroof.views.pictures import save_figure
    from timeroof.views.pictures.ceilings import CurvePoint, bandwidth_curve, machine_roofline

    # A machine file's name is somebody's text: only plain letters of it may name a file.
    stem = re.sub(r"[^A-Za-z0-9._-]+", "_", machine.name).strip("._")[:80] or "machine"
    save_figure(machine_roofline(machine), out / f"{stem}_ceilings.png")
    if measured is None or not measured.sweep:
        return
    most = max(point.threads for point in measured.sweep)
    points = [
        CurvePoint(p.pattern, p.size_bytes, p.rate_per_s, p.spread)
        for p in measured.sweep
        if p.threads == most
    ]
    caches = {m.level: m.size_bytes for m in machine.memory if m.level != "dram"}
    title = f"{machine.device[:40]}: bandwidth, {most} thread{'s' if most > 1 else ''}"
    save_figure(bandwidth_curve(points, caches, title), out / f"{stem}_bandwidth.png")
