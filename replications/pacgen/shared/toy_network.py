"""The toy of section 2: a five-layer sigmoid network with two parameters, and its data."""

from dataclasses import dataclass

import torch
from torch.nn import functional

LAYERS = 5
DERIVATIVES = ("", "1", "2", "11", "12", "22")
"""The order in which a value and its derivatives by w1 and w2 lie."""


@dataclass(frozen=True)
class Mixture:
    """Three Gaussians of one width in the plane and the rule that labels points: above `threshold` is class 1.

    Attributes:
        means: [3, 2].
        width: standard deviation of each Gaussian in each direction.
        label_by: "coordinate" (the second one) or "density" (of the mixture).
        threshold: the median of that value over the training sample.
    """

    means: torch.Tensor
    width: float
    label_by: str
    threshold: float

    def draw(self, count: int, generator: torch.Generator) -> torch.Tensor:
        """Points [count, 2], each Gaussian equally likely."""
        return _draw(self.means, self.width, count, generator)

    def labels(self, points: torch.Tensor) -> torch.Tensor:
        """Truth values [n] of points [n, 2]."""
        return _label_value(points, self.means, self.width, self.label_by) > self.threshold


def draw_mixture(
    generator: torch.Generator, *, spread: float, width: float, label_by: str, examples: int
) -> tuple[Mixture, torch.Tensor]:
    """A mixture with means from N(0, spread² I), and its training sample [examples, 2]; labels split at the median."""
    means = torch.randn(3, 2, generator=generator, dtype=torch.float64) * spread
    points = _draw(means, width, examples, generator)
    values = _label_value(points, means, width, label_by)
    return Mixture(means, width, label_by, float(values.median())), points


def _draw(means: torch.Tensor, width: float, count: int, generator: torch.Generator) -> torch.Tensor:
    component = torch.randint(0, len(means), (count,), generator=generator)
    return means[component] + width * torch.randn(count, 2, generator=generator, dtype=means.dtype)


def _label_value(points: torch.Tensor, means: torch.Tensor, width: float, label_by: str) -> torch.Tensor:
    if label_by == "coordinate":
        return points[:, 1]
    squares = (points[:, None] - means).square().sum(-1)
    return (-squares / (2 * width**2)).exp().sum(1)


def logit_difference(weights: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """Logit of class 1 minus logit of class 0, [k, n], for weights [k, 2] and points [n, 2].

    Every layer multiplies by [[w1, w2], [−w2, w1]], without bias; sigmoids follow the first four.
    """
    w1, w2 = weights[:, :1], weights[:, 1:]
    first, second = points[:, 0].expand(len(weights), -1), points[:, 1].expand(len(weights), -1)
    for layer in range(LAYERS):
        first, second = w1 * first + w2 * second, w1 * second - w2 * first
        if layer < LAYERS - 1:
            first, second = first.sigmoid(), second.sigmoid()
    return second - first


@dataclass(frozen=True)
class CrossEntropy:
    """The mean cross-entropy (nats) over a sample as a function of weights [k, 2], values [k].

    Attributes:
        points: the sample, [n, 2].
        signs: 1 for class 1, −1 for class 0, [n].
    """

    points: torch.Tensor
    signs: torch.Tensor

    def __call__(self, weights: torch.Tensor) -> torch.Tensor:
        return functional.softplus(-self.signs * logit_difference(weights, self.points)).mean(1)

    @torch.no_grad()
    def derivatives(self, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Values [k], gradients [k, 2] and Hessians [k, 2, 2] by the chain rule, carried from layer to layer."""
        w1, w2 = weights[:, :1], weights[:, 1:]
        layer = self.points.new_zeros(len(DERIVATIVES), 2, len(weights), len(self.points))
        layer[0] = self.points.T[:, None]
        for number in range(LAYERS):
            turned = layer.flip(1)  # what w2 multiplies
            turned[:, 1].neg_()
            before, layer = layer, (w1 * layer).add_(w2 * turned)
            layer[1] += before[0]
            layer[2] += turned[0]
            layer[3].add_(before[1], alpha=2)
            layer[4].add_(before[2]).add_(turned[1])
            layer[5].add_(turned[2], alpha=2)
            if number < LAYERS - 1:
                value = layer[0].sigmoid()
                slope = value * (1 - value)
                layer = _composed(layer, value, slope, slope * (1 - 2 * value))
        difference = layer[:, 1] - layer[:, 0]
        arguments = -self.signs * difference[0]
        share = arguments.sigmoid()
        loss = _composed(difference, functional.softplus(arguments), -self.signs * share, share * (1 - share)).mean(2)
        return loss[0], loss[1:3].T, loss[[3, 4, 4, 5]].T.view(-1, 2, 2)


def _composed(inner: torch.Tensor, value: torch.Tensor, slope: torch.Tensor, bend: torch.Tensor) -> torch.Tensor:
    """`DERIVATIVES` [6, …] of f(inner), from those of inner and from f, f′ and f″ there, [...]."""
    outer = slope * inner
    outer[0] = value
    for place, i, j in ((3, 1, 1), (4, 1, 2), (5, 2, 2)):
        outer[place] += bend * inner[i] * inner[j]
    return outer


def cross_entropy(points: torch.Tensor, labels: torch.Tensor) -> CrossEntropy:
    """The mean cross-entropy over a sample [n, 2] with truth values [n]."""
    return CrossEntropy(points, 2 * labels.to(points.dtype) - 1)
