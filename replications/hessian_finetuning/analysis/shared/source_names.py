"""Which data and which pretrained weights a system has, as figures name them."""

import pandas as pd
from matplotlib.figure import Figure

from common.figures import note

DATA = {
    "cifar10": "CIFAR-10",
    "movie_reviews": "movie reviews",
    "sst2": "SST-2",
    "mrpc": "MRPC",
    "mnist": "MNIST",
    "mutag": "MUTAG",
}
NETWORKS = {
    "mobilenet_v2": "MobileNetV2",
    "resnet34_imagenet": "ResNet-34",
    "minilm_l6": "MiniLM-L6",
    "bert_base_uncased": "BERT-base",
}
UNTRAINED = {"digits": "perceptron", "molecules": "graph network"}
"""Systems that start from random weights."""
ORDER = ("digits", "text", "molecules", "image")
WANTED = {"image": ("ResNet-34", None), "text": ("BERT-base", "MRPC"), "molecules": (None, "COLLAB")}
"""Network and data of the talk or of its authors' code, where a system has others below paper scale (D1)."""


def system_names(records: pd.DataFrame, separator: str = ", ") -> dict[str, str]:
    """Network and data of every system of records with `system`, `weights` and `dataset`, in the order of figures.

    Example:
        >>> import pandas as pd
        >>> system_names(pd.DataFrame([{"system": "text", "weights": "minilm_l6", "dataset": "sst2"}]))
        {'text': 'MiniLM-L6, SST-2'}
    """
    return {system: separator.join(names) for system, names in _sources(records).items()}


def substitutions(records: pd.DataFrame) -> str:
    """What stands for networks and data of the talk, such as "MiniLM-L6 instead of BERT-base (D1)"; may be empty."""
    told = []
    for system, used in _sources(records).items():
        for mine, wanted in zip(used, WANTED.get(system, (None, None)), strict=True):
            if wanted is not None and mine != wanted:
                told.append(f"{mine} instead of {wanted}")
    return f"{', '.join(told)} (D1)" if told else ""


def trained_parts(records: pd.DataFrame) -> str:
    """How many of the uppermost stages are trained in each pretrained system, such as "MobileNetV2: upper 2 stages"."""
    rows = records[records["weights"].isin(NETWORKS)].drop_duplicates(["weights", "trainable_stages"])
    pairs = zip(rows["weights"], rows["trainable_stages"], strict=True)
    told = [f"{NETWORKS[weights]}: upper {stages} stages" for weights, stages in pairs]
    return f"trained besides the head: {', '.join(told)} (D3)" if told else ""


def say_setting(figure: Figure, records: pd.DataFrame) -> None:
    """Note under the figure what stands for the talk's networks and data, what is trained, and by how many seeds."""
    seeds = records["seed"].nunique()
    shown = f"{seeds} seeds" if seeds > 1 else "one seed"
    note(figure, "; ".join(filter(None, [substitutions(records), trained_parts(records), shown])), "deviation")


def _sources(records: pd.DataFrame) -> dict[str, tuple[str, str]]:
    """Network and data by system."""
    rows = records.drop_duplicates("system")
    weights, data = (dict(zip(rows["system"], rows[name], strict=True)) for name in ("weights", "dataset"))
    return {
        system: (UNTRAINED.get(system) or NETWORKS[weights[system]], DATA.get(data[system], str(data[system])))
        for system in ORDER
        if system in data
    }
