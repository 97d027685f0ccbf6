"""Rules that change the gradient that an optimiser of PyTorch is given: noise, sharpness awareness, penalties."""

from common.optim.gradients import GradientRule, PlainGradient
from common.optim.noise import GaussianNoise
from common.optim.noise_injection import NoiseStability, WeightPerturbation
from common.optim.perturbed import IsotropicOpt, Levels, PerturbationRule, PerturbedOpt
from common.optim.sharpness_aware import SharpnessAware
from common.optim.trace_penalty import TracePenalty

__all__ = [
    "GaussianNoise",
    "GradientRule",
    "IsotropicOpt",
    "Levels",
    "NoiseStability",
    "PerturbationRule",
    "PerturbedOpt",
    "PlainGradient",
    "SharpnessAware",
    "TracePenalty",
    "WeightPerturbation",
]
