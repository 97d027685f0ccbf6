"""Pretrained networks that libraries build: torchvision's classifiers by name, `transformers` encoders from files."""

import importlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from common.datasets.homes import make_importable
from common.datasets.text_collections import text_of
from common.errors import UserError, suggestion

from .backbones import BACKBONES, Backbone, Files, images

TRANSFORMERS = "transformers"
"""The name of whatever network a folder's config.json describes."""


def named_backbone(network: str, files: Files) -> Backbone:
    """What `network` of an entry in data/registry.yaml names, as one stage without a head.

    Args:
        network: a name that torchvision.models knows, or `transformers`.
        files: its weights, and for `transformers` config.json and tokenizer.json beside them.

    Raises:
        UserError: the library is missing or knows no such network, or the network ends in no linear layer.
    """
    if network == TRANSFORMERS:
        encoder = _encoder(files)
        return Backbone(lambda: nn.Sequential(encoder), lambda made, _: made, tokens, encoder.width)
    classifier = _classifier(network)
    width = without_head(classifier)
    return Backbone(lambda: nn.Sequential(classifier), _fill, images, width)


def pretrained(weights: str) -> tuple[Backbone, nn.Sequential, Files]:
    """A backbone by the name of its weights in data/registry.yaml, its network in evaluation mode, and their files.

    Raises:
        UserError: the entry says no `network`, or one that cannot be had.
    """
    # Named at run time: how bytes are fetched is no part of what a run computes from them, and the registry pins them.
    datasets = importlib.import_module("common.datasets")
    files: Files = datasets.files(weights)
    backbone = BACKBONES.get(weights)
    if backbone is None:
        if (network := datasets.entry(weights).network) is None:
            raise UserError(f"{weights}: its entry in data/registry.yaml says no `network`, so nothing is built of it.")
        backbone = named_backbone(network, files)
    return backbone, backbone.fill(backbone.build(), files).eval(), files


def without_head(classifier: nn.Module) -> int:
    """Put the identity in the place of the last linear layer; its inputs' width.

    Raises:
        UserError: there is no linear layer.
    """
    linear = [(name, module) for name, module in classifier.named_modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise UserError(f"{type(classifier).__name__} has no linear layer that a new head could stand for.")
    name, last = linear[-1]
    owner, _, own = name.rpartition(".")
    setattr(classifier.get_submodule(owner), own, nn.Identity())
    return last.in_features


def freeze_below(network: nn.Module, first: str) -> None:
    """Freeze all parameters that are registered before those of the module `first`; none for an empty name.

    Raises:
        UserError: no parameter belongs to such a module.
    """
    names = [name for name, _ in network.named_parameters()]
    own = [place for place, name in enumerate(names) if not first or name == first or name.startswith(f"{first}.")]
    if not own:
        modules = dict.fromkeys(name.rpartition(".")[0] for name in names)
        raise UserError(f"trained_from: no parameter lies in a module {first!r}{suggestion(first, list(modules))}")
    for name in names[: own[0]]:
        network.get_parameter(name).requires_grad_(False)


class MeanEncoder(nn.Module):
    """The mean of an encoder's last hidden states over the places where a token stands.

    Shapes:
        input int [n, 3, length]: tokens, mask (1 or 0), segments. Output [n, width].
    """

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self.encoder = encoder
        self.width = int(encoder.config.hidden_size)
        self._segments = getattr(encoder.config, "type_vocab_size", 0) > 1

    def forward(self, inputs: Tensor) -> Tensor:
        words, mask, segments = inputs.long().unbind(1)
        given = {"token_type_ids": segments} if self._segments else {}
        hidden = self.encoder(input_ids=words, attention_mask=mask, **given).last_hidden_state
        weights = mask[..., None].to(hidden)
        mean: Tensor = (hidden * weights).sum(1) / weights.sum(1)
        return mean


def tokens(texts: Tensor, files: Files, length: int) -> Tensor:
    """Texts as bytes [n, width] to tokens, mask and segments, int32 [n, 3, length], by the encoder's tokenizer.json."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(files["tokenizer.json"]))
    tokenizer.enable_truncation(length)
    filling = tokenizer.padding or {}
    tokenizer.enable_padding(
        length=length, pad_id=filling.get("pad_id", 0), pad_token=filling.get("pad_token", "[PAD]")
    )
    rows = [tuple(text.split("\t", 1)) if "\t" in text else text for text in text_of(texts)]
    found = tokenizer.encode_batch(rows)
    return torch.tensor([[row.ids, row.attention_mask, row.type_ids] for row in found], dtype=torch.int32)


def _classifier(name: str) -> nn.Module:
    make_importable()
    try:
        from torchvision import models
    except ImportError as error:
        raise UserError(f"{name}: torchvision is not installed (pip install torchvision).") from error
    known = models.list_models(models)
    if name not in known:
        raise UserError(f"torchvision has no classification network {name!r}{suggestion(name, known)}")
    extra = {"init_weights": False, "aux_logits": False} if name in ("googlenet", "inception_v3") else {}
    network: nn.Module = models.get_model(name, weights=None, **extra)
    return network


def _fill(network: nn.Sequential, files: Files) -> nn.Sequential:
    """The weights of the one file; those of the head that is no longer there are left out."""
    (path,) = files.values()
    weights = torch.load(path, weights_only=True, map_location="cpu")
    missing, spare = network[0].load_state_dict(weights, strict=False)
    heads = {name.rpartition(".")[0] for name in spare}
    if missing or len(heads) > 1 + sum("aux" in name.lower() for name in heads):
        raise UserError(f"{path.name} does not fit the network: {(missing or sorted(spare))[0]!r}.")
    return network


def _encoder(files: Files) -> MeanEncoder:
    make_importable()  # transformers import torchvision
    try:
        from transformers import AutoConfig, AutoModel
    except ImportError as error:
        raise UserError("transformers is not installed (pip install transformers).") from error
    folders = {path.parent for path in files.values()}
    if len(folders) > 1 or "config.json" not in files:
        raise UserError("An encoder of transformers needs config.json, tokenizer.json and model.safetensors together.")
    folder: Path = folders.pop()
    config = AutoConfig.from_pretrained(folder)
    # eager: the fused attention cannot be differentiated twice
    encoder = AutoModel.from_pretrained(folder, config=config, attn_implementation="eager")
    encoder.pooler = None  # the mean is read in its place
    return MeanEncoder(encoder)
