"""The upper layers of a pretrained network, rebuilt from what `frozen_features` kept of it."""

from collections.abc import Mapping

from torch import Tensor, nn

from .backbones import BACKBONES


def upper_layers(kept: Mapping[str, Tensor]) -> nn.Sequential:
    """The stages above the cut with their weights, in evaluation mode (normalisation by the pretrained statistics).

    Args:
        kept: `<backbone>.<stage>.<name>`; empty where nothing is pretrained, which gives an empty chain.
    """
    if not kept:
        return nn.Sequential()
    backbone = next(iter(kept)).partition(".")[0]
    weights = {name.removeprefix(f"{backbone}."): tensor for name, tensor in kept.items()}
    cut = min(int(name.partition(".")[0]) for name in weights)
    upper = nn.Sequential(*list(BACKBONES[backbone].build())[cut:])
    for stage, module in enumerate(upper, start=cut):
        own = f"{stage}."
        module.load_state_dict({k.removeprefix(own): tensor for k, tensor in weights.items() if k.startswith(own)})
    return upper.eval()
