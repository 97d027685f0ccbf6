"""Wrong derivatives are refused by the name of the module; right ones never; nothing else is disturbed."""

import copy
from functools import partial

import pytest
import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from common.hessian import (
    GGN,
    Hessian,
    Problem,
    WrongDerivativeError,
    dense,
    measure,
    non_uniformity,
    per_sample_gradient_norms,
    trace,
)
from common.hessian.execution import weight_norm

X, Y = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 0, 1, 1, 0])
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


class Cube(torch.autograd.Function):
    """Right to first order; its second derivative is half of what it should be."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, slope):
        (x,) = ctx.saved_tensors
        return 3 * x * x.detach() * slope


class OnceCube(Cube):
    backward = staticmethod(once_differentiable(Cube.backward))


class Cubes(nn.Module):
    def __init__(self, function: type[Cube]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function.apply(x)


class Scaled(nn.Module):
    """A tensor's hook that scales gradients."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * 1
        if x.requires_grad:
            x.register_hook(lambda slope: 0.7 * slope)
        return x


def network(*inside: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    block = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), *inside)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), block, nn.Linear(4, 2))


def problem_of(model: nn.Module, dtype: torch.dtype = torch.float64, **options) -> Problem:
    return Problem(model.to(dtype), nn.CrossEntropyLoss(), (X.to(dtype), Y), **options)


@DTYPES
@pytest.mark.parametrize(("function", "words"), [(Cube, "not the change"), (OnceCube, "twice")])
def test_a_wrong_second_derivative_is_refused_by_the_name_of_its_module(function, words, dtype):
    problem = problem_of(network(Cubes(function)), dtype)
    for work in (lambda: Hessian(problem) @ problem.vector(), lambda: trace(problem), lambda: non_uniformity(problem)):
        with pytest.raises(WrongDerivativeError, match=rf"'2\.2' \(Cubes\).*{function.__name__}.*{words}") as found:
            work()
        assert len(str(found.value)) < 250
    assert per_sample_gradient_norms(problem).shape == (6,)  # needs the first derivative alone


@DTYPES
def test_a_hook_that_scales_gradients_is_refused_by_the_name_of_its_module(dtype):
    for make in (by_tensor, by_module, by_parameter):
        model, name = make()
        problem = problem_of(model, dtype)
        for work in (lambda p: Hessian(p) @ p.vector(), per_sample_gradient_norms):
            with pytest.raises(WrongDerivativeError, match=f"'{name}'.*gradient is not the derivative"):
                work(problem)
    [row] = measure(problem, ["hessian_trace"])
    assert "cannot be differentiated" in row.problem


def by_tensor() -> tuple[nn.Module, str]:
    return network(Scaled()), r"2\.2"


def by_module() -> tuple[nn.Module, str]:
    model = network()
    model[2][0].register_full_backward_hook(lambda module, slopes, _: (1.5 * slopes[0],))
    return model, r"2\.0"


def by_parameter() -> tuple[nn.Module, str]:
    model = network()
    model[3].weight.register_hook(lambda slope: 2 * slope)
    return model, "3"


def test_a_wrong_loss_is_refused_by_its_name():
    def cubic(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return Cube.apply(outputs).mean()

    problem = Problem(network().double(), cubic, (X.double(), Y))
    with pytest.raises(WrongDerivativeError, match="loss cubic"):
        Hessian(problem) @ problem.vector()


@DTYPES
def test_weight_normalisation_is_written_out_where_the_fused_one_is_wrong(dtype):
    class ByHand(nn.Module):
        def __init__(self, layer: nn.Module) -> None:
            super().__init__()
            weights = layer.parametrizations.weight
            self.bias, self.g, self.v = layer.bias, weights.original0, weights.original1

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return functional.linear(x, weight_norm(self.v, self.g), self.bias)

    torch.manual_seed(0)
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 4))
    rest = nn.Tanh(), nn.Linear(4, 2)
    problem = problem_of(nn.Sequential(layer, *rest), dtype)
    by_hand = problem_of(nn.Sequential(ByHand(layer), *rest), dtype)
    with pytest.warns(UserWarning, match="without torch's fused operation"):
        found = dense(Hessian(problem))
    torch.testing.assert_close(found, dense(Hessian(by_hand)))
    assert "fused" in problem.verified.said[0]
    assert problem.verified.cost <= 2
    assert not by_hand.verified.said
    assert trace(problem.restricted(problem.names[:1])).value == pytest.approx(
        trace(by_hand.restricted(by_hand.names[:1])).value, rel=0.1
    )


def test_weight_normalisation_of_any_shape_is_its_definition():
    v, g = torch.randn(4, 3, 2, dtype=torch.float64), torch.rand(4, 1, 1, dtype=torch.float64)
    torch.testing.assert_close(weight_norm(v, g), torch._weight_norm(v, g, 0))
    torch.testing.assert_close(weight_norm(v, g[:1], -1), g[:1] * v / v.norm())
    last = torch.rand(1, 1, 2, dtype=torch.float64)
    torch.testing.assert_close(weight_norm(v, last, 2), torch._weight_norm(v, last, 2))


@DTYPES
def test_the_check_is_made_once_costs_two_gradients_of_eight_examples_and_can_be_switched_off(dtype):
    passes = []
    model = network()
    model.register_forward_hook(lambda module, inputs, outputs: passes.append(len(inputs[0])))
    problem = problem_of(model, dtype)
    passes.clear()
    problem.require_second_derivatives()
    assert 0 < problem.verified.cost <= 2
    assert sum(passes) <= 8
    passes.clear()
    problem.require_second_derivatives()
    problem.restricted(problem.names[:2]).require_second_derivatives()
    assert all(count > 2 for count in passes)  # those of a new problem alone
    trusting = problem_of(network(Cubes(Cube)), dtype, verify=False)
    assert torch.isfinite(Hessian(trusting) @ trusting.vector()).all()
    assert trusting.verified.cost == 0


@DTYPES
def test_the_check_leaves_weights_graphs_versions_and_random_numbers_as_they_are(dtype):
    problem = problem_of(network(nn.BatchNorm1d(4).eval()), dtype)
    held = [*problem.model.named_parameters(), *problem.model.named_buffers()]
    places = [(t.data_ptr(), t._version, t.dtype) for _, t in held]
    before, state = problem.vector(), torch.get_rng_state()
    loss = functional.cross_entropy(problem.model(X.to(dtype)), Y)
    slopes = torch.autograd.grad(loss, problem.parameters, create_graph=True)
    right = torch.autograd.grad(slopes, problem.parameters, slopes, retain_graph=True)
    problem.require_second_derivatives()
    GGN(problem) @ before
    per_sample_gradient_norms(problem)
    after = [*problem.model.named_parameters(), *problem.model.named_buffers()]
    assert all(name == other and t is u for (name, t), (other, u) in zip(held, after, strict=True))
    assert [(t.data_ptr(), t._version, t.dtype) for _, t in held] == places
    assert torch.equal(problem.vector(), before)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_default_dtype() == torch.float32
    for one, other in zip(right, torch.autograd.grad(slopes, problem.parameters, slopes), strict=True):
        assert one.norm() > 0
        assert torch.equal(one, other)


@DTYPES
@pytest.mark.parametrize("change", ["zero", "saturated", "tiny", "dead"])
def test_a_network_that_is_right_is_not_refused_at_weights_that_are_hard(change, dtype):
    model = network().to(dtype)
    inputs = X.to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_({"zero": 0.0, "saturated": 300.0, "tiny": 1e-12, "dead": 1.0}[change])
        if change == "dead":
            model[0].bias.fill_(-100.0)
    inputs[:, 0] = 0
    problem = Problem(model, nn.CrossEntropyLoss(), (inputs, Y))
    problem.require_second_derivatives()
    GGN(problem) @ problem.vector()
    assert torch.isfinite(per_sample_gradient_norms(problem)).all()


@DTYPES
def test_a_network_that_computes_in_single_precision_is_not_refused_unless_it_is_wrong(dtype):
    class Single(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x).float().softmax(1).to(x.dtype)

    problem = problem_of(nn.Sequential(Single(3, 4), nn.Linear(4, 2)), dtype)
    problem.require_second_derivatives()
    assert problem.verified.cost <= 2
    model = nn.Sequential(Single(3, 4), nn.Linear(4, 4), Cubes(Cube), nn.Linear(4, 2))
    with torch.no_grad():
        model[1].weight.mul_(3)
    wrong = problem_of(model, dtype)
    with pytest.raises(WrongDerivativeError, match=r"'2' \(Cubes\).*not the change"):
        wrong.require_second_derivatives()


def test_a_layer_whose_hook_changes_its_outputs_is_taken_otherwise():
    model = network()
    model[3].register_forward_hook(lambda module, inputs, outputs: 2 * outputs)
    problem = problem_of(model)
    found = per_sample_gradient_norms(problem)
    assert set(problem.structure.outside) == {"3.weight", "3.bias"}
    for x, y, norm in zip(X.double(), Y, found, strict=True):
        loss = functional.cross_entropy(model(x[None]), y[None])
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        assert float(norm) == pytest.approx(float(torch.cat([g.flatten() for g in gradients]).norm()))


def test_a_subclass_of_a_loss_is_taken_at_its_word():
    class Doubled(nn.CrossEntropyLoss):
        def forward(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(outputs, targets)

    plain, doubled = (Problem(nn.Linear(3, 2), loss, (X, Y)) for loss in (nn.CrossEntropyLoss(), Doubled()))
    assert doubled.curvature.name == "loss"
    doubled.model.load_state_dict(plain.model.state_dict())
    assert trace(doubled, "ggn").value == pytest.approx(2 * trace(plain, "ggn").value, rel=1e-4)


@DTYPES
def test_a_parameter_without_influence_is_neither_refused_nor_taken_otherwise(dtype):
    torch.manual_seed(0)
    layers = nn.Conv2d(1, 2, 3), nn.GroupNorm(2, 2), nn.Tanh(), nn.Flatten(), nn.Linear(8, 2)
    model = nn.Sequential(*layers).to(dtype)
    data = torch.randn(6, 1, 4, 4, generator=torch.Generator().manual_seed(1)).to(dtype), Y
    problem = Problem(model, nn.CrossEntropyLoss(), data, parameters=["0.bias"])  # the normalisation takes it away
    assert trace(problem, budget=2).method == "sample signs"
    assert not problem.structure.outside
    assert float((GGN(problem) @ problem.vector()).norm()) < 1e-4
    assert non_uniformity(problem).value < 1e-3


def test_an_operation_without_second_derivative_is_written_out_or_refused_by_name():
    problem = problem_of(network(nn.Hardsigmoid(), nn.Linear(4, 4), nn.Hardsigmoid(inplace=True)))
    by_hand = network(ReLU6(), nn.Linear(4, 4), ReLU6()).double()
    by_hand.load_state_dict(problem.model.state_dict())
    with pytest.warns(UserWarning, match="hard sigmoid"):
        found = Hessian(problem) @ problem.vector()
    torch.testing.assert_close(found, Hessian(problem_of(by_hand)) @ problem.vector())
    bag = nn.Sequential(nn.EmbeddingBag(4, 3), nn.Tanh(), nn.Linear(3, 2)).double()
    tokens = torch.randint(0, 4, (6, 3), generator=torch.Generator().manual_seed(0))
    with pytest.raises(WrongDerivativeError, match=r"'0' \(EmbeddingBag\).*not implemented"):
        trace(Problem(bag, nn.CrossEntropyLoss(), (tokens, Y)))


class ReLU6(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu6(x + 3) / 6


def test_a_padding_row_is_a_constant():
    model = nn.Sequential(nn.Embedding(4, 3, padding_idx=0), nn.Tanh(), nn.Flatten(), nn.Linear(9, 2)).double()
    with torch.no_grad():
        model[0].weight[0] = 0.5
    tokens = torch.zeros(6, 3, dtype=torch.long)
    tokens[:, 1] = torch.tensor([1, 2, 3, 0, 1, 2])
    problem = Problem(model, nn.CrossEntropyLoss(), (tokens, Y))
    assert torch.isfinite(Hessian(problem) @ problem.vector()).all()
    assert torch.isfinite(per_sample_gradient_norms(problem)).all()


def test_rounding_at_a_kink_does_not_take_the_rule_of_a_layer_away():
    class Rounded(nn.Module):
        """In single precision a rounding that is another one in a batch than alone."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.dtype == torch.float64 else x + (1e-6 if len(x) > 1 else -1e-6)

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), Rounded(), nn.ReLU(), nn.Linear(4, 2))
    with torch.no_grad():
        model[0].bias.copy_(-model[0].weight @ X[0])  # the first example lies on all kinks
    problem = problem_of(model, torch.float32)
    per_sample_gradient_norms(problem)
    without_doubt = problem_of(copy.deepcopy(model), torch.float64)
    per_sample_gradient_norms(without_doubt)
    assert problem.structure.outside == () == tuple(problem.verified.looped)
    assert problem.verified.cost > without_doubt.verified.cost + 0.5


class TooLargeAt(nn.Module):
    """Does not get its memory in one of its calls; in none if that is 0."""

    def __init__(self, call: int = 0) -> None:
        super().__init__()
        self.calls, self.call = 0, call

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.calls == self.call:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8589934592 bytes.")
        return x * x


@pytest.mark.parametrize(
    "work",
    [
        partial(trace, budget=10.0),
        per_sample_gradient_norms,
        non_uniformity,
        lambda problem: GGN(problem) @ problem.vector(),
    ],
)
def test_memory_that_does_not_suffice_is_never_told_as_a_derivative_that_does_not_exist(work):
    enough = TooLargeAt()
    work(problem_of(network(enough)))
    assert enough.calls > 3
    for call in range(1, enough.calls + 1):
        with pytest.raises(RuntimeError, match="can't allocate memory") as raised:
            work(problem_of(network(TooLargeAt(call))))
        assert not isinstance(raised.value, WrongDerivativeError), call
