"""What tests of this paper are made of."""

import torch

from replications.pacgen.shared.two_layer import Problem, Sizes


def small_problem() -> tuple[Problem, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    sizes = Sizes(5, 3, 4)
    images = torch.randn(2, 7, 5, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, 4, (2, 7), generator=generator)
    return Problem(sizes, images, targets), torch.randn(2, sizes.parameters, generator=generator, dtype=torch.float64)
