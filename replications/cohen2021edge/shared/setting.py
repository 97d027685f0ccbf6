"""What the experiments on networks have in common: data, network, rule, and where its edge of stability lies."""

from typing import Literal

from common.experiments import DatasetName, ExperimentParameters, Field

PAPER = "Cohen et al. 2021"
AUTHORS = "the authors' published code"
Rule = Literal["gradient_descent", "heavy_ball", "nesterov"]


def stability_factor(rule: Rule, momentum: float) -> float:
    """The largest curvature of a quadratic at which `rule` is stable, times the learning rate η.

    2 for gradient descent, 2(1 + β) for Polyak's heavy ball, 2(1 + β)/(1 + 2β) for Nesterov's momentum β
    (Cohen et al. 2021, Section 2, maximum stable sharpness).
    """
    if rule == "gradient_descent":
        return 2.0
    return 2 * (1 + momentum) / (1 + 2 * momentum if rule == "nesterov" else 1)


class Setting(ExperimentParameters):
    """Settings of a run of full-batch training."""

    dataset: DatasetName = Field("cifar10", description="images", source=f"{PAPER}, Fig. 1")
    classes: int = Field(10, ge=2, description="of the data set", source=f"{PAPER}, Fig. 1")
    training_images: int = Field(5000, ge=2, unit="images", description="the first of the training set", source=AUTHORS)
    width: int = Field(200, ge=1, unit="units", description="of each of the two hidden layers, tanh", source=AUTHORS)
    objective: Literal["mse", "cross_entropy"] = Field(
        "mse", description="mean over images (and outputs, D2) of the squared error, or cross-entropy", source=PAPER
    )
    rule: Rule = Field("gradient_descent", description="what takes the steps", source=f"{PAPER}, Section 2")
    momentum: float = Field(0.0, ge=0, lt=1, description="β; 0 for gradient descent", source="our choice (D3)")
    edge: float = Field(
        25.0, gt=0, unit="1/η", description="where λ₁ is largest at stability; fixes η", source="our choice (D3)"
    )
    steps: int = Field(1000, ge=1, unit="steps", description="of training", source="our choice (D1)")
    measure_every: int = Field(20, ge=1, unit="steps", description="between measurements of λ₁", source="our choice")
    relative_error: float = Field(0.01, gt=0, description="of λ₁, by warm-started Lanczos", source="our choice")
    products: int = Field(100, ge=1, description="Hessian products for one λ₁ at most", source="our choice")

    @property
    def learning_rate(self) -> float:
        """η, at which the rule is stable up to the curvature `edge`."""
        return stability_factor(self.rule, self.momentum) / self.edge
