"""The layer-wise Hessian measure of Fig. 2 and the measures that it is compared with, of one fine-tuned network."""

import math
from collections.abc import Callable

import torch
from torch import nn

from common.bounds.hessian_trace import norm_product
from common.hessian import Problem

from .fine_tuning import FineTuning, Member
from .layer_forms import layer_forms, matrix_layers
from .methods import Weights


def layer_measures(member: Member, examples: int = 0) -> dict[str, float]:
    """The measure in its readings, its parts and the other measures.

    With vᵢ = Wᵢ − Wᵢ⁽⁰⁾ and C the largest loss of a training example, n the number of training examples:

        measure            Σᵢ √(C · maxₙ vᵢᵀ ∇ᵢ²ℓₙ vᵢ) / √n, C and maxima over training examples
        mean_measure       the same with the mean over training examples in place of the maximum
        test_measure       the same as `measure` with C and maxima over the first n test examples
        curvature          Σᵢ √(maxₙ vᵢᵀ ∇ᵢ²ℓₙ vᵢ) / √n: the measure without C
        test_curvature     the same over the test examples
        root_largest_loss  √C
        norm_product       √(Πᵢ sᵢ² · Σᵢ rᵢ² / n), sᵢ = ‖Wᵢ‖₂, rᵢ = ‖Wᵢ‖_F/‖Wᵢ‖₂ (Bartlett et al. 2017)
        weight_norm        ‖W‖ over weight matrices
        distance           ‖W − W⁽⁰⁾‖ over weight matrices

    Forms below 0, which a mean can have, count as 0.

    Args:
        examples: maxima and means are over the first so many training examples, and test examples (0: over as many as
            there are training examples).
    """
    model, train, test = member.model, member.train, member.test
    layers = matrix_layers(model)
    matrices = {name: layer.weight.detach() for name, layer in layers.items()}
    moves = {name: matrix - member.start[name] for name, matrix in matrices.items()}
    n = len(train[1])
    few = min(examples or n, n)
    inputs, labels = torch.cat([train[0][:few], test[0][:few]]), torch.cat([train[1][:few], test[1][:few]])
    both = Problem(model, nn.CrossEntropyLoss(), (inputs, labels))  # examples do not influence each other
    of_both, losses = layer_forms(both, moves), _losses(both)
    forms, test_forms = (
        {name: values[part] for name, values in of_both.items()} for part in (slice(few), slice(few, None))
    )
    largest, test_largest = float(losses[:few].max()), float(losses[few:].max())
    curvature, test_curvature = (_summed(part, torch.amax, n) for part in (forms, test_forms))
    return {
        "measure": math.sqrt(largest) * curvature,
        "mean_measure": math.sqrt(largest) * _summed(forms, torch.mean, n),
        "test_measure": math.sqrt(test_largest) * test_curvature,
        "curvature": curvature,
        "test_curvature": test_curvature,
        "root_largest_loss": math.sqrt(largest),
        "norm_product": _norm_product(list(matrices.values()), n),
        "weight_norm": _length(list(matrices.values())),
        "distance": _length(list(moves.values())),
    }


def measuring_work(tuning: FineTuning, examples: int = 0) -> int:
    """Gradients of an example that `layer_measures` takes of a member: about one a layer of each of its examples."""
    count = len(tuning.splits["train"][0])
    return 2 * min(examples or count, count) * len(matrix_layers(tuning.model))


@torch.no_grad()
def _losses(problem: Problem) -> torch.Tensor:
    """Cross-entropy of each example [N], in nats."""
    return torch.cat(
        [
            nn.functional.cross_entropy(problem.outputs(chunk.inputs), chunk.targets, reduction="none")
            for chunk in problem.chunks
        ]
    )


def _norm_product(matrices: list[torch.Tensor], examples: int) -> float:
    """Kernels of convolutions count as matrices [out, the rest]."""
    flat = [matrix.flatten(1) for matrix in matrices]
    spectral = torch.stack([_spectral_norm(matrix) for matrix in flat]).double()
    return float(norm_product(spectral, torch.stack([matrix.norm() for matrix in flat]).double(), examples=examples))


def _spectral_norm(matrix: torch.Tensor) -> torch.Tensor:
    """‖W‖₂ from the smaller of W Wᵀ and Wᵀ W, a tenth of the cost of singular values."""
    gram = matrix @ matrix.T if len(matrix) <= matrix.shape[1] else matrix.T @ matrix
    largest: torch.Tensor = torch.linalg.eigvalsh(gram)[-1]
    return largest.sqrt()


def _summed(forms: Weights, over: Callable[[torch.Tensor], torch.Tensor], examples: int) -> float:
    return sum(math.sqrt(max(float(over(values)), 0.0)) for values in forms.values()) / math.sqrt(examples)


def _length(tensors: list[torch.Tensor]) -> float:
    return math.hypot(*(float(tensor.norm()) for tensor in tensors))
