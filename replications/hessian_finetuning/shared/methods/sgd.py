"""SGD itself."""

from .method import Method


class Sgd(Method):
    """Descent without anything else. Strength: factor of the usual learning rate."""

    def learning_rate(self, usual: float) -> float:
        return self.strength * usual
