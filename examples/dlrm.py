"""Train a DLRM-like recommender (Naumov et al. 2019): embedding bags, MLPs, pairwise products.

python examples/dlrm.py --steps 3
"""

import argparse
import itertools
import time

import torch
from torch import Tensor, nn


def mlp(widths: list[int], last: nn.Module) -> nn.Sequential:
    """Linear layers with ReLU between them and `last` at the end."""
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1], last)


class DLRM(nn.Module):
    """Dense features through an MLP, sparse ones through bags, then all pairs of products."""

    def __init__(self, tables: int, rows: int, width: int, dense: int, hidden: int) -> None:
        super().__init__()
        self.bottom = mlp([dense, hidden, hidden // 2, width], nn.ReLU())
        self.bags = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        for weight in self.bags.parameters():  # small, as in DLRM: unit normals blow the loss up
            nn.init.uniform_(weight, -(rows**-0.5), rows**-0.5)
        vectors = tables + 1
        self.pairs: Tensor
        self.register_buffer("pairs", torch.tril_indices(vectors, vectors, offset=-1))
        pair_count = vectors * (vectors - 1) // 2
        self.top = mlp([width + pair_count, 2 * hidden, hidden, 1], nn.Identity())

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:
        x = self.bottom(dense)
        vectors = [x] + [bag(sparse[i]) for i, bag in enumerate(self.bags)]
        stacked = torch.stack(vectors, dim=1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        pairs = products[:, self.pairs[0], self.pairs[1]]
        out: Tensor = self.top(torch.cat([x, pairs], dim=1))
        return out.squeeze(1)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--tables", type=int, default=26)
    parser.add_argument("--rows", type=int, default=20000, help="rows of each embedding table")
    parser.add_argument("--bag", type=int, default=8, help="ids looked up per table and sample")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="a tiny model, for tests")
    args = parser.parse_args()
    if args.small:
        args.tables, args.rows, args.width, args.hidden = 4, 100, 8, 32
        args.batch = min(args.batch, 64)
    return args


def main() -> None:
    args = parse_args()
    torch.manual_seed(args.seed)
    if args.threads:
        torch.set_num_threads(args.threads)
    device, dense_features = torch.device(args.device), 13

    model = DLRM(args.tables, args.rows, args.width, dense_features, args.hidden).to(device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
    loss_fn = nn.BCEWithLogitsLoss()

    model.train()
    for step in range(args.steps):
        begin = time.perf_counter()
        dense = torch.randn(args.batch, dense_features, device=device)
        sparse = torch.randint(args.rows, (args.tables, args.batch, args.bag), device=device)
        clicks = torch.randint(2, (args.batch,), device=device).float()
        optimizer.zero_grad()
        loss = loss_fn(model(dense, sparse), clicks)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f} time {time.perf_counter() - begin:.3f} s")


if __name__ == "__main__":
    main()
