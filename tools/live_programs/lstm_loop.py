"""Train an LSTM cell in a Python loop over time: many small ops, each mostly overhead."""

import torch
from torch import Tensor, nn


class Reader(nn.Module):
    """Reads a sequence one time step at a time and classifies its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(16, 32)
        self.head = nn.Linear(32, 10)

    def forward(self, sequence: Tensor) -> Tensor:
        """The scores of the classes."""
        state = None
        for t in range(sequence.shape[1]):
            state = self.cell(sequence[:, t], state)
        assert state is not None
        scores: Tensor = self.head(state[0])
        return scores


def main() -> None:
    """Fourteen steps on random sequences."""
    # One thread: a recording on a busy machine waits for no other thread.
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Reader()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(14):
        sequence, labels = torch.randn(8, 10, 16), torch.randint(10, (8,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(sequence), labels).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
