"""The transformer of the grokking replication as one would first write it: every position of every example."""

import torch

from common.models import LayeredTransformer


class PlainTransformer(LayeredTransformer):
    """One member with the tokens a, ∘, b, = through all blocks at all positions; logits [n, modulus] at the last."""

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        """Logits [n, modulus] of pairs [n, 2]."""
        first, second = pairs.unbind(-1)
        operation = torch.full_like(first, self.modulus)
        states = self.tokens(torch.stack([first, operation, second, operation + 1], dim=-1)) + self.positions
        for block in self.blocks:
            states = block(states, last=False)
        logits: torch.Tensor = self.output(states[:, -1])
        return logits
