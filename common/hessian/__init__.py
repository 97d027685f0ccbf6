"""The Hessian of a loss and what approximates it: modules are named for what they compute. Needs torch only."""

from common.hessian.deflation import deflated_trace
from common.hessian.dense import dense_hessian
from common.hessian.diagonal import DiagonalEstimate, diagonal, estimate_ggn_diagonal, ggn_diagonal
from common.hessian.distributed import Distributed, Divided
from common.hessian.estimates import Accuracy, Estimate
from common.hessian.functional_hessian import FunctionalHessian, control_variate_trace
from common.hessian.ggn import GGN, EmpiricalFisher, MonteCarloFisher, NoiseCovariance
from common.hessian.gradient_noise import noise_along_curvature, noise_norm, noise_trace, per_sample_gradient_norms
from common.hessian.kinks import kink_term
from common.hessian.lanczos import Eigenpairs, Sharpness, eigenpairs, sharpness
from common.hessian.measure import MEASURES, Measured, measure
from common.hessian.noise_stability import NoiseStability, noise_stability
from common.hessian.ntk import Alignment, EmpiricalNTK, alignment, empirical_ntk, ggn_frobenius_norm, ggn_spectrum
from common.hessian.perturbation import hessian_lipschitz, squared_norm_from_perturbations, trace_from_perturbations
from common.hessian.problem import Problem
from common.hessian.products import Hessian, LinearOperator, dense, quadratic_forms_by_parameter
from common.hessian.ranks import OtherRankFailed, RanksApart
from common.hessian.rescaled import Rescaled, adaptive_sharpness
from common.hessian.scipy_operator import scipy_operator
from common.hessian.slices import filter_normalised, loss_slice
from common.hessian.spectrum import Spectrum, frobenius_norm, spectrum, squared_frobenius_norm
from common.hessian.stability import SampleHessians, non_uniformity, stability_factor
from common.hessian.streaming import Streamed
from common.hessian.structure import Structure
from common.hessian.traces import hutchinson_trace, trace, traces_by_parameter
from common.hessian.verification import Verified, WrongDerivativeError
from common.hessian.worst_case import WorstCase, epsilon_sharpness, sharpness_from_perturbations

__all__ = [
    "GGN",
    "MEASURES",
    "Accuracy",
    "Alignment",
    "DiagonalEstimate",
    "Distributed",
    "Divided",
    "Eigenpairs",
    "EmpiricalFisher",
    "EmpiricalNTK",
    "Estimate",
    "FunctionalHessian",
    "Hessian",
    "LinearOperator",
    "Measured",
    "MonteCarloFisher",
    "NoiseCovariance",
    "NoiseStability",
    "OtherRankFailed",
    "Problem",
    "RanksApart",
    "Rescaled",
    "SampleHessians",
    "Sharpness",
    "Spectrum",
    "Streamed",
    "Structure",
    "Verified",
    "WorstCase",
    "WrongDerivativeError",
    "adaptive_sharpness",
    "alignment",
    "control_variate_trace",
    "deflated_trace",
    "dense",
    "dense_hessian",
    "diagonal",
    "eigenpairs",
    "empirical_ntk",
    "epsilon_sharpness",
    "estimate_ggn_diagonal",
    "filter_normalised",
    "frobenius_norm",
    "ggn_diagonal",
    "ggn_frobenius_norm",
    "ggn_spectrum",
    "hessian_lipschitz",
    "hutchinson_trace",
    "kink_term",
    "loss_slice",
    "measure",
    "noise_along_curvature",
    "noise_norm",
    "noise_stability",
    "noise_trace",
    "non_uniformity",
    "per_sample_gradient_norms",
    "quadratic_forms_by_parameter",
    "scipy_operator",
    "sharpness",
    "sharpness_from_perturbations",
    "spectrum",
    "squared_frobenius_norm",
    "squared_norm_from_perturbations",
    "stability_factor",
    "trace",
    "trace_from_perturbations",
    "traces_by_parameter",
]
