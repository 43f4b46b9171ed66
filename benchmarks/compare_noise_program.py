"""A small network to compare with itself; `--wider 1.1` gives one of its layers a tenth more work.

python benchmarks/compare_noise_program.py --steps 24 --wider 1.1
"""

import argparse

import torch
from torch import Tensor, nn


class Wide(nn.Module):
    """Two products with a norm and an activation between them."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))
        return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--wider", type=float, default=1.0, help="work of the third block")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    hidden = [512, 512, round(512 * options.wider), 512]
    model = nn.Sequential(*(Wide(256, h) for h in hidden))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(256, 256)
    for _ in range(options.steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), x)
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
