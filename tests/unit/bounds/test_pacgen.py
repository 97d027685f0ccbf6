import math

import pytest
import torch

from common.bounds.pacgen import pacgen, rho_by_coordinate, rho_by_norm


def test_psi_is_equation_24_worked_by_hand():
    weights, curvature = torch.tensor([1.0, -2.0]), torch.tensor([400.0, 0.01])
    kappa = (0.2, 0.3)  # 0.1 |w| + 0.1
    by_hand = math.log((1 + 0.2) * 20) + math.log((2 + 0.3) / 0.3)  # 20 > 1/0.2; 0.1 < 1/0.3
    score = pacgen(weights, curvature, gamma=0.1, epsilon=0.1)
    assert float(score.value) == pytest.approx(by_hand)
    assert float(score.floor) == pytest.approx(math.log(1.2 / kappa[0]) + math.log(2.3 / kappa[1]))
    assert float(score.curvature_share) == 0.5


def test_rho_enters_with_root_m_and_kappa():
    score = pacgen(torch.tensor([1.0, 1.0]), torch.zeros(2), 1000.0, gamma=0.1, epsilon=0.1)
    assert float(score.value) == pytest.approx(2 * math.log(1.2 * math.sqrt(1000 * math.sqrt(2) * 0.2)))


def test_negative_radicand_counts_as_zero():
    score = pacgen(torch.tensor([1.0]), torch.tensor([-5.0]), gamma=0.1, epsilon=0.1)
    assert float(score.value) == float(score.floor)
    assert float(score.curvature_share) == 0


def test_each_leading_case_has_its_own_rho():
    weights, curvature = torch.ones(3, 4), torch.ones(3, 4)
    rho = torch.tensor([0.0, 100.0, 1000.0])
    together = pacgen(weights, curvature, rho, gamma=0.1, epsilon=0.1).value
    alone = [float(pacgen(weights[k], curvature[k], rho[k], gamma=0.1, epsilon=0.1).value) for k in range(3)]
    assert together.tolist() == alone


def test_psi_does_not_change_under_rescaling_without_epsilon_and_rho():
    """γ alone makes κ follow the weights, and h falls as they grow: eq. (24) is invariant, trivially where 1/κ wins."""
    weights, curvature = torch.rand(10) + 0.5, 1e6 * (torch.rand(10) + 0.5)
    scales = torch.full((10,), 8.0)
    before = pacgen(weights, curvature, gamma=0.1, epsilon=0.0)
    after = pacgen(weights * scales, curvature / scales**2, gamma=0.1, epsilon=0.0)
    assert float(before.curvature_share) == 1
    assert float(after.value) == pytest.approx(float(before.value))


def test_rho_is_the_largest_quotient_and_leaves_out_what_did_not_move():
    curvature, perturbed = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.5, 2.1, 9.0])
    perturbation = torch.tensor([1.0, -0.1, 0.0])
    assert float(rho_by_coordinate(curvature, perturbed, perturbation)) == pytest.approx(1.0)


def test_rho_of_norms_is_their_quotient():
    curvature, perturbed = torch.zeros(2), torch.tensor([3.0, 4.0])
    assert float(rho_by_norm(curvature, perturbed, torch.tensor([0.0, 2.0]))) == pytest.approx(2.5)
