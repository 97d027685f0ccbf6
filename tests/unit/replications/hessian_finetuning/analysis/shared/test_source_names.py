"""Names on figures are those of the records."""

import pandas as pd

from replications.hessian_finetuning.analysis.shared.source_names import substitutions, system_names, trained_parts


def test_names_on_figures_are_those_of_the_records() -> None:
    rows = [
        {"system": "image", "weights": "resnet34_imagenet", "dataset": "cifar10", "trainable_stages": 18},
        {"system": "text", "weights": "minilm_l6", "dataset": "sst2", "trainable_stages": 2},
        {"system": "digits", "weights": "mnist", "dataset": "mnist", "trainable_stages": 2},
    ]
    records = pd.DataFrame(rows)
    assert system_names(records) == {
        "digits": "perceptron, MNIST",
        "text": "MiniLM-L6, SST-2",
        "image": "ResNet-34, CIFAR-10",
    }
    assert substitutions(records) == "MiniLM-L6 instead of BERT-base, SST-2 instead of MRPC (D1)"
    assert substitutions(records[records["system"] != "text"]) == ""
    assert trained_parts(records) == (
        "trained besides the head: ResNet-34: upper 18 stages, MiniLM-L6: upper 2 stages (D3)"
    )
