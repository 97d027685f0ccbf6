"""An encoder that reads the mean over its tokens where `common.models.bert` reads the first position."""

from torch import Tensor, nn

from common.models.bert import Attention, BertSize, bert


class MeanAttention(Attention):
    """Attention from every position, then the mean over those where a token stands.

    Shapes:
        input [n, length, width + 1], the mask (1 or 0) as last channel; output [n, width].
    """

    def forward(self, states: Tensor) -> Tensor:  # type: ignore[override]
        hidden, mask = states[..., :-1], states[..., -1]
        attended = super().forward(hidden, hidden, mask)
        mean: Tensor = (attended * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return mean


def mean_bert(size: BertSize) -> nn.Sequential:
    """`bert(size)`, parameters named alike, whose last feed-forward part and pooler are given the mean over tokens."""
    network = bert(size)
    network[size.layers] = MeanAttention(size)
    return network
