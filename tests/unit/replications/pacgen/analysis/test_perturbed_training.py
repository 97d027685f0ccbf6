"""What a regulariser does, told from a training that collapses."""

import pandas as pd

from replications.pacgen.analysis.perturbed_training import metrics


def test_a_collapse_is_no_regularisation() -> None:
    accuracies = {"none": (60.0, 70.0, 40.0), "collapsed": (10.0, 10.0, 10.0), "regularised": (55.0, 69.0, 43.0)}
    rows = [
        {"run": f"{arm} {seed}", "arm": arm, "data": "cifar10", "seed": seed, "epoch": epoch}
        | {"training_accuracy": training + seed, "step_accuracy": step + seed, "test_accuracy": test + seed}
        for arm, (training, step, test) in accuracies.items()
        for seed in (0, 1)
        for epoch in (1, 2)
    ]
    table = metrics(pd.DataFrame(rows))
    names = ["regularised_accuracy", "regularised_step_accuracy"]
    assert table.loc[["collapsed 0", "collapsed 1"], names].to_numpy().tolist() == [[-30.0, -30.0]] * 2
    assert table.loc[["regularised 0", "regularised 1"], names].to_numpy().tolist() == [[3.0, 1.0]] * 2
