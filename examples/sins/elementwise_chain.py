"""Apply GELU to large tensors, written out: nine passes over memory instead of one.

python examples/sins/elementwise_chain.py --steps 10
"""

import argparse
import math
import time

import torch
from torch import Tensor, nn


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--elements", type=int, default=4 * 2**20)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="a tiny case, for tests")
    args = parser.parse_args()
    if args.small:
        args.elements = 1024
    torch.manual_seed(args.seed)
    if args.threads:
        torch.set_num_threads(args.threads)
    return args


class Gelu(nn.Module):
    """The tanh form of the Gaussian error linear unit."""

    def forward(self, x: Tensor) -> Tensor:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
        return 0.5 * x * (1 + torch.tanh(inner))


def main() -> None:
    args = parse_args()
    model = Gelu().eval()
    x = torch.randn(args.elements)

    with torch.inference_mode():
        for step in range(args.steps):
            begin = time.perf_counter()
            y = model(x)
            seconds = time.perf_counter() - begin
            print(f"step {step} mean {y.mean().item():.4f} time {seconds:.4f} s")


if __name__ == "__main__":
    main()
