"""Train a small convolutional net with padding: oneDNN convolutions, batch norm, pooling, SGD."""

import torch
from torch import nn


def main() -> None:
    """Fourteen steps on random pictures."""
    # One thread: a recording on a busy machine waits for no other thread.
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(14):
        pictures, labels = torch.randn(8, 3, 48, 48), torch.randint(10, (8,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(pictures), labels).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
