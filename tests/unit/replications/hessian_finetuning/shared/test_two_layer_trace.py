"""The closed form against the dense Hessian; ascent stays in its ball and finds a larger difference."""

import math

import pytest
from torch import nn

from common.hessian import Hessian, Problem, dense
from replications.hessian_finetuning.shared.fine_tuning import Member
from replications.hessian_finetuning.shared.two_layer_trace import two_layer_trace
from replications.hessian_finetuning.uniform_convergence import ascend, weights_of
from tests.unit.replications.hessian_finetuning.tiny import network


def member() -> Member:
    system, start = network(2, kind="relu"), weights_of(network(5, kind="relu").model)
    return Member(system.model, start, system.train.examples(), system.test.examples())


def test_the_closed_form_is_the_trace_of_the_dense_hessian() -> None:
    own = member()
    hessian = dense(Hessian(Problem(own.model, nn.CrossEntropyLoss(), own.train)))
    found = two_layer_trace(weights_of(own.model), own.train[0])
    assert float(found) == pytest.approx(float(hessian.trace()), rel=1e-9)


def test_ascent_enlarges_the_difference_within_the_ball() -> None:
    own = member()
    inputs, fresh = own.train[0][:6], own.test[0]

    def difference() -> float:
        weights = weights_of(own.model)
        return float(two_layer_trace(weights, fresh) - two_layer_trace(weights, inputs))

    def distance() -> float:
        return math.hypot(*(float((p.detach() - own.start[name]).norm()) for name, p in own.model.named_parameters()))

    before, radius = difference(), distance()
    ascend(own, inputs, fresh, 40)
    assert difference() > before + 0.5
    assert distance() <= radius * (1 + 1e-9)
