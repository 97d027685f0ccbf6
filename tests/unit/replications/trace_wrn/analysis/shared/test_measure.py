"""Equation 6 as a divergence of two normal distributions."""

import pandas as pd
import pytest
import torch


def test_equation_6_corrected_is_the_divergence_of_two_normal_distributions() -> None:
    torch.manual_seed(1)
    eigenvalues, weights = torch.tensor([0.5, 2.0, 3.0, 7.0]).double(), torch.randn(4).double()
    posterior = torch.distributions.MultivariateNormal(weights, precision_matrix=torch.diag(eigenvalues))
    prior = torch.distributions.MultivariateNormal(torch.zeros(4).double(), torch.eye(4).double())
    exact = float(torch.distributions.kl_divergence(posterior, prior))
    final = {
        "run": "x", "kind": "final", "weight_decay": 0.0, "seed": 0, "parameters": 4, "training_images": 9,
        "training_loss": 0.1, "trace": 12.5, "norm": float(weights.norm()), "training_error": 0.0,
    }  # fmt: skip
    nodes = [
        {"run": "x", "kind": "node", "vector": 0, "node": float(value), "weight": 0.25} for value in eigenvalues - 1e-4
    ]
    from replications.trace_wrn.analysis.shared.measure import equations, spectral_sums

    frame = pd.DataFrame([final, *nodes])
    found = equations(frame[frame["kind"] == "final"].set_index("run"), spectral_sums(frame))
    assert float(found["equation6_corrected_d4"].iloc[0]) == pytest.approx(exact, rel=1e-9)
