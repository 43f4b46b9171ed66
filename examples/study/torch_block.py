"""A transformer block in PyTorch, for `timeroof study examples/study/torch_block.py:make`.

timeroof study examples/study/torch_block.py:make --set batch=1,4,16 --pass forward,backward
"""

import torch
from torch import nn


class Block(nn.Module):
    """Attention and a feed-forward layer, each after a layer norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.feed = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Both halves, each added to its input."""
        y = self.first(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.feed(self.second(x))


def make(batch: int = 4, sequence: int = 64, width: int = 128, heads: int = 4):
    """A module and its inputs."""
    return Block(width, heads), torch.randn(batch, sequence, width)
