"""Weight decay."""

from .method import Method


class WeightDecay(Method):
    """Shrinks all trained parameters by learning rate · λ a step (Loshchilov and Hutter 2019). Strength: λ."""

    def weight_decay(self) -> float:
        return self.strength
