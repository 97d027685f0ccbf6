"""Section 6: Ψ, the bound (13), Tr H and λ₁ of one function, a two-layer ReLU network written as (α w¹, w²/α)."""

from collections.abc import Sequence

import torch

from common.bounds.pacgen import neighbourhood, pacgen, rho_by_norm
from common.bounds.perturbation import uniform_bound, uniform_levels
from common.experiments import Field, RunContext

from .shared.network_data import load_problem, load_weights
from .shared.two_layer import Problem, Sizes
from .shared.two_layer_curvature import Curvature
from .two_layer_network import Parameters as NetworkParameters

SECTION = "Wang et al. 2018, section 6"
FIGURES_3_TO_6 = "Wang et al. 2018, Figs. 3-6; not stated for section 6"


class Parameters(NetworkParameters):
    """Settings: those of the trained network, α, and the constants of Ψ and the bound."""

    alpha: float = Field(1.0, gt=0, description="α of (α w¹, w²/α)", source=SECTION)
    gamma: float = Field(0.1, gt=0, description="γ of κ = γ|w| + ε", source=FIGURES_3_TO_6)
    epsilon: float = Field(0.1, gt=0, description="ε of κ = γ|w| + ε", source=FIGURES_3_TO_6)
    delta: float = Field(0.05, gt=0, lt=1, description="probability with which the bound may fail", source="our choice")
    prior_range: float = Field(
        64.0, gt=0, description="τ of a prior fixed beforehand, wide enough for all α", source="our choice, D12"
    )
    curvature_images: int = Field(1_000, ge=10, unit="images", description="behind H and ρ", source="our choice")
    rho_draws: int = Field(3, ge=1, description="perturbations u drawn for ρ; the median counts", source="D6")


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Measure all seeds of one α, at trained and, for comparison, at initial weights."""
    setting = runs[0]
    training, _ = load_problem(runs, context)
    sizes, curvature = training.sizes, Curvature(training.first_images(setting.curvature_images))
    initial, trained = load_weights(runs, context)
    sources = [context.generator(run, "probes") for run in runs]
    vectors, *units = torch.stack(
        [torch.rand(setting.rho_draws + 1, trained.shape[1], generator=generator).double() for generator in sources], 1
    ).to(context.device)
    weights = sizes.rescale(trained, setting.alpha)
    values = _scores(curvature, training, weights, units, setting)
    starts = [int(torch.randint(2**62, (), generator=generator)) for generator in sources]
    found = curvature.sharpness(weights, starts)
    values["sharpness"] = torch.tensor([estimate.value for estimate in found], dtype=torch.float64)
    values["sharpness_error"] = torch.tensor([e.bound / e.value for e in found], dtype=torch.float64)
    for name, start in (("", trained), ("_untrained", initial)):
        values[f"equation_23_error{name}"] = equation_23_error(curvature, sizes, start, 2 * vectors - 1, setting.alpha)
    constants = {"gamma": setting.gamma, "epsilon": setting.epsilon}
    untrained = _diagonal_and_rho(curvature, initial, units, setting)
    values["psi_untrained"] = pacgen(initial, untrained[0].clamp(min=0), untrained[1], **constants).value
    bare = sizes.rescale(initial, setting.alpha)
    diagonal = curvature.diagonal(bare)
    values["psi_bare_untrained"] = pacgen(bare, diagonal, gamma=setting.gamma, epsilon=0.0).value
    for member, run in enumerate(runs):
        context.record(run, **{name: float(value[member]) for name, value in values.items()})


def _diagonal_and_rho(
    curvature: Curvature, weights: torch.Tensor, units: Sequence[torch.Tensor], setting: Parameters
) -> tuple[torch.Tensor, torch.Tensor]:
    """diag H [k, m] and ρ [k] from norms, over perturbations uniform in the neighbourhood (units in [0, 1)).

    The toolkit's `hessian_lipschitz` is the quotient of Definition 3 for the whole matrix, in the spectral norm; the
    bound and Ψ weigh diagonals, so that ρ here is the quotient for those.
    """
    diagonal = curvature.diagonal(weights)
    kappa = neighbourhood(weights, gamma=setting.gamma, epsilon=setting.epsilon)
    found = []
    for unit in units:
        shift = (2 * unit - 1) * kappa
        found.append(rho_by_norm(diagonal, curvature.diagonal(weights + shift), shift))
    return diagonal, torch.stack(found).median(0).values


def _scores(
    curvature: Curvature,
    training: Problem,
    weights: torch.Tensor,
    units: Sequence[torch.Tensor],
    setting: Parameters,
) -> dict[str, torch.Tensor]:
    """The training loss, Ψ in its readings and the bound (13) with either prior; η = √(mn), as in (15)."""
    loss, examples = training.mean_loss(weights), training.targets.shape[1]
    diagonal, rho = _diagonal_and_rho(curvature, weights, units, setting)
    kappa = neighbourhood(weights, gamma=setting.gamma, epsilon=setting.epsilon)
    constants = {"gamma": setting.gamma, "epsilon": setting.epsilon}
    score, without_rho = pacgen(weights, diagonal, rho, **constants), pacgen(weights, diagonal, **constants)
    bare = pacgen(weights, diagonal, gamma=setting.gamma, epsilon=0.0)
    eta = (weights.shape[1] * examples) ** 0.5
    sigma = uniform_levels(diagonal, rho, kappa, eta=eta)
    scale = weights.abs() + kappa
    settings = {"eta": eta, "examples": examples, "delta": setting.delta}
    fixed = torch.full_like(scale, setting.prior_range)
    return {
        "training_loss": loss,
        "trace": diagonal.sum(1),
        "rho": rho,
        "psi": score.value,
        "share": score.curvature_share,
        "psi_no_rho": without_rho.value,
        "share_no_rho": without_rho.curvature_share,
        "psi_floor": score.floor,
        "psi_bare": bare.value,
        "share_bare": bare.curvature_share,
        "bound": uniform_bound(loss, scale, sigma, **settings),
        "bound_fixed_prior": uniform_bound(loss, fixed, sigma, **settings),
        "prior_holds": (scale <= setting.prior_range).all(1),
        "parameters": torch.full_like(loss, weights.shape[1]),
        "eta": torch.full_like(loss, eta),
    }


def equation_23_error(
    curvature: Curvature, sizes: Sizes, weights: torch.Tensor, vectors: torch.Tensor, alpha: float
) -> torch.Tensor:
    """‖H(αw¹, w²/α) v − D H(w¹, w²) D v‖/‖D H D v‖ with D = diag(1/α, α), eq. (23), for one v a task: [k]."""
    inverse = sizes.rescale(torch.ones_like(weights), 1 / alpha)
    expected = inverse * curvature.product(weights, inverse * vectors)
    found = curvature.product(sizes.rescale(weights, alpha), vectors)
    error: torch.Tensor = (found - expected).norm(dim=1) / expected.norm(dim=1)
    return error
