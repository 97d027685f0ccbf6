"""Losses on lines and planes through the weights."""

import pytest
import torch
from torch import nn

from common.hessian import Problem, eigenpairs, filter_normalised, loss_slice
from common.models import ResidualCifar


def problem_of(model: nn.Module, width: int) -> Problem:
    source = torch.Generator().manual_seed(3)
    data = torch.randn(12, width, generator=source), torch.randint(0, 3, (12,), generator=source)
    return Problem(model.double(), nn.CrossEntropyLoss(), (data[0].double(), data[1]))


def test_a_plane_holds_the_losses_of_the_moved_network_and_leaves_it_as_it_was() -> None:
    torch.manual_seed(0)
    problem = problem_of(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)), 4)
    before, source = problem.vector(), torch.Generator().manual_seed(1)
    directions = torch.randn(problem.size, 2, generator=source, dtype=torch.float64)
    lines = [-1.0, 0.0, 0.5], [0.0, 2.0]
    losses = loss_slice(problem, directions, *lines)
    assert losses.shape == (3, 2)
    assert torch.equal(problem.vector(), before)
    assert losses[1, 0] == problem.loss()
    for i, a in enumerate(lines[0]):
        for j, b in enumerate(lines[1]):
            with problem.at(before + a * directions[:, 0] + b * directions[:, 1]):
                assert losses[i, j] == pytest.approx(problem.loss(), rel=1e-12)


def test_along_an_eigenvector_the_second_difference_is_its_eigenvalue() -> None:
    torch.manual_seed(0)
    problem = problem_of(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)), 4)
    found = eigenpairs(problem, 2, relative_error=1e-6)
    step = 1e-3
    for k in range(2):
        below, here, above = loss_slice(problem, found.vectors[:, k], [-step, 0, step]).tolist()
        assert (below - 2 * here + above) / step**2 == pytest.approx(float(found.values[k]), rel=1e-4)


def test_a_direction_has_the_length_of_each_filter_and_leaves_norms_and_biases_alone() -> None:
    network = ResidualCifar(8, width=2)
    network.initialise(torch.Generator().manual_seed(1))
    problem = Problem(network.eval(), nn.CrossEntropyLoss(), (torch.rand(3, 3, 32, 32), torch.tensor([0, 1, 2])))
    direction = filter_normalised(problem, seed=2)
    for parameter, part in zip(problem.parameters, problem.split(direction), strict=True):
        if parameter.dim() < 2:
            assert not part.any()
            continue
        assert torch.allclose(part.flatten(1).norm(dim=1), parameter.detach().flatten(1).norm(dim=1), rtol=1e-4)
        assert not torch.equal(part, parameter)
    assert torch.equal(direction, filter_normalised(problem, seed=2))
    assert not torch.equal(direction, filter_normalised(problem, seed=3))


@pytest.mark.parametrize(
    ("shape", "coefficients", "sentence"),
    [
        ((5,), ([0.0],), r"Directions of shape \(5,\): expected \(15,\), or \(15, K\) for K."),
        ((15, 2), ([0.0],), "1 lists of coefficients were given for 2 directions."),
        ((15, 2, 1), ([0.0], [0.0]), r"Directions of shape \(15, 2, 1\)"),
    ],
)
def test_what_does_not_fit_is_refused(shape: tuple[int, ...], coefficients: tuple[list[float]], sentence: str) -> None:
    problem = problem_of(nn.Linear(4, 3), 4)
    with pytest.raises(ValueError, match=sentence):
        loss_slice(problem, torch.zeros(shape), *coefficients)
