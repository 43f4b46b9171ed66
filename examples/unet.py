"""Train a U-Net (Ronneberger et al. 2015, padded convolutions, batch norm) on random images.

python examples/unet.py --steps 3
"""

import argparse
import itertools
import time

import torch
from torch import Tensor, nn


def double_conv(width_in: int, width_out: int) -> nn.Sequential:
    """Two 3x3 convolutions, each with batch norm and ReLU."""
    return nn.Sequential(
        nn.Conv2d(width_in, width_out, 3, padding=1, bias=False),
        nn.BatchNorm2d(width_out),
        nn.ReLU(inplace=True),
        nn.Conv2d(width_out, width_out, 3, padding=1, bias=False),
        nn.BatchNorm2d(width_out),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    """Down by pooling, up by transposed convolution (or interpolation), with skips between."""

    def __init__(self, width: int, levels: int, classes: int, interpolate: bool) -> None:
        super().__init__()
        widths = [width * 2**i for i in range(levels + 1)]
        self.first = double_conv(3, widths[0])
        self.pool = nn.MaxPool2d(2)
        self.down = nn.ModuleList(double_conv(a, b) for a, b in itertools.pairwise(widths))
        self.up, self.merge = nn.ModuleList(), nn.ModuleList()
        for small, large in zip(widths[:-1][::-1], widths[1:][::-1], strict=True):
            self.up.append(self._up(large, small, interpolate))
            self.merge.append(double_conv(2 * small, small))
        self.head = nn.Conv2d(width, classes, 1)

    @staticmethod
    def _up(width_in: int, width_out: int, interpolate: bool) -> nn.Module:
        if not interpolate:
            return nn.ConvTranspose2d(width_in, width_out, 2, stride=2)
        return nn.Sequential(
            nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False),
            nn.Conv2d(width_in, width_out, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        skips = []
        for down in self.down:
            skips.append(x)
            x = down(self.pool(x))
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat([skips.pop(), up(x)], dim=1))
        out: Tensor = self.head(x)
        return out


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--image-size", type=int, default=256)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--levels", type=int, default=4)
    parser.add_argument("--classes", type=int, default=3)
    parser.add_argument("--interpolate", action="store_true", help="instead of transposed conv")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="a tiny model, for tests")
    args = parser.parse_args()
    if args.small:
        args.width, args.levels, args.image_size = 8, 2, 32
    return args


def main() -> None:
    args = parse_args()
    torch.manual_seed(args.seed)
    if args.threads:
        torch.set_num_threads(args.threads)
    device = torch.device(args.device)

    model = UNet(args.width, args.levels, args.classes, args.interpolate).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_fn = nn.CrossEntropyLoss()
    side = args.image_size

    model.train()
    for step in range(args.steps):
        begin = time.perf_counter()
        images = torch.randn(args.batch, 3, side, side, device=device)
        masks = torch.randint(args.classes, (args.batch, side, side), device=device)
        optimizer.zero_grad()
        loss = loss_fn(model(images), masks)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f} time {time.perf_counter() - begin:.3f} s")


if __name__ == "__main__":
    main()
