"""How good is `whatif`? One model recorded on two GPUs: predict the second from the first.

Prints, for rows of the same op, shape, dtype and phase, which share of the second recording's time
lies inside the interval predicted from the first: of all matched rows, and of GEMMs and
convolutions alone. Needs two recordings with shapes (Kineto traces with record_shapes=True, or
saved runs) of the same program; none are shipped.

python benchmarks/whatif_two_gpus.py A B [--from MACHINE] [--to MACHINE] [--rows 12]
"""

from __future__ import annotations

import argparse
import sys

from timeroof.api.reports import load, machine
from timeroof.core.errors import TimeroofError
from timeroof.core.units import format_seconds
from timeroof.model.whatif.accuracy import Accuracy, accuracy
from timeroof.model.whatif.project import project


def measured(options: argparse.Namespace) -> Accuracy:
    here = machine(options.here) if options.here else None
    there = machine(options.there) if options.there else None
    first, second = load(options.a, machine=here), load(options.b, machine=there)
    if first.machine is None or second.machine is None:
        sys.exit("a recording does not name its device: give --from and --to")
    print(f"{first.machine.name} → {second.machine.name}")
    return accuracy(
        first.profile, project(first.profile, first.machine, second.machine), second.profile
    )


def percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("a")
    parser.add_argument("b")
    parser.add_argument("--from", dest="here")
    parser.add_argument("--to", dest="there")
    parser.add_argument("--rows", type=int, default=12)
    options = parser.parse_args()
    try:
        found = measured(options)
    except TimeroofError as error:
        sys.exit(error.message)
    print(f"{'op':28} {'measured':>10} {'predicted':>10} {'low':>10} {'high':>10}  inside")
    known = found.rows.drop_nulls("inside")
    for row in known.head(options.rows).iter_rows(named=True):
        seconds = [format_seconds(row[c]) for c in ("time_s", "predicted_s", "low_s", "high_s")]
        inside = "yes" if row["inside"] else "NO"
        print(f"{row['plain_op'][:28]:28} {' '.join(f'{s:>10}' for s in seconds)}  {inside}")
    for what, matched, inside in (
        ("all rows", found.matched, found.inside),
        ("GEMM and convolution", found.gemm_matched, found.gemm_inside),
    ):
        print(f"{what}: {percent(matched)} of the time matched, {percent(inside)} of it inside")
    return 0


if __name__ == "__main__":
    sys.exit(main())
