"""Training: several seeds at once, data order."""

from common.training.convolutional import ConvolutionalEnsemble
from common.training.descent import DIVERGED, STOPPED, TRAINING, Batches, Descent
from common.training.ensembles import Ensemble, Evaluation
from common.training.fully_connected import FullyConnectedEnsemble, one_hot
from common.training.images import Standardise
from common.training.modules import ModuleEnsemble
from common.training.momentum import HeavyBall, SquaredGradientAverage

__all__ = [
    "DIVERGED",
    "STOPPED",
    "TRAINING",
    "Batches",
    "ConvolutionalEnsemble",
    "Descent",
    "Ensemble",
    "Evaluation",
    "FullyConnectedEnsemble",
    "HeavyBall",
    "ModuleEnsemble",
    "SquaredGradientAverage",
    "Standardise",
    "one_hot",
]
