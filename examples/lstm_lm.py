"""Train a two-layer LSTM language model on random tokens.

python examples/lstm_lm.py --steps 3
"""

import argparse
import time

import torch
from torch import Tensor, nn

State = tuple[Tensor, Tensor]


class LanguageModel(nn.Module):
    """Embedding, nn.LSTM over the whole sequence, and a head over the vocabulary."""

    def __init__(self, vocab: int, width: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.drop = nn.Dropout(dropout)
        self.lstm = nn.LSTM(width, hidden, layers, dropout=dropout, batch_first=True)
        self.head = nn.Linear(hidden, vocab)

    def forward(self, ids: Tensor, state: State | None) -> tuple[Tensor, State]:
        out, state = self.lstm(self.drop(self.embedding(ids)), state)
        return self.head(self.drop(out)), state


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--length", type=int, default=35, help="tokens per sequence")
    parser.add_argument("--vocab", type=int, default=10000)
    parser.add_argument("--width", type=int, default=650)
    parser.add_argument("--hidden", type=int, default=650)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--dropout", type=float, default=0.5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="a tiny model, for tests")
    args = parser.parse_args()
    if args.small:
        args.vocab, args.width, args.hidden, args.length = 200, 32, 32, 8
    return args


def main() -> None:
    args = parse_args()
    torch.manual_seed(args.seed)
    if args.threads:
        torch.set_num_threads(args.threads)
    device = torch.device(args.device)

    model = LanguageModel(args.vocab, args.width, args.hidden, args.layers, args.dropout)
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    loss_fn = nn.CrossEntropyLoss()

    model.train()
    state: State | None = None
    for step in range(args.steps):
        begin = time.perf_counter()
        ids = torch.randint(args.vocab, (args.batch, args.length + 1), device=device)
        if state is not None:  # the state goes on, its gradient does not
            state = (state[0].detach(), state[1].detach())
        optimizer.zero_grad()
        logits, state = model(ids[:, :-1], state)
        loss = loss_fn(logits.reshape(-1, args.vocab), ids[:, 1:].reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f} time {time.perf_counter() - begin:.3f} s")


if __name__ == "__main__":
    main()
