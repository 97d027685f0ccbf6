from collections import UserDict
from collections.abc import Mapping

import pytest
import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from common.hessian import (
    GGN,
    MEASURES,
    Hessian,
    Problem,
    Streamed,
    dense,
    diagonal,
    eigenpairs,
    frobenius_norm,
    hutchinson_trace,
    kink_term,
    measure,
    noise_trace,
    per_sample_gradient_norms,
    sharpness,
    spectrum,
    trace,
    traces_by_parameter,
)
from common.hessian import problem as problem_module
from tests.unit.hessian.networks import dense_matrices

X, Y = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 0, 1, 1, 0])

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def linear() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(3, 2)


class Wide(nn.Module):
    """Takes two inputs, by place or by name."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return self.layer(left + right)


def test_loader_with_an_uneven_last_batch_weighs_every_example_alike():
    model = linear()
    whole = Problem(model, functional.cross_entropy, (X, Y))
    loader = Problem(model, functional.cross_entropy, [(X[:4], Y[:4]), (X[4:5], Y[4:5]), (X[5:], Y[5:])])
    assert loader.loss() == pytest.approx(float(functional.cross_entropy(model(X), Y)))
    assert trace(loader).value == pytest.approx(trace(whole).value, rel=1e-5)
    torch.testing.assert_close(loader.gradient(), whole.gradient())


def test_sum_loss_is_not_divided_by_the_number_of_examples():
    mean = Problem(linear(), nn.CrossEntropyLoss(), (X, Y))
    total = Problem(linear(), nn.CrossEntropyLoss(reduction="sum"), (X, Y), chunk=4)
    assert trace(total).value == pytest.approx(6 * trace(mean).value, rel=1e-5)


def test_reduction_of_any_function_is_found_out_even_where_the_loss_is_zero():
    model = nn.Linear(3, 1, bias=False)
    nn.init.zeros_(model.weight)
    for name, loss in {"mean": lambda o, t: ((o - t) ** 2).mean(), "sum": lambda o, t: ((o - t) ** 2).sum()}.items():
        assert Problem(model, loss, (X, torch.zeros(6, 1))).reduction == name


def test_the_reduction_of_a_function_does_not_hang_on_the_chunks():
    inputs, targets = X.repeat(2, 1), torch.arange(12.0)[:, None]
    total = Problem(nn.Linear(3, 1), lambda o, t: ((o - t) ** 2).sum(), (inputs, targets), chunk=1)
    assert total.reduction == "sum"
    batches = [(inputs[:1], targets[:1]), (inputs[1:], targets[1:])]
    assert Problem(nn.Linear(3, 1), lambda o, t: ((o - t) ** 2).sum(), batches).reduction == "sum"
    assert Problem(nn.Linear(3, 1), lambda o, t: ((o - t) ** 2).mean(), batches).reduction == "mean"


@pytest.mark.parametrize("chunk", [None, 20])
def test_weights_of_classes_are_refused_although_the_first_examples_are_of_one_class(chunk):
    inputs, classes = torch.randn(60, 4), torch.arange(3).repeat_interleave(20)
    weight = torch.tensor([1.0, 10.0, 1.0])
    with pytest.raises(ValueError, match="neither the mean nor the sum"):
        Problem(nn.Linear(4, 3), lambda o, t: functional.cross_entropy(o, t, weight), (inputs, classes), chunk=chunk)


@pytest.mark.parametrize("chunk", [None, 10])
def test_what_counts_is_found_out_although_the_first_examples_have_no_ignored_target(chunk):
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(7, 5), nn.Linear(5, 7)

        def forward(self, words):
            return self.head(self.embedding(words)).transpose(1, 2)

    def next_word(outputs, targets):
        return functional.cross_entropy(outputs[:, :, :-1], targets[:, 1:])

    words = torch.randint(0, 7, (30, 6), generator=torch.Generator().manual_seed(0))
    targets = words.clone()
    targets[10:, 4:] = -100
    targets[20:, 0] = -100
    model = Words().double()
    found = Problem(model, next_word, (words, targets), chunk=chunk).loss()
    assert found == pytest.approx(float(next_word(model(words), targets)), rel=1e-12)


@pytest.mark.parametrize("chunk", [0, -1])
def test_a_chunk_of_no_example_is_refused(chunk):
    with pytest.raises(ValueError, match="at least one example"):
        Problem(linear(), nn.CrossEntropyLoss(), (X, Y), chunk=chunk)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_reduction_is_found_out_on_a_saturated_network_in_single_precision(reduction):
    model = nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        model.weight.copy_(1e4 * torch.eye(2))
    loss = nn.CrossEntropyLoss(reduction=reduction)
    assert Problem(model, loss, (torch.eye(2).repeat(3, 1), torch.tensor([0, 1] * 3))).reduction == reduction


def test_inputs_may_be_tuples_or_dicts():
    model = Wide()
    by_place = Problem(model, nn.CrossEntropyLoss(), ((X, X), Y), chunk=4)
    by_name = Problem(model, nn.CrossEntropyLoss(), ({"left": X, "right": X}, Y), chunk=4)
    assert trace(by_place).value == pytest.approx(trace(by_name).value)
    assert trace(by_place).value == pytest.approx(trace(Problem(model.layer, nn.CrossEntropyLoss(), (2 * X, Y))).value)


@pytest.mark.parametrize("kind", [dict, UserDict])
def test_a_batch_may_be_one_dict_with_labels(kind):
    def batch(part: slice) -> Mapping[str, torch.Tensor]:
        return kind({"left": X[part], "labels": Y[part], "right": X[part]})

    model, loss = Wide(), nn.CrossEntropyLoss()
    expected = Problem(model, loss, (kind({"left": X, "right": X}), Y)).gradient()
    batches = [batch(slice(4)), batch(slice(4, 6))]
    for data in (batch(slice(6)), batches, Streamed(batches)):
        problem = Problem(model, loss, data)
        assert problem.count == len(Y)
        torch.testing.assert_close(problem.gradient(), expected)


def test_only_named_parameters_are_differentiated_by():
    problem = Problem(linear(), nn.CrossEntropyLoss(), (X, Y), parameters=["bias"])
    assert problem.size == 2
    assert (Hessian(problem) @ torch.ones(2)).abs().max() < 1e-6  # softmax does not see a common shift


class Tagger(nn.Sequential):
    """Logits [n, classes, positions] of each token."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).mT


def tagger(targets: torch.Tensor, loss, chunk: int) -> Problem:
    torch.manual_seed(0)
    tokens = torch.randint(0, 5, targets.shape, generator=torch.Generator().manual_seed(0))
    return Problem(
        Tagger(nn.Embedding(5, 3), nn.Tanh(), nn.Linear(3, 4)).double(), loss, (tokens, targets), chunk=chunk
    )


TARGETS = torch.tensor([[0, 1, 2], [3, -100, 1], [-100, 2, -100], [1, 1, 0], [2, -100, -100]])


def test_tokens_that_are_ignored_do_not_count_however_the_data_are_cut():
    loss = nn.CrossEntropyLoss()
    whole, cut = tagger(TARGETS, loss, 5), tagger(TARGETS, loss, 2)
    by_function = tagger(TARGETS, lambda o, t: functional.cross_entropy(o, t), 2)
    expected = float(loss(whole.model(whole.chunks.first.inputs), TARGETS).detach())
    for problem in (whole, cut, by_function):
        assert problem.loss() == pytest.approx(expected)
        assert trace(problem, "ggn").value == pytest.approx(trace(whole, "ggn").value)
        torch.testing.assert_close(problem.gradient(), whole.gradient())
    gradient = whole.gradient().square().sum()
    assert noise_trace(cut).value == pytest.approx(float(per_sample_gradient_norms(whole).square().mean() - gradient))


def test_a_language_model_is_not_asked_for_its_first_token():
    def shifted(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(outputs[:, :, :-1], targets[:, 1:])

    targets = TARGETS[:4]
    problem = tagger(targets, shifted, 3)
    expected = float(shifted(problem.model(torch.cat([c.inputs for c in problem.chunks])), targets).detach())
    assert problem.loss() == pytest.approx(expected)
    with pytest.raises(ValueError, match="no target that counts"):
        tagger(TARGETS, shifted, 3)


def test_class_weights_are_those_of_the_whole_data():
    weights = torch.tensor([1.0, 5.0])
    model, loss = linear(), nn.CrossEntropyLoss(weight=weights, label_smoothing=0.1)
    problem = Problem(model, loss, (X, Y), chunk=4)
    assert problem.loss() == pytest.approx(float(loss(model(X), Y).detach()))
    assert problem.curvature.name == "loss"


class Returning(nn.Linear):
    def forward(self, x: torch.Tensor) -> dict:
        scores = super().forward(x)
        return {"scores": scores, "best": scores.argmax(1), "first": scores[:1]}


def test_the_loss_picks_what_it_reads_of_structured_outputs():
    torch.manual_seed(0)
    model = Returning(3, 2)
    read = Problem(model, lambda o, t: functional.cross_entropy(o["scores"], t), (X, Y), chunk=4)
    plain = Problem(linear(), nn.CrossEntropyLoss(), (X, Y))
    assert trace(read).value == pytest.approx(trace(plain).value, rel=1e-4)
    refused("no differentiable tensor", model, lambda o, t: o["scores"].sum() * o["best"].sum(), (X, Y))
    refused("first axis", model, lambda o, t: o["first"].mean(), (X, Y))


def refused(match: str, model: nn.Module, loss, data, **options) -> None:
    with pytest.raises(ValueError, match=match) as found:
        Problem(model, loss, data, **options)
    assert len(str(found.value)) < 250


def test_what_makes_an_estimate_meaningless_is_refused_with_a_sentence():
    broken = linear()
    with torch.no_grad():
        broken.weight[0, 0] = torch.nan
    weighted = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 5.0]))
    refused("NaN", broken, nn.CrossEntropyLoss(), (X, Y))
    refused("no example", linear(), nn.CrossEntropyLoss(), (X[:0], Y[:0]))
    refused("no example", linear(), nn.CrossEntropyLoss(), [])
    refused("neither", linear(), lambda o, t: weighted(o, t), (X, Y))
    refused("neither", linear(), lambda o, t: functional.cross_entropy(o, t) ** 2, (X, Y))
    refused("one number", linear(), nn.CrossEntropyLoss(reduction="none"), (X, Y))
    refused("all are ignored", linear(), nn.CrossEntropyLoss(), (X, torch.full((6,), -100)))
    refused("neither", nn.Linear(3, 1), nn.MSELoss(), (X, torch.arange(6.0)))  # broadcasts to 6 × 6
    refused("every example", linear(), nn.CrossEntropyLoss(), (X, Y[:5]))
    refused("NaN or infinite", linear(), nn.CrossEntropyLoss(), (X * torch.inf, Y))
    refused("no parameter 'w'", linear(), nn.CrossEntropyLoss(), (X, Y), parameters=["w"])
    refused("float32", linear().half(), nn.CrossEntropyLoss(), (X.half(), Y))
    refused("names of the model's parameters", linear(), nn.CrossEntropyLoss(), (X, Y), parameters="weight")
    refused("names of the model's", linear(), nn.CrossEntropyLoss(), (X, Y), parameters=linear().parameters())
    refused("loss of the first examples is NaN", nn.Linear(3, 1), nn.MSELoss(), (X, torch.full((6, 1), torch.nan)))
    for parameter in broken.parameters():
        parameter.requires_grad_(False)
    refused("frozen", broken, nn.CrossEntropyLoss(), (X, Y))


def test_a_loss_that_knows_the_weights_is_refused_and_one_of_frozen_weights_is_not():
    model, cross_entropy = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), nn.CrossEntropyLoss()
    refused("depends on 0.weight", model, lambda o, t: cross_entropy(o, t) + model[0].weight.square().sum(), (X, Y))
    model[0].requires_grad_(False)
    Problem(model, lambda o, t: cross_entropy(o, t) + 0 * model[0].weight.square().sum(), (X, Y))


@pytest.mark.parametrize("data", [[X, Y], (X, Y, Y), X, [{"inputs": X, "targets": Y}], (X.numpy(), Y.numpy())])
def test_data_that_are_no_pairs_are_refused_with_a_sentence(data):
    refused("Data are inputs and targets", linear(), nn.CrossEntropyLoss(), data)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"left": X, "right": X}, "a dict with the entries left, right where such a batch"),
        ([{"left": X, "right": X, "labels": 1}], "entries left, right, labels where such a batch"),
        ([{"left": X, "text": ["a"] * 6, "labels": Y}], "entry 'text' of a batch holds a list of 6"),
        ({"labels": Y}, "targets without inputs"),
        (((X, None), Y), "input 1 of a batch holds a NoneType"),
        (torch.utils.data.TensorDataset(X, Y), "a single example"),
    ],
)
def test_what_a_batch_lacks_is_named(data, said):
    refused(said, Wide(), nn.CrossEntropyLoss(), data)


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(4), nn.Dropout()])
def test_what_is_put_into_training_mode_later_is_refused_and_left_as_it_is(layer):
    model = nn.Sequential(nn.Linear(3, 4), layer, nn.Linear(4, 2)).eval()
    problem = Problem(model, nn.CrossEntropyLoss(), (X, Y))
    before = trace(problem).value
    model.train()
    for measured in (trace, sharpness):
        with pytest.raises(ValueError, match=r"call model\.eval"):
            measured(problem)
    model.eval()
    assert trace(problem).value == before


@pytest.mark.parametrize(
    ("loss", "inputs", "targets", "said"),
    [
        (functional.cross_entropy, X[:, :2], Y, r"The model does not take inputs \[6, 2\] of float32: .*multiplied"),
        (functional.cross_entropy, X.double(), Y, r"The model does not take inputs \[6, 3\] of float64"),
        (
            functional.cross_entropy,
            X,
            Y.float(),
            r"The loss does not take outputs \[6, 2\] .* targets \[6\] of float32",
        ),
        (functional.cross_entropy, X, Y + 4, r"The loss does not take .*out of bounds"),
        (functional.mse_loss, X, Y, r"The loss does not take .*must match"),
        (lambda outputs, _: outputs.detach().mean(), X, Y, "no derivative in the outputs"),
        (lambda outputs, _: outputs.mean().item(), X, Y, "returns a float, which has no derivative"),
    ],
)
def test_what_does_not_fit_is_told_with_its_shape(loss, inputs, targets, said):
    with pytest.raises(ValueError, match=said):
        Problem(linear(), loss, (inputs, targets))


@pytest.mark.parametrize(
    "loss",
    [nn.MSELoss(), nn.MSELoss(reduction="sum"), nn.BCEWithLogitsLoss(), nn.HuberLoss(),
     lambda outputs, targets: ((outputs - targets) ** 4).mean()],
)  # fmt: skip
@pytest.mark.parametrize("structured", [False, True])
def test_one_number_an_example_is_one_output(loss, structured):
    class Flat(nn.Module):
        def __init__(self, network: nn.Module) -> None:
            super().__init__()
            self.network = network

        def forward(self, inputs: torch.Tensor) -> torch.Tensor | dict[str, torch.Tensor]:
            outputs = self.network(inputs).squeeze()
            return {"value": outputs} if structured else outputs

    class Read(nn.Module):
        reduction = getattr(loss, "reduction", "mean")

        def forward(self, outputs: dict[str, torch.Tensor], targets: torch.Tensor) -> torch.Tensor:
            return loss(outputs["value"], targets)

    column = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    inputs, targets = X.double(), torch.tensor([0.0, 1, 1, 0, 1, 0], dtype=torch.float64)
    one = Problem(column, loss, (inputs, targets[:, None]))
    flat = Problem(Flat(column), Read() if structured else loss, (inputs, targets), chunk=None if structured else 5)
    torch.testing.assert_close(dense(GGN(flat)), dense(GGN(one)))
    torch.testing.assert_close(dense(Hessian(flat)), dense(Hessian(one)))
    assert trace(flat, "ggn").value == pytest.approx(trace(one, "ggn").value)
    for of in ("ggn", "hessian"):
        assert diagonal(flat, of).trace.value == pytest.approx(diagonal(one, of).trace.value)
    if structured:
        return
    names = [name for name in MEASURES if "noise" not in name or flat.reduction == "mean"]
    rows = [{row.name: row.estimate for row in measure(problem, names)} for problem in (flat, one)]
    for name in names:
        found, expected = (row[name] for row in rows)
        assert (found is None) == (expected is None), name
        if found and expected:
            within = 6 * (found.error + expected.error) + 1e-6 * abs(expected.value)
            assert found.value == pytest.approx(expected.value, abs=within), name


def test_a_model_that_differentiates_itself_is_measured():
    class Field(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.potential = nn.Sequential(nn.Linear(1, 3), nn.Tanh(), nn.Linear(3, 1))

        def forward(self, places: torch.Tensor) -> torch.Tensor:
            with torch.enable_grad():
                at = places.detach().requires_grad_()
                (slope,) = torch.autograd.grad(self.potential(at).sum(), at, create_graph=True)
            return slope

    class Unsaid(Field):
        def forward(self, places: torch.Tensor) -> torch.Tensor:
            at = places.detach().requires_grad_()
            return torch.autograd.grad(self.potential(at).sum(), at, create_graph=True)[0]

    places = torch.linspace(-1, 1, 30, dtype=torch.float64)[:, None]
    refused(r"within torch\.enable_grad", Unsaid().double(), nn.MSELoss(), (places, places.cos()))
    problem = Problem(Field().double(), nn.MSELoss(), (places, places.cos()))
    vector = torch.ones(problem.size, dtype=torch.float64)
    at, gradients = problem.vector(), []
    for sign in (1, -1):
        with problem.at(at + sign * 1e-5 * vector):
            gradients.append(problem.gradient())
    torch.testing.assert_close(Hessian(problem) @ vector, (gradients[0] - gradients[1]) / 2e-5, rtol=1e-6, atol=1e-8)


def test_a_problem_is_not_made_where_there_are_no_derivatives():
    with torch.inference_mode(), pytest.raises(ValueError, match="inference_mode"):
        Problem(linear(), nn.CrossEntropyLoss(), (X, Y))
    with torch.inference_mode():
        inputs = X.clone()
    assert trace(Problem(linear(), nn.CrossEntropyLoss(), (inputs, Y))).value > 0


def test_a_structured_output_that_the_loss_does_not_take_is_told_with_the_targets():
    class Named(nn.Module):
        def forward(self, inputs: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"logits": inputs}

    model = nn.Sequential(linear(), Named())
    with pytest.raises(ValueError, match=r"what the model returns with targets \[6\] of int64"):
        Problem(model, lambda outputs, targets: functional.cross_entropy(outputs["logits"], targets.float()), (X, Y))


def _other_weight(model: nn.Module) -> None:
    model[0].weight = nn.Parameter(torch.zeros(4, 3))


def _other_layer(model: nn.Module) -> None:
    model[2] = nn.Linear(4, 2)


@pytest.mark.parametrize("exchange", [_other_weight, _other_layer])
def test_weights_that_are_exchanged_for_others_later_are_refused(exchange):
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    problem = Problem(model, nn.CrossEntropyLoss(), (X, Y))
    sharpness(problem)
    exchange(model)
    for measured in (Problem.loss, Problem.gradient, trace, sharpness):
        with pytest.raises(ValueError, match="another than when the problem was made"):
            measured(problem)


def test_values_that_are_copied_in_place_are_measured():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    problem = Problem(model, nn.CrossEntropyLoss(), (X, Y))
    problem.gradient()
    model.load_state_dict({name: 2 * value for name, value in model.state_dict().items()})
    torch.testing.assert_close(problem.gradient(), Problem(model, nn.CrossEntropyLoss(), (X, Y)).gradient())


def test_what_is_found_is_printed_without_its_tensors():
    problem = Problem(linear(), nn.CrossEntropyLoss(), (X, Y))
    found = sharpness(problem)
    assert str(found) == str(found.estimate)
    for result in (found, eigenpairs(problem), diagonal(problem)):
        assert "vector" not in repr(result)
        assert "diagonal=" not in repr(result)


def test_an_error_or_a_width_that_is_not_positive_is_refused():
    problem = Problem(linear(), nn.CrossEntropyLoss(), (X, Y))
    with pytest.raises(ValueError, match="must be positive"):
        sharpness(problem, relative_error=-1)
    with pytest.raises(ValueError, match="must be positive"):
        spectrum(problem, vectors=1, steps=2).density(torch.zeros(1), 0.0)


def test_a_name_that_there_is_not_is_refused():
    problem = Problem(linear(), nn.CrossEntropyLoss(), (X, Y))
    for call in (
        lambda: trace(problem, "fisher"),
        lambda: trace(problem, method="Exact"),
        lambda: traces_by_parameter(problem, "H"),
        lambda: diagonal(problem, "H"),
        lambda: diagonal(problem, method="draws"),
        lambda: sharpness(problem, "Hessian"),
        lambda: eigenpairs(problem, which="top"),
    ):
        with pytest.raises(ValueError, match="choose one of"):
            call()


def test_operators_and_problems_are_not_mixed_up():
    problem = Problem(linear(), nn.CrossEntropyLoss(), (X, Y))
    assert frobenius_norm(problem).value == frobenius_norm(Hessian(problem)).value
    assert torch.equal(eigenpairs(problem).values, eigenpairs(Hessian(problem)).values)
    assert torch.equal(
        spectrum(problem, vectors=1, steps=3).nodes, spectrum(Hessian(problem), vectors=1, steps=3).nodes
    )
    assert hutchinson_trace(problem, budget=20).value == hutchinson_trace(Hessian(problem), budget=20).value
    for measured in (trace, sharpness, diagonal, traces_by_parameter):
        with pytest.raises(TypeError, match="takes the problem"):
            measured(Hessian(problem))


def test_examples_that_influence_each_other_are_refused():
    normalised = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    refused("model.eval", normalised, nn.CrossEntropyLoss(), (X, Y))
    untracked = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 2)).eval()
    refused("model.eval", untracked, nn.CrossEntropyLoss(), (X, Y))
    refused("dropout", nn.Sequential(nn.Linear(3, 2), nn.Dropout()), nn.CrossEntropyLoss(), (X, Y))

    class Centred(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x - x.mean(0))

    refused("depend on the others", Centred(3, 2), nn.CrossEntropyLoss(), (X, Y))
    assert normalised[1].num_batches_tracked == 0


def test_nan_loss_is_an_error():
    problem = Problem(linear(), nn.CrossEntropyLoss(), (X, Y))
    with torch.no_grad():
        problem.model.weight.fill_(torch.nan)
    with pytest.raises(ValueError, match="NaN"):
        problem.loss()


def test_weights_are_restored_to_the_bit_even_after_an_error():
    problem = Problem(linear(), nn.CrossEntropyLoss(), (X, Y))
    before = problem.vector()
    with pytest.raises(KeyError), problem.at(before / 3):
        raise KeyError
    assert torch.equal(problem.vector(), before)


class Square(torch.autograd.Function):
    """Right to any order."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, slope):
        return 2 * ctx.saved_tensors[0] * slope


class DetachedSquare(Square):
    """Its backward does not tell autograd how it depends on x."""

    @staticmethod
    def backward(ctx, slope):
        return 2 * ctx.saved_tensors[0].detach() * slope


class Threshold(torch.autograd.Function):
    """Is called as an operation of torch that is piecewise linear, and is not."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.tanh()

    @staticmethod
    def backward(ctx, slope):
        return slope * (1 - ctx.saved_tensors[0].tanh() ** 2)


def test_a_custom_function_is_not_taken_for_the_operation_of_its_name():
    class Bent(nn.Module):
        def forward(self, x):
            return Threshold.apply(x)

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), Bent(), nn.Linear(4, 2)).double()
    problem = Problem(model, nn.CrossEntropyLoss(), (X.double(), Y))
    assert not problem.structure.piecewise_linear
    found = trace(problem, relative_error=0.02)
    assert found.method == "exact trace, P products"
    assert found.value == pytest.approx(float(dense(Hessian(problem)).trace()), rel=1e-9)


def test_ggn_products_and_kinks_beside_custom_functions_without_forward_derivative():
    class Squares(nn.Module):
        def forward(self, x):
            return Square.apply(x)

    torch.manual_seed(0)
    convolutions = [nn.Conv1d(1, 1, 2) for _ in range(4)]
    model = nn.Sequential(*convolutions[:3], Squares(), convolutions[3], nn.ReLU(), nn.Flatten(), nn.Linear(2, 2))
    data = torch.randn(5, 1, 6).double(), torch.tensor([0, 1, 1, 0, 1])
    problem = Problem(model.double(), nn.CrossEntropyLoss(), data)
    expected = dense_matrices(problem.model, *data, problem.loss_function).ggn
    torch.testing.assert_close(dense(GGN(problem)), expected)
    with pytest.raises(ValueError, match="forward derivatives"):
        kink_term(problem, 0.1)


class OnceSquare(Square):
    """Marked, so that torch raises an error, but only where the slope carries a graph."""

    backward = staticmethod(once_differentiable(Square.backward))


class Squared(nn.Module):
    def __init__(self, function: type[Square]) -> None:
        super().__init__()
        self.layer, self.function = nn.Linear(3, 1), function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function.apply(self.layer(x))


def raw(outputs: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    """A loss linear in the outputs: its slope carries no graph."""
    return outputs.mean()


@DTYPES
@pytest.mark.parametrize("function", [DetachedSquare, OnceSquare])
def test_a_custom_function_that_is_not_differentiable_twice_is_refused(function, dtype):
    data = X.to(dtype), torch.zeros(6, 1, dtype=dtype)
    for loss in (raw, nn.MSELoss()):
        torch.manual_seed(0)
        problem = Problem(Squared(function).to(dtype), loss, data)
        for work in (lambda p: Hessian(p) @ p.vector(), sharpness, trace):
            with pytest.raises(ValueError, match=f"{function.__name__} cannot be differentiated twice") as found:
                work(problem)
            assert len(str(found.value)) < 250
        loss_row, curvature = measure(problem, ["gradient_norm", "sharpness"])
        assert loss_row.estimate is not None
        assert "differentiated twice" in curvature.problem


@DTYPES
def test_a_custom_function_with_right_derivatives_is_measured(dtype):
    torch.manual_seed(0)
    model = Squared(Square).to(dtype)
    problem = Problem(model, raw, (X.to(dtype), torch.zeros(6, 1, dtype=dtype)))
    extended = torch.cat([X, torch.ones(6, 1)], dim=1).to(dtype)
    vector = torch.arange(4.0, dtype=dtype)
    torch.testing.assert_close(Hessian(problem) @ vector, 2 * extended.T @ (extended @ vector) / 6)


@pytest.mark.parametrize("batches", [False, True])
def test_a_chunk_holds_no_more_examples_than_fit_and_gives_the_same_numbers(
    monkeypatch: pytest.MonkeyPatch, batches: bool
) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 500), nn.Tanh(), nn.Linear(500, 2)).double()
    inputs, targets = torch.randn(30, 3, dtype=torch.float64), torch.randint(2, (30,))
    data = [(inputs[:19], targets[:19]), (inputs[19:], targets[19:])] if batches else (inputs, targets)
    whole = Problem(model, nn.CrossEntropyLoss(), data)
    assert whole.chunks.lengths == ([19, 11] if batches else [30])
    monkeypatch.setattr(problem_module, "SAVED", 8 * 8 * (3 + 500))  # inputs and what tanh makes of them, eight times
    small = Problem(model, nn.CrossEntropyLoss(), data)
    assert small.chunks.lengths == ([8, 8, 3, 8, 3] if batches else [8, 8, 8, 6])
    assert [chunk.index for chunk in small.chunks] == list(range(len(small.chunks)))
    vector = torch.linspace(-1, 1, whole.size, dtype=torch.float64)
    torch.testing.assert_close(Hessian(small) @ vector, Hessian(whole) @ vector)
    assert small.restricted(["0.weight"]).chunks.lengths == small.chunks.lengths
    assert Problem(model, nn.CrossEntropyLoss(), data, chunk=30).chunks.lengths == whole.chunks.lengths
