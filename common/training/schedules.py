"""Learning rates over the course of training."""


def linear_decay(done: float, *, hold: float = 0.5, end: float = 0.9, floor: float = 0.01) -> float:
    """Factor of the first learning rate after a share `done` of training: 1, then a straight line down, then `floor`.

    The schedule of Practical PAC-Bayes (2021) and of the software that it used: 1 for the first half, 0.01 from nine
    tenths on.

    Args:
        done: share of training that is over, 0 to 1.
        hold: until when the factor is 1.
        end: from when it is `floor`.

    Raises:
        ValueError: `hold` and `end` are not in order between 0 and 1.
    """
    if not 0 <= hold < end <= 1:
        raise ValueError(f"the line runs from {hold} to {end}: these must be in order between 0 and 1.")
    fallen = min(max((done - hold) / (end - hold), 0.0), 1.0)
    return 1 - (1 - floor) * fallen


def constant(done: float) -> float:
    """Factor 1 throughout."""
    return 1.0


def constant_then_linear(share: float, decay_from: float) -> float:
    """Share of the initial learning rate when `share` of a training is done: 1, from `decay_from` on falling to 0.

    Example:
        >>> [constant_then_linear(share, 0.5) for share in (0, 0.5, 0.75, 1)]
        [1.0, 1.0, 0.5, 0.0]
        >>> constant_then_linear(0.9, 1)
        1.0
    """
    return constant(share) if decay_from == 1 else linear_decay(share, hold=decay_from, end=1, floor=0)
