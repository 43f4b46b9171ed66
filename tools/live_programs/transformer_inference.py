"""Run a small transformer encoder forward only: no optimizer, so a forward call ends a step."""

import torch
from torch import nn


def main() -> None:
    """Fourteen batches of random tokens."""
    # One thread: a recording on a busy machine waits for no other thread.
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    model = nn.Sequential(nn.Embedding(1000, 64), encoder, nn.Linear(64, 1000))
    model.eval()
    with torch.inference_mode():
        for _ in range(14):
            model(torch.randint(1000, (4, 48)))


if __name__ == "__main__":
    main()
