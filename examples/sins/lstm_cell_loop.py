"""Train an LSTM as a Python loop over nn.LSTMCell: thousands of ops of a few microseconds.

python examples/sins/lstm_cell_loop.py --steps 10
"""

import argparse
import time

import torch
from torch import Tensor, nn


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=512, help="time steps")
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="a tiny case, for tests")
    args = parser.parse_args()
    if args.small:
        args.length = 16
    torch.manual_seed(args.seed)
    if args.threads:
        torch.set_num_threads(args.threads)
    return args


class Reader(nn.Module):
    """Reads a sequence and classifies its last state."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.cell = nn.LSTMCell(features, hidden)
        self.head = nn.Linear(hidden, 10)

    def forward(self, x: Tensor) -> Tensor:
        h = x.new_zeros(x.shape[0], self.hidden)
        c = x.new_zeros(x.shape[0], self.hidden)
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], (h, c))
        out: Tensor = self.head(h)
        return out


def main() -> None:
    args = parse_args()
    model = Reader(args.features, args.hidden)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(args.batch, args.length, args.features)
    labels = torch.randint(10, (args.batch,))

    for step in range(args.steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f} time {time.perf_counter() - begin:.4f} s")


if __name__ == "__main__":
    main()
