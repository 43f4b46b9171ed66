"""Rows of `timeroof run` beside two busy processes against the same programs on a quiet machine.

For each of twenty small programs: how long it waited for a CPU, rows above 105 % of their roof
that do not name waiting, how many of the five largest ops agree with the quiet run, and findings
that the quiet run does not have.

    python benchmarks/busy_rows.py [--threads 1] [--only mlp,cnn]
    python benchmarks/busy_rows.py --save quiet.json     # on a quiet machine: the quiet runs alone
    python benchmarks/busy_rows.py --quiet quiet.json    # at any time: the busy runs against those

The end says whether the limits hold, and so does the exit code: no such row, four of five, none.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HEAD = """
import torch, warnings
from torch import nn
from torch.nn import functional as F
warnings.simplefilter("ignore")
torch.manual_seed(0)
"""
TRAIN = """
opt = torch.optim.{optimizer}(model.parameters(), lr=1e-3)
for _ in range({steps}):
    opt.zero_grad(); loss = {loss}; loss.backward(); opt.step()
"""


def train(model: str, loss: str, optimizer: str = "AdamW", steps: int = 40) -> str:
    """A training loop."""
    return HEAD + model + TRAIN.format(optimizer=optimizer, loss=loss, steps=steps)


def infer(model: str, call: str, calls: int = 40) -> str:
    """A loop of inference."""
    return HEAD + model + f"\nwith torch.no_grad():\n    for _ in range({calls}): {call}\n"


PROGRAMS = {
    "mlp": train(
        "model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512))\n"
        "x = torch.randn(256, 512)", "model(x).square().mean()"),
    "cnn": train(
        "model = nn.Sequential(nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.ReLU(),"
        " nn.Conv2d(32, 64, 3))\nx = torch.randn(8, 3, 48, 48)", "model(x).square().mean()"),
    "lstm": train(
        "model = nn.LSTM(64, 128)\nx = torch.randn(20, 16, 64)", "model(x)[0].square().mean()"),
    "gru": train(
        "model = nn.GRU(64, 128)\nx = torch.randn(20, 16, 64)", "model(x)[0].square().mean()"),
    "transformer": train(
        "model = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)\n"
        "x = torch.randn(8, 64, 128)", "model(x).square().mean()", "Adam"),
    "decoder": infer(
        "enc, dec, out = nn.GRU(64, 128), nn.GRUCell(128, 128), nn.Linear(128, 50)\n"
        "model = nn.ModuleList([enc, dec, out])\nx = torch.randn(20, 4, 64)\ndef run():\n"
        "    h = t = enc(x)[1][0]\n    for _ in range(15): t = dec(t, h); out(t).argmax(-1)\n",
        "run()"),
    "embedding": train(
        "model = nn.Sequential(nn.Embedding(5000, 64), nn.Linear(64, 64))\n"
        "x = torch.randint(0, 5000, (64, 32))", "model(x).square().mean()", "SGD"),
    "autoencoder": train(
        "model = nn.Sequential(nn.Linear(784, 128), nn.Tanh(), nn.Linear(128, 784), nn.Sigmoid())\n"
        "x = torch.rand(128, 784)", "F.binary_cross_entropy(model(x), x)", "Adam"),
    "gather": HEAD
    + "w = torch.randn(5000, 64, requires_grad=True)\ni = torch.randint(0, 5000, (20000,))\n"
    "opt = torch.optim.SGD([w], lr=0.1)\nfor _ in range(40):\n"
    "    opt.zero_grad(); w.index_select(0, i).square().sum().backward(); opt.step()\n",
    "sparse": HEAD
    + "n = 2000; i = torch.randint(0, n, (2, 30000))\n"
    "a = torch.sparse_coo_tensor(i, torch.rand(30000), (n, n)).coalesce()\n"
    "model = nn.Linear(64, 64); x = torch.randn(n, 64)\n"
    "opt = torch.optim.Adam(model.parameters())\nfor _ in range(40):\n"
    "    opt.zero_grad(); (a @ model(x)).square().mean().backward(); opt.step()\n",
    "fft": HEAD
    + "w = torch.randn(64, 4096, requires_grad=True)\nopt = torch.optim.SGD([w], lr=0.1)\n"
    "for _ in range(40):\n"
    "    opt.zero_grad(); torch.fft.rfft(w).abs().mean().backward(); opt.step()\n",
    "bag": train(
        "model = nn.EmbeddingBag(5000, 64, mode='sum')\nx = torch.randint(0, 5000, (512, 8))",
        "model(x).square().mean()", "SGD"),
    "unet": train(
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.a = nn.Conv2d(1, 16, 3, padding=1); self.b = nn.Conv2d(16, 16, 3, stride=2,"
        " padding=1); self.c = nn.ConvTranspose2d(16, 1, 2, stride=2)\n"
        "    def forward(self, x): return self.c(torch.relu(self.b(torch.relu(self.a(x)))))\n"
        "model = Net()\nx = torch.randn(8, 1, 48, 48)", "model(x).square().mean()"),
    "attention": infer(
        "model = nn.MultiheadAttention(128, 4, batch_first=True).eval()\n"
        "x = torch.randn(8, 96, 128)", "model(x, x, x, need_weights=False)"),
    "softmax": train(
        "model = nn.Linear(128, 8000)\nx = torch.randn(64, 128)\n"
        "y = torch.randint(0, 8000, (64,))", "F.cross_entropy(model(x), y)"),
    "sort": HEAD
    + "w = torch.randn(128, 2000, requires_grad=True)\nopt = torch.optim.SGD([w], lr=0.1)\n"
    "for _ in range(40):\n"
    "    opt.zero_grad(); w.sort().values[:, :50].sum().backward(); opt.step()\n",
    "norms": train(
        "model = nn.Sequential(nn.LayerNorm(512), nn.GELU(), nn.Linear(512, 512),"
        " nn.LayerNorm(512))\nx = torch.randn(256, 512)", "model(x).square().mean()"),
    "dropout": train(
        "model = nn.Sequential(nn.Linear(256, 1024), nn.Dropout(0.2), nn.Linear(1024, 256))\n"
        "x = torch.randn(128, 256)", "model(x).square().mean()"),
    "resnet": train(
        "class Block(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.a = nn.Conv2d(32, 32, 3, padding=1); self.n = nn.BatchNorm2d(32)\n"
        "    def forward(self, x): return torch.relu(x + self.n(self.a(x)))\n"
        "model = nn.Sequential(*[Block() for _ in range(3)])\nx = torch.randn(8, 32, 24, 24)",
        "model(x).square().mean()", "SGD"),
    "distances": HEAD
    + "w = torch.randn(256, 64, requires_grad=True)\nx = torch.randn(512, 64)\n"
    "opt = torch.optim.Adam([w])\nfor _ in range(40):\n"
    "    opt.zero_grad(); torch.cdist(x, w).min(1).values.mean().backward(); opt.step()\n",
}  # fmt: skip


@contextmanager
def busy_processes(count: int = 2) -> Iterator[None]:
    """So many processes that always want a CPU."""
    neighbours = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)
    ]
    try:
        yield
    finally:
        for neighbour in neighbours:
            neighbour.kill()
            neighbour.wait()


def report(program: str, folder: Path, threads: int | None) -> dict:
    """The JSON of one run."""
    (folder / "program.py").write_text(program)
    environment = dict(os.environ)
    if threads is not None:
        environment["OMP_NUM_THREADS"] = str(threads)
    words = [sys.executable, "-m", "timeroof", "run", "--json", "out.json", "program.py"]
    subprocess.run(words, cwd=folder, env=environment, check=True, capture_output=True)
    found: dict = json.loads((folder / "out.json").read_text())
    return found


def op_times(found: dict) -> Counter[str]:
    """Seconds by op."""
    times: Counter[str] = Counter()
    for row in found["kernels"]:
        times[row["op"] or row["name"]] += row["time_s"]
    return times


def agreeing(quiet: Counter[str], busy: Counter[str]) -> tuple[int, list[str]]:
    """How many of the five largest ops both have, and those that only the busy run has, with their
    quiet time over that of the quiet run's fifth."""
    first, second = quiet.most_common(5), busy.most_common(5)
    known = dict(first)
    others = [f"{name} {quiet[name] / first[-1][1]:.2f}" for name, _ in second if name not in known]
    return 5 - len(others), others


def quiet_runs(names: list[str], place: Path, given: argparse.Namespace) -> dict[str, dict]:
    """The reports to compare with: those of a file, or of runs of now."""
    if given.quiet:
        kept: dict[str, dict] = json.loads(Path(given.quiet).read_text())
        return {name: kept[name] for name in names if name in kept}
    return {name: report(PROGRAMS[name], place, given.threads) for name in names}


def waiting(found: dict) -> str:
    """What the report says of waiting for a CPU."""
    said = [n["text"] for n in found["notes"] if n["code"].startswith("cpu-")]
    return said[0].partition("waited ")[2].partition(" of")[0] if said else "-"


def main() -> int:
    """Run all programs quiet and busy, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, help="threads of each program [default: its own]")
    parser.add_argument("--only", default="", help="names of programs, with commas")
    parser.add_argument("--save", help="keep the reports of the quiet runs, and end")
    parser.add_argument("--quiet", help="compare with reports that were kept")
    given = parser.parse_args()
    names = given.only.split(",") if given.only else list(PROGRAMS)
    print(f"{'program':12} {'quiet':>6} {'busy':>6}  above 105 %  top 5  new findings")
    unflagged = disagreeing = invented = 0
    with tempfile.TemporaryDirectory() as place:
        if given.save:
            Path(given.save).write_text(json.dumps(quiet_runs(names, Path(place), given)))
            return 0
        for name, quiet in quiet_runs(names, Path(place), given).items():
            with busy_processes():
                busy = report(PROGRAMS[name], Path(place), given.threads)
            above = [
                row["name"] for row in busy["kernels"]
                if (row["kernel_efficiency"] or 0.0) > 1.05
                and "waiting" not in (row["above_roof"] or "")
            ]  # fmt: skip
            common, others = agreeing(op_times(quiet), op_times(busy))
            codes = {f["code"] for f in busy["findings"]} - {f["code"] for f in quiet["findings"]}
            unflagged, invented = unflagged + len(above), invented + len(codes)
            disagreeing += common < 4
            print(
                f"{name:12} {waiting(quiet):>6} {waiting(busy):>6}  {', '.join(above) or '-':11} "
                f" {common}/5    {', '.join(sorted(codes)) or '-'}"
                f"{'  instead: ' + ', '.join(others) if others else ''}",
                flush=True,
            )
    print(
        f"{len(names)} programs: {unflagged} rows above 105 % without a word of waiting,"
        f" {disagreeing} rankings with fewer than four of five, {invented} invented findings"
    )
    return 1 if unflagged or disagreeing or invented else 0


if __name__ == "__main__":
    sys.exit(main())
