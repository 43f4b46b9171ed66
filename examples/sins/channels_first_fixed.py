"""Train blocks of norm and convolution in channels_last: every op works on the layout it is given.

python examples/sins/channels_first_fixed.py --steps 10
"""

import argparse
import time

import torch
from torch import Tensor, nn


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--size", type=int, default=48)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="a tiny case, for tests")
    args = parser.parse_args()
    if args.small:
        args.batch, args.channels, args.size, args.blocks = 2, 8, 8, 1
    torch.manual_seed(args.seed)
    if args.threads:
        torch.set_num_threads(args.threads)
    return args


class Block(nn.Module):
    """Normalisation over channels and a 1x1 convolution."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.mix = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        # In channels_last this permutation is a view that is contiguous already.
        y = self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        out: Tensor = self.mix(y)
        return out


def main() -> None:
    args = parse_args()
    model: nn.Module = nn.Sequential(*(Block(args.channels) for _ in range(args.blocks)))
    model = model.to(memory_format=torch.channels_last)
    x = torch.randn(args.batch, args.channels, args.size, args.size)
    x = x.to(memory_format=torch.channels_last)
    target = torch.zeros_like(x)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    for step in range(args.steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        # The loss sees the same layout: its gradient needs no reorder either.
        y = model(x).permute(0, 2, 3, 1)
        loss = nn.functional.mse_loss(y, target.permute(0, 2, 3, 1))
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f} time {time.perf_counter() - begin:.4f} s")


if __name__ == "__main__":
    main()
