"""Methods of fine-tuning, one class each, the same for images and text."""

from .distance_regularisation import DistanceRegularisation
from .early_stopping import EarlyStopping
from .label_smoothing import LabelSmoothing
from .method import Batch, Method, Weights
from .mixup import Mixup
from .noise_injection import Nso, WpSgd
from .sgd import Sgd
from .sharpness_aware import SharpnessAwareMinimisation
from .weight_decay import WeightDecay

METHODS: dict[str, type[Method]] = {
    "sgd": Sgd,
    "early_stopping": EarlyStopping,
    "weight_decay": WeightDecay,
    "label_smoothing": LabelSmoothing,
    "mixup": Mixup,
    "distance": DistanceRegularisation,
    "sam": SharpnessAwareMinimisation,
    "wp_sgd": WpSgd,
    "nso": Nso,
}

__all__ = [
    "METHODS",
    "Batch",
    "DistanceRegularisation",
    "EarlyStopping",
    "LabelSmoothing",
    "Method",
    "Mixup",
    "Nso",
    "Sgd",
    "SharpnessAwareMinimisation",
    "WeightDecay",
    "Weights",
    "WpSgd",
]
