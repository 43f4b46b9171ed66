"""Train on samples that take time to fetch, fetched by workers while the step runs.

python examples/sins/slow_loader_fixed.py --steps 10
"""

import argparse
import time

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--fetch-ms", type=float, default=0.3, help="to fetch one sample")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="a tiny case, for tests")
    args = parser.parse_args()
    if args.small:
        args.batch, args.width, args.fetch_ms = 2, 16, 1.0
    torch.manual_seed(args.seed)
    if args.threads:
        torch.set_num_threads(args.threads)
    return args


class Samples(Dataset[tuple[Tensor, Tensor]]):
    """Samples that come from far away: fetching one takes a while and no CPU."""

    def __init__(self, count: int, width: int, fetch_s: float) -> None:
        self.count, self.width, self.fetch_s = count, width, fetch_s

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        time.sleep(self.fetch_s)
        return torch.full((self.width,), index / self.count), torch.tensor(index % 10)


def main() -> None:
    args = parse_args()
    model = nn.Sequential(nn.Linear(args.width, args.width), nn.ReLU(), nn.Linear(args.width, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    samples = Samples(args.steps * args.batch, args.width, args.fetch_ms / 1000)
    loader = DataLoader(
        samples, args.batch, num_workers=args.workers, persistent_workers=True, prefetch_factor=4
    )

    begin = time.perf_counter()
    for step, (x, labels) in enumerate(loader):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        print(f"step {step} loss {loss.item():.4f} time {now - begin:.4f} s")
        begin = now


if __name__ == "__main__":
    main()
