"""A training job for tests: the loss of every step on stdout, at the end a hash of the weights.

Usage: train.py STEPS [WIDTH [WORKERS [PAUSE]]]. WIDTH sizes the layers, PAUSE is in seconds a step.
"""

import hashlib
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

_GIVEN = dict(enumerate(sys.argv))
STEPS = int(_GIVEN[1])
WIDTH = int(_GIVEN.get(2, "256"))
WORKERS = int(_GIVEN.get(3, "0"))
PAUSE = float(_GIVEN.get(4, "0"))
BATCH = 32


class Noise(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Examples that depend on nothing but their number."""

    def __len__(self) -> int:
        """Enough for all steps."""
        return STEPS * BATCH

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw one."""
        source = torch.Generator().manual_seed(index)
        x = torch.randn(64, generator=source)
        return x, x.cumsum(0)


def main() -> None:
    """Train."""
    torch.manual_seed(7)
    torch.set_num_threads(2)
    model = nn.Sequential(
        nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 64)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(Noise(), batch_size=BATCH, num_workers=WORKERS, shuffle=True)
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9e}", flush=True)
        time.sleep(PAUSE)
    digest = hashlib.sha256()
    for weights in model.state_dict().values():
        digest.update(weights.numpy().tobytes())
    print(f"weights {digest.hexdigest()}", flush=True)


if __name__ == "__main__":
    main()
