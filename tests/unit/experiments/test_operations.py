"""Operations, held against what a hand counts."""

import pytest
import torch

from common.experiments.operations import CountedOperations

CPU = torch.device("cpu")


def test_a_step_of_a_linear_layer_takes_three_products_or_two_without_the_gradient_of_its_input() -> None:
    images, weight = torch.ones(7, 5), torch.ones(5, 3, requires_grad=True)
    for needed, products in ((True, 3), (False, 2)):
        given = images.clone().requires_grad_(needed)
        with CountedOperations(CPU) as counted:
            (given @ weight).sum().backward()
        assert counted.amounts["products"] == products * 2 * 7 * 5 * 3


def test_a_product_of_the_hessian_counts_what_its_double_backward_multiplies() -> None:
    weight, data, direction = torch.ones(5, requires_grad=True), torch.ones(7, 5), torch.ones(5)
    with CountedOperations(CPU) as counted:
        loss = (data @ weight[:, None]).square().sum()
        (gradient,) = torch.autograd.grad(loss, weight, create_graph=True)
        torch.autograd.grad(gradient @ direction, weight)
    # forward, Xᵀ r, and of the second backward X v and Xᵀ (X v): four products of 7 × 5 with a vector
    assert counted.amounts["products"] == 4 * 2 * 7 * 5


def test_a_convolution_and_its_gradients_count_every_multiplication_with_every_weight() -> None:
    images, kernel = torch.ones(2, 3, 8, 8, requires_grad=True), torch.ones(4, 3, 3, 3, requires_grad=True)
    with CountedOperations(CPU) as counted:
        torch.nn.functional.conv2d(images, kernel, padding=1).sum().backward()
    assert counted.amounts["convolutions"] == 3 * 2 * (2 * 4 * 8 * 8) * (3 * 3 * 3)


def test_the_groups_of_a_convolution_are_convolutions_of_their_own() -> None:
    counts = {}
    for members in (1, 5):
        images = torch.ones(2, 3 * members, 8, 8, requires_grad=True)
        kernel = torch.ones(4 * members, 3, 3, 3, requires_grad=True)
        with CountedOperations(CPU) as counted:
            torch.nn.functional.conv2d(images, kernel, groups=members).sum().backward()
        counts[members] = counted.amounts["convolutions"]
    assert counts[5] == 5 * counts[1] == 5 * 3 * 2 * (2 * 4 * 6 * 6) * (3 * 3 * 3)


def test_inference_mode_counts_the_same_operations() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(144, 10))
    counts = []
    for mode in (torch.no_grad, torch.inference_mode):
        with mode(), CountedOperations(CPU) as counted:
            model(torch.ones(5, 3, 8, 8))
        counts.append((counted.amounts, counted.peak))
    assert counts[0] == counts[1]
    assert counts[0][0]["products"] == 5 * 2 * 144 * 10


def test_what_torch_has_another_formula_for_is_a_batched_product() -> None:
    with CountedOperations(CPU) as counted:
        torch.baddbmm(torch.ones(2, 7, 5), torch.ones(2, 7, 3), torch.ones(2, 3, 5))
    assert counted.amounts["batched_products"] == 2 * (2 * 7 * 3 * 5)


def test_an_ensemble_is_one_batched_product_and_float64_is_told_apart() -> None:
    members, inputs = torch.ones(6, 5, 3), torch.ones(6, 7, 5)
    with CountedOperations(CPU) as counted:
        torch.func.vmap(torch.mm)(inputs, members)
        inputs.double() @ members.double()
    assert counted.amounts["batched_products"] == counted.amounts["batched_products_double"] == 6 * 2 * 7 * 5 * 3
    assert "products" not in counted.amounts


def test_bytes_are_those_read_and_written_and_a_view_moves_none() -> None:
    a, b, table = torch.ones(10, 10), torch.ones(10, 10), torch.ones(1000, 10)
    for piece, moved in (
        (lambda: a + b, 3 * 400),
        (lambda: a.add_(b), 3 * 400),
        (lambda: a.sum(), 404),
        (lambda: a + b[:1, :1].expand(10, 10), 2 * 400 + 400),
        (lambda: a + torch.ones(1).expand(10, 10), 2 * 400 + 8),
        (lambda: a.T[2:], 0),
        (lambda: table[torch.tensor([1, 2])], 2 * 80),
    ):
        with CountedOperations(CPU) as counted:
            piece()
        assert counted.amounts["bytes"] == moved


def test_what_holds_memory_is_known_beside_it() -> None:
    with CountedOperations(CPU) as counted:
        total = (torch.ones(1000) + 1).sum()
    assert (total.item(), counted.peak) == (2000.0, 8000)


@pytest.mark.filterwarnings("ignore:Sparse CS:UserWarning")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
def test_a_product_with_a_sparse_matrix_reads_what_is_stored_of_it(layout: torch.layout) -> None:
    matrix = torch.eye(100).to_sparse(layout=layout)
    stored = 100 * 4 + (2 * 100 if layout == torch.sparse_coo else 100 + 101) * 8
    with CountedOperations(CPU) as counted:
        matrix @ torch.ones(100, 3)
    assert counted.amounts["products"] == counted.amounts["batched_products"] == 0
    assert counted.amounts["bytes"] >= stored + 2 * 1200
    assert counted.peak >= stored + 2 * 1200
