"""Attention-based multiple-instance learning, a rival that `bag_stack` runs where torch is there.

Ilse, Tomczak and Welling (2018), gated attention: with h_j = relu(x_j W_1) in 64 dimensions,

    a_j = softmax_j w'(tanh(V h_j) * sigmoid(U h_j)),   P(y = 1) = sigmoid(c'sum_j a_j h_j + c_0).

Adam, step 5e-4, weight decay 1e-3, one step a bag; the number of epochs, at most 60, is where the
log loss of a fifth of the training bags, held back, was least; the network is then fitted again to
all of them for so many. Features are z-scores, clipped at 5.
"""

from __future__ import annotations

import numpy as np
import torch
from sklearn.model_selection import train_test_split
from torch import nn

from vbmodels.bags.bags import Bags

HIDDEN, EPOCHS, PATIENCE = 64, 60, 10


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(width, HIDDEN), nn.ReLU(), nn.Dropout(0.25))
        self.value = nn.Linear(HIDDEN, HIDDEN)
        self.gate = nn.Linear(HIDDEN, HIDDEN)
        self.weight = nn.Linear(HIDDEN, 1)
        self.head = nn.Linear(HIDDEN, 1)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the log odds of one bag with the instances ``rows`` [n, D]."""
        h = self.features(rows)
        weights = self.weight(torch.tanh(self.value(h)) * torch.sigmoid(self.gate(h)))
        return self.head((torch.softmax(weights, dim=0) * h).sum(dim=0))[0]


def attention(train: Bags, test: Bags, seed: int) -> np.ndarray:
    """Return P of the test bags."""
    torch.set_num_threads(1)
    rows = train.modalities[0].features
    mean, sd = rows.mean(axis=0), rows.std(axis=0)
    sd = np.where(sd > 0, sd, 1.0)

    def tensors(data: Bags) -> list[torch.Tensor]:
        z = np.clip((data.modalities[0].features - mean) / sd, -5.0, 5.0)
        parts = np.split(z, data.modalities[0].offsets[1:-1])
        return [torch.tensor(part, dtype=torch.float32) for part in parts]

    bags, y = tensors(train), torch.tensor(train.label.astype(np.float32))
    at = np.arange(len(bags))
    fitted, held = train_test_split(at, test_size=0.2, random_state=seed, stratify=train.label)
    epochs = _fitted(bags, y, fitted, seed, EPOCHS, held)[1]
    network = _fitted(bags, y, at, seed, epochs, None)[0]
    return _logits(network, tensors(test)).sigmoid().numpy().astype(float)


def _fitted(
    bags: list[torch.Tensor], y: torch.Tensor, at: np.ndarray, seed: int, epochs: int,
    held: np.ndarray | None,
) -> tuple[Attention, int]:  # fmt: skip
    """Return the network and the epochs with the least log loss on bags held back."""
    torch.manual_seed(seed)
    network, loss = Attention(bags[0].shape[1]), nn.BCEWithLogitsLoss()
    steps = torch.optim.Adam(network.parameters(), lr=5e-4, weight_decay=1e-3)
    rng, best, least = np.random.default_rng(seed), epochs, np.inf
    for epoch in range(epochs):
        network.train()
        for i in rng.permutation(at):
            steps.zero_grad()
            loss(network(bags[i]), y[i]).backward()
            steps.step()
        if held is not None:
            value = float(loss(_logits(network, [bags[i] for i in held]), y[held]))
            if value < least:
                least, best = value, epoch + 1
            if epoch + 1 - best >= PATIENCE:
                break
    return network, best


@torch.no_grad()
def _logits(network: Attention, bags: list[torch.Tensor]) -> torch.Tensor:
    network.eval()
    return torch.stack([network(bag) for bag in bags])
