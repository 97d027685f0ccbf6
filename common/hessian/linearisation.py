"""What is computed of the network at the examples of one chunk, each example on its own: Jₙᵀ vₙ."""

from collections.abc import Sequence

import torch


class Linearisation:
    """The network at the examples of one chunk. `outputs` [n, …] carry no graph."""

    outputs: torch.Tensor

    def norms(self, cotangent: torch.Tensor) -> list[torch.Tensor]:
        """‖Jₙᵀ vₙ‖² split by parameter: [n] for each of `problem.parameters`. `cotangent` [n, …] holds the vₙ."""
        raise NotImplementedError

    def factor_norms(self, factor: torch.Tensor, sign: torch.Tensor) -> list[float]:
        """Σ_n Tr Jₙᵀ Λₙ Jₙ by parameter, for Λₙ = S diag(sign) Sᵀ: `factor` S [n, D, R], `sign` [n, R]."""
        totals = [0.0] * len(self.squares_shapes())
        for column in range(factor.shape[2]):
            for place, norms in enumerate(self.norms(factor[:, :, column])):
                totals[place] += float((norms * sign[:, column]).double().sum())
        return totals

    def squares(self, cotangent: torch.Tensor) -> list[torch.Tensor]:
        """Σ_n (Jₙᵀ vₙ)², in the shapes of `problem.parameters`."""
        raise NotImplementedError

    def gradients(self, cotangent: torch.Tensor) -> torch.Tensor:
        """Jₙᵀ vₙ as rows [n, P]."""
        raise NotImplementedError

    def factor_squares(self, factor: torch.Tensor, sign: torch.Tensor) -> list[torch.Tensor]:
        """diag Σ_n Jₙᵀ Λₙ Jₙ for Λₙ = S diag(sign) Sᵀ: `factor` S [n, D, R], `sign` [n, R]."""
        total = [torch.zeros_like(parameter) for parameter in self.squares_shapes()]
        for column in range(factor.shape[2]):
            for part in sign[:, column].unique().tolist():
                mask = (sign[:, column] == part).to(factor)[:, None]
                for tensor, squares in zip(total, self.squares(factor[:, :, column] * mask), strict=True):
                    tensor.add_(squares, alpha=part)
        return total

    def squares_shapes(self) -> Sequence[torch.Tensor]:
        """Tensors in the shapes of the parameters."""
        raise NotImplementedError

    def norms_and_squares(self, cotangent: torch.Tensor, total: list[torch.Tensor]) -> torch.Tensor:
        """‖Jₙᵀ vₙ‖² [n]; the squares are added to `total`."""
        for tensor, squares in zip(total, self.squares(cotangent), strict=True):
            tensor += squares
        return torch.stack(self.norms(cotangent)).sum(0)
