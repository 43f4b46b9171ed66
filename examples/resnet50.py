"""Train a ResNet-50 (He et al. 2015, stride in the 3x3 as everyone does) on random images.

python examples/resnet50.py --steps 3 --batch 4
"""

import argparse
import time

import torch
from torch import Tensor, nn


class Bottleneck(nn.Module):
    """1x1 reduce, 3x3, 1x1 expand, with a shortcut around."""

    def __init__(self, width_in: int, width: int, stride: int) -> None:
        super().__init__()
        width_out = width * 4
        self.body = nn.Sequential(
            nn.Conv2d(width_in, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width_out, 1, bias=False),
            nn.BatchNorm2d(width_out),
        )
        self.relu = nn.ReLU(inplace=True)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or width_in != width_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(width_in, width_out, 1, stride=stride, bias=False),
                nn.BatchNorm2d(width_out),
            )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.relu(self.body(x) + self.shortcut(x))
        return out


class ResNet(nn.Module):
    """A ResNet of bottlenecks; depths (3, 4, 6, 3) make it a ResNet-50."""

    def __init__(self, depths: tuple[int, ...], width: int, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        blocks: list[nn.Module] = []
        width_in = width
        for stage, depth in enumerate(depths):
            stage_width = width * 2**stage
            for i in range(depth):
                stride = 2 if i == 0 and stage > 0 else 1
                blocks.append(Bottleneck(width_in, stage_width, stride))
                width_in = stage_width * 4
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(width_in, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.blocks(self.stem(x)))
        out: Tensor = self.head(torch.flatten(x, 1))
        return out


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="a tiny model, for tests")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    torch.manual_seed(args.seed)
    if args.threads:
        torch.set_num_threads(args.threads)
    depths, width, classes = ((1, 1, 1, 1), 8, 10) if args.small else ((3, 4, 6, 3), 64, 1000)
    size = 32 if args.small else args.image_size
    device = torch.device(args.device)

    model = ResNet(depths, width, classes).to(device)
    if args.channels_last:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    loss_fn = nn.CrossEntropyLoss()

    model.train()
    for step in range(args.steps):
        begin = time.perf_counter()
        images = torch.randn(args.batch, 3, size, size, device=device)
        labels = torch.randint(classes, (args.batch,), device=device)
        if args.channels_last:
            images = images.contiguous(memory_format=torch.channels_last)
        optimizer.zero_grad()
        loss = loss_fn(model(images), labels)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f} time {time.perf_counter() - begin:.3f} s")


if __name__ == "__main__":
    main()
