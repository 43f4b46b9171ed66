"""Serve the requests of a step one by one: the weights are read for each of them.

python examples/sins/tiny_batch.py --steps 10
"""

import argparse
import time

import torch
from torch import Tensor, nn


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--requests", type=int, default=32, help="per step")
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="a tiny case, for tests")
    args = parser.parse_args()
    if args.small:
        args.requests, args.width, args.layers = 4, 16, 2
    torch.manual_seed(args.seed)
    if args.threads:
        torch.set_num_threads(args.threads)
    return args


class Server(nn.Module):
    """An MLP that answers requests."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.model = nn.Sequential(*(nn.Linear(width, width) for _ in range(layers)))

    def forward(self, requests: Tensor) -> Tensor:
        return torch.cat([self.model(request.unsqueeze(0)) for request in requests])


def main() -> None:
    args = parse_args()
    model = Server(args.width, args.layers).eval()
    x = torch.randn(args.requests, args.width)

    with torch.inference_mode():
        for step in range(args.steps):
            begin = time.perf_counter()
            y = model(x)
            seconds = time.perf_counter() - begin
            print(f"step {step} mean {y.mean().item():.4f} time {seconds:.4f} s")


if __name__ == "__main__":
    main()
