"""Training: several seeds at once, data order."""

from common.training.convolutional import ConvolutionalEnsemble
from common.training.descent import DIVERGED, STOPPED, TRAINING, Batches, Descent
from common.training.ensembles import Ensemble, Evaluation
from common.training.fully_connected import FullyConnectedEnsemble, one_hot
from common.training.images import ImageBatches, Standardise
from common.training.modules import ModuleEnsemble
from common.training.momentum import HeavyBall, SquaredGradientAverage
from common.training.residual import Recipe, ResidualTraining
from common.training.schedules import linear_decay

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
    "ImageBatches",
    "ModuleEnsemble",
    "Recipe",
    "ResidualTraining",
    "SquaredGradientAverage",
    "Standardise",
    "linear_decay",
    "one_hot",
]
