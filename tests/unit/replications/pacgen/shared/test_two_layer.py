"""Losses of the two-layer networks."""

import torch

from tests.unit.replications.pacgen.samples import small_problem


def test_losses_are_cross_entropy_and_the_probability_of_the_wrong_classes():
    problem, weights = small_problem()
    logits = problem.logits(weights)[0]
    expected = torch.nn.functional.cross_entropy(logits, problem.targets[0], reduction="none")
    torch.testing.assert_close(problem.losses(weights)[0], expected)
    torch.testing.assert_close(problem.losses(weights, "probability")[0], 1 - (-expected).exp())
