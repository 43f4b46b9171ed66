"""Train an LSTM written as a Python loop over nn.LSTMCell: thousands of small ops.

python examples/lstm_loop.py --steps 3
python examples/lstm_loop.py --fused       # the same network as one nn.LSTM
"""

import argparse
import time

import torch
from torch import Tensor, nn


class LoopedLSTM(nn.Module):
    """Reads a sequence one time step at a time and classifies its last state."""

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.cell = nn.LSTMCell(features, hidden)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        h = x.new_zeros(x.shape[0], self.hidden)
        c = x.new_zeros(x.shape[0], self.hidden)
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], (h, c))
        out: Tensor = self.head(h)
        return out


class FusedLSTM(nn.Module):
    """The same network, the loop over time steps inside the library."""

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(x)
        out: Tensor = self.head(states[:, -1])
        return out


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=256, help="time steps")
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=16)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--fused", action="store_true", help="nn.LSTM in place of the loop")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="a short sequence, for tests")
    args = parser.parse_args()
    if args.small:
        args.length = 16
    return args


def main() -> None:
    args = parse_args()
    torch.manual_seed(args.seed)
    if args.threads:
        torch.set_num_threads(args.threads)
    device = torch.device(args.device)

    network = FusedLSTM if args.fused else LoopedLSTM
    model = network(args.features, args.hidden, args.classes).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_fn = nn.CrossEntropyLoss()

    model.train()
    for step in range(args.steps):
        begin = time.perf_counter()
        x = torch.randn(args.batch, args.length, args.features, device=device)
        labels = torch.randint(args.classes, (args.batch,), device=device)
        optimizer.zero_grad()
        loss = loss_fn(model(x), labels)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f} time {time.perf_counter() - begin:.3f} s")


if __name__ == "__main__":
    main()
