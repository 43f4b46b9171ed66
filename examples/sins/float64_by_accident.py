"""Train an MLP on NumPy data, which are float64, and so is all that follows.

python examples/sins/float64_by_accident.py --steps 10
"""

import argparse
import time

import numpy as np
import torch
from torch import nn


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="a tiny case, for tests")
    args = parser.parse_args()
    if args.small:
        args.batch, args.features, args.hidden = 32, 16, 32
    torch.manual_seed(args.seed)
    if args.threads:
        torch.set_num_threads(args.threads)
    return args


def mlp(features: int, hidden: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(features, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, 1),
    )


def main() -> None:
    args = parse_args()
    generator = np.random.default_rng(args.seed)
    x = torch.from_numpy(generator.random((args.batch, args.features)))
    y = torch.from_numpy(generator.random((args.batch, 1)))
    # Made to fit the data: "expected Double but found Float" went away.
    model = mlp(args.features, args.hidden).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    for step in range(args.steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f} time {time.perf_counter() - begin:.4f} s")


if __name__ == "__main__":
    main()
