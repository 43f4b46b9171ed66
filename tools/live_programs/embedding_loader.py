"""Train an embedding model that a DataLoader feeds: gathers, sparse access and waiting for data."""

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class Recommender(nn.Module):
    """Two tables of embeddings, and a small net on what they hold."""

    def __init__(self) -> None:
        super().__init__()
        self.users = nn.Embedding(5000, 32)
        self.items = nn.EmbeddingBag(20000, 32, mode="mean")
        self.top = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, user: Tensor, items: Tensor) -> Tensor:
        """One score per user."""
        joined = torch.cat([self.users(user), self.items(items)], dim=1)
        scores: Tensor = self.top(joined).squeeze(1)
        return scores


def main() -> None:
    """One epoch of fourteen batches."""
    # One thread: a recording on a busy machine waits for no other thread.
    torch.set_num_threads(1)
    torch.manual_seed(0)
    count = 14 * 64
    data = TensorDataset(
        torch.randint(5000, (count,)), torch.randint(20000, (count, 10)), torch.rand(count)
    )
    model = Recommender()
    optimizer = torch.optim.Adam(model.parameters())
    for user, items, liked in DataLoader(data, batch_size=64, shuffle=True):
        optimizer.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(model(user, items), liked).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
