import pytest
import torch
from torch import nn

from common.hessian import (
    GGN,
    EmpiricalFisher,
    FunctionalHessian,
    Hessian,
    MonteCarloFisher,
    NoiseCovariance,
    Problem,
    dense,
    quadratic_forms_by_parameter,
)
from tests.unit.hessian.networks import family, problem_of


def drawn(problem: Problem, seed: int = 0) -> torch.Tensor:
    return problem.random_normal(torch.Generator().manual_seed(seed))


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


def test_products_are_those_of_the_dense_matrices(case):
    problem, matrices = case
    second = matrices.gradients.T @ matrices.gradients / problem.count
    mean = matrices.gradients.mean(0)
    close(dense(Hessian(problem)), matrices.hessian)
    close(dense(GGN(problem)), matrices.ggn)
    close(dense(FunctionalHessian(problem)), matrices.hessian - matrices.ggn)
    close(dense(EmpiricalFisher(problem)), second)
    close(dense(NoiseCovariance(problem)), second - mean[:, None] * mean)
    close(problem.gradient(), mean)


@pytest.mark.parametrize("name", ["tanh", "smooth convolutional", "attention", "tied", "twice"])
def test_hessian_products_are_differences_of_gradients(name):
    problem = problem_of(name)
    at, vector = problem.vector(), drawn(problem, seed=2)
    gradients = []
    for sign in (1, -1):
        with problem.at(at + sign * 1e-6 * vector):
            gradients.append(problem.gradient())
    expected = (gradients[0] - gradients[1]) / 2e-6
    torch.testing.assert_close(Hessian(problem) @ vector, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [Hessian, GGN, EmpiricalFisher, NoiseCovariance])
def test_recomputed_chunks_give_the_products_of_kept_ones(kind, tanh):
    problem, vector = tanh[0], drawn(tanh[0])
    kept, recomputed = kind(problem), kind(problem, memory_limit=1)
    for _ in range(2):
        close(recomputed @ vector, kept @ vector)
    assert recomputed.cost > kept.cost
    assert recomputed.product_cost == pytest.approx(kept.product_cost + 1)


@pytest.mark.parametrize("kind", [Hessian, GGN, NoiseCovariance])
def test_forms_are_those_of_products(kind, tanh):
    vector, matrix = drawn(tanh[0]), kind(tanh[0])
    assert matrix.quadratic_form(vector) == pytest.approx(float(vector @ (matrix @ vector)))


def test_forms_by_parameter_use_the_diagonal_blocks(tanh):
    problem, matrices = tanh
    vector = drawn(problem)
    forms, start = quadratic_forms_by_parameter(Hessian(problem), vector), 0
    for name, size in zip(problem.names, problem.sizes, strict=True):
        part = slice(start, start + size)
        assert forms[name] == pytest.approx(float(vector[part] @ matrices.hessian[part, part] @ vector[part]))
        start += size


def test_mean_of_monte_carlo_fishers_is_the_ggn(tanh):
    problem, matrices = tanh
    draws = torch.stack([dense(MonteCarloFisher(problem, seed=seed)).diagonal() for seed in range(100)])
    z = (draws.mean(0) - matrices.ggn.diagonal()) / (draws.std(0) / 10).clamp(min=1e-12)
    assert z.abs().max() < 4.5
    assert z.square().mean() < 2


@pytest.mark.parametrize("loss", [nn.MSELoss(), nn.BCEWithLogitsLoss(), nn.MSELoss(reduction="sum"), nn.HuberLoss()])
def test_losses_over_outputs_of_any_shape_are_those_of_the_dense_matrices(loss):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2)).double()
    inputs, targets = torch.randn(5, 3, 2).double(), torch.rand(5, 3, 2).double()
    problem = Problem(model, loss, (inputs, targets), chunk=2)
    at = problem.vector()

    def of(vector: torch.Tensor) -> torch.Tensor:
        parts = dict(zip(problem.names, problem.split(vector), strict=True))
        return loss(torch.func.functional_call(model, parts, (inputs,)), targets)

    close(dense(Hessian(problem)), torch.autograd.functional.hessian(of, at))
    linear = Problem(nn.Linear(2, 2).double(), loss, (inputs, targets), chunk=2)
    close(dense(GGN(linear)), dense(Hessian(linear)))


def test_probability_targets_and_label_smoothing_have_the_right_ggn():
    torch.manual_seed(0)
    model, inputs = nn.Linear(3, 4).double(), torch.randn(6, 3).double()
    cases = [
        (nn.CrossEntropyLoss(label_smoothing=0.3), torch.randint(0, 4, (6,))),
        (nn.CrossEntropyLoss(), 2 * torch.rand(6, 4).double()),
    ]
    for loss, targets in cases:
        problem = Problem(model, loss, (inputs, targets))
        close(dense(GGN(problem)), dense(Hessian(problem)))


def test_products_follow_the_weights_after_they_moved(tanh):
    problem, _ = tanh
    matrix = Hessian(problem)
    vector = torch.ones(problem.size, dtype=torch.float64)
    before = matrix @ vector
    with problem.at(problem.vector() * 2):
        assert (matrix @ vector - before).abs().max() > 1e-3
    close(matrix @ vector, before)


@pytest.mark.parametrize("kind", [Hessian, GGN, EmpiricalFisher, NoiseCovariance])
@pytest.mark.parametrize(
    "change",
    [
        lambda model, data: model[1].running_var.mul_(4),
        lambda model, data: model[0].weight.data.mul_(1.5),
        lambda model, data: model[3].bias.data.neg_(),
        lambda model, data: setattr(model[0].weight, "data", torch.ones(4, 3, dtype=torch.float64)),
        lambda model, data: data[0].mul_(1.3),
        lambda model, data: data[1].sub_(1),
    ],
    ids=["buffer", "data of a weight", "data of a bias", "other data", "inputs", "targets"],
)
def test_products_follow_whatever_is_written_to(kind, change):
    source = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2)).double().eval()
    for parameter in model.parameters():
        parameter.data.normal_(generator=source)
    data = torch.randn(9, 3, generator=source, dtype=torch.float64), torch.ones(9, 2, dtype=torch.float64)
    problem = Problem(model, nn.HuberLoss(), data)
    held = kind(problem)
    before = dense(held)
    change(model, data)
    now = dense(held)
    assert (now - before).abs().max() > 1e-4
    close(now, dense(kind(problem)))


@pytest.mark.parametrize(
    "vectors", [torch.ones(3), torch.ones(3, 66), torch.tensor(1.0), [1.0], torch.ones(66).numpy()]
)
def test_what_is_no_vector_of_the_parameters_is_refused_with_their_number(tanh, vectors):
    with pytest.raises(ValueError, match=rf"\[{tanh[0].size}\]|\[P\]"):
        Hessian(tanh[0]) @ vectors


def test_an_operator_says_of_what_it_is(tanh):
    size = f"{tanh[0].size:,} parameters in {len(tanh[0].names)} tensors"
    assert repr(GGN(tanh[0])) == f"GGN({tanh[0]!r})"
    assert size in repr(tanh[0])


@pytest.mark.parametrize("name", ["frozen", "twice", "attention"])
def test_measuring_leaves_the_model_as_it_was(name):
    model, inputs = family(name)
    before = {n: (p.detach().clone(), p.requires_grad) for n, p in model.named_parameters()}
    problem = Problem(model, nn.CrossEntropyLoss(), (inputs, torch.zeros(len(inputs), dtype=torch.int64)))
    GGN(problem) @ (Hessian(problem) @ problem.vector())
    assert problem.structure
    for n, p in model.named_parameters():
        assert isinstance(p, nn.Parameter)
        assert torch.equal(p, before[n][0])
        assert (p.requires_grad, p.grad) == (before[n][1], None)


@pytest.mark.parametrize("kinds", [(Hessian, GGN), (GGN, Hessian)])
def test_products_stay_what_they_are_when_a_check_comes_between(kinds):
    """A check looks at float32 weights in float64; what an operator has recorded of them must stay valid."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    data = torch.randn(5, 3), torch.tensor([0, 1, 1, 0, 1])
    problem = Problem(model, nn.CrossEntropyLoss(), data)
    vector = problem.random_signs(torch.Generator().manual_seed(0))
    operator = kinds[0](problem)
    before, cost = operator @ vector, operator.cost
    assert before.norm() > 0
    kinds[1](problem) @ vector
    assert torch.equal(operator @ vector, before)
    assert operator.cost - cost == pytest.approx(operator.kept_cost)  # nothing is recorded anew
    Hessian(Problem(model, nn.CrossEntropyLoss(), data)) @ vector  # another problem of the same weights
    assert torch.equal(operator @ vector, before)
