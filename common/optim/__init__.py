"""Rules that change the gradient that an optimiser of PyTorch is given: noise, sharpness awareness, penalties."""

from common.optim.gradients import GradientRule, PlainGradient
from common.optim.noise import GaussianNoise
from common.optim.noise_injection import EqualGradientNoise, NoiseStability, WeightPerturbation
from common.optim.perturbed import IsotropicOpt, PerturbationRule, PerturbedOpt
from common.optim.sharpness_aware import SharpnessAware
from common.optim.trace_penalty import TracePenalty

__all__ = [
    "EqualGradientNoise",
    "GaussianNoise",
    "GradientRule",
    "IsotropicOpt",
    "NoiseStability",
    "PerturbationRule",
    "PerturbedOpt",
    "PlainGradient",
    "SharpnessAware",
    "TracePenalty",
    "WeightPerturbation",
]
