"""Networks of torchvision and transformers without their heads: width, weights, masks, what is frozen."""

from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from torch import nn

from common.datasets.homes import make_importable
from common.errors import UserError
from common.models.bert import BertSize, bert, load_bert
from common.models.imagenet_resnet import load_resnet34, resnet34
from common.models.mobilenet import mobilenet_v2
from replications.hessian_finetuning.shared.named_networks import (
    freeze_below,
    named_backbone,
    without_head,
)

make_importable()
import torchvision  # noqa: E402
import transformers  # noqa: E402

FAMILIES = (
    "alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "googlenet", "inception_v3", "maxvit_t", "mnasnet0_5",
    "mobilenet_v2", "mobilenet_v3_small", "regnet_y_400mf", "resnet18", "resnext50_32x4d", "shufflenet_v2_x0_5",
    "swin_t", "vgg11", "vit_b_16", "wide_resnet50_2",
)  # fmt: skip
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "good", "bad", "film"]
ENCODERS = {
    "BertConfig": {"num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 12},
    "RobertaConfig": {"num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 12},
    "ElectraConfig": {
        "num_hidden_layers": 2, "hidden_size": 8, "embedding_size": 8, "num_attention_heads": 2,
        "intermediate_size": 12,
    },
    "DistilBertConfig": {"n_layers": 2, "dim": 8, "n_heads": 2, "hidden_dim": 12},
}  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
def test_a_classifier_without_its_head_gives_what_the_head_was_given(name: str) -> None:
    with torch.device("cpu" if name.startswith("regnet") else "meta"):  # whose builder reads numbers
        network = named_backbone(name, {}).build()[0]
        whole = torchvision.models.get_model(
            name, weights=None, **({"aux_logits": False, "init_weights": False} if name[:2] in ("go", "in") else {})
        )
        width = without_head(whole)
        side = 299 if name == "inception_v3" else 224
        assert network.eval()(torch.empty(2, 3, side, side)).shape == (2, width)


def test_a_network_that_is_not_known_or_has_no_linear_layer_is_refused() -> None:
    with pytest.raises(UserError, match="did you mean 'resnet18'"):
        named_backbone("resnet81", {})
    with torch.device("meta"), pytest.raises(UserError, match="no linear layer"):
        named_backbone("squeezenet1_0", {})


def test_weights_of_the_whole_classifier_fill_the_network_without_its_head(tmp_path: Path) -> None:
    torch.manual_seed(0)
    whole = torchvision.models.shufflenet_v2_x0_5(weights=None).eval()
    path = tmp_path / "weights.pth"
    torch.save(whole.state_dict(), path)
    backbone = named_backbone("shufflenet_v2_x0_5", {path.name: path})
    network = backbone.fill(backbone.build(), {path.name: path}).eval()
    images = torch.randn(2, 3, 64, 64)
    torch.testing.assert_close(whole.fc(network(images)), whole(images), rtol=0, atol=0)
    torch.save(torchvision.models.mnasnet0_5(weights=None).state_dict(), path)
    with pytest.raises(UserError, match="does not fit"):
        backbone.fill(backbone.build(), {path.name: path})


def test_the_chains_that_can_be_cut_compute_what_the_libraries_compute() -> None:
    torch.manual_seed(0)
    images = torch.randn(2, 3, 64, 64)
    theirs = torchvision.models.mobilenet_v2(weights=None).eval()
    ours = mobilenet_v2().eval()
    ours.load_state_dict(dict(zip(ours.state_dict(), theirs.features.state_dict().values(), strict=True)))
    maps = theirs.features(images)
    assert torch.equal(ours[:-1](images), maps)
    torch.testing.assert_close(ours(images), nn.functional.adaptive_avg_pool2d(maps, 1).flatten(1))
    theirs, ours = torchvision.models.resnet34(weights=None).eval(), resnet34().eval()
    load_resnet34(ours, theirs.state_dict())
    theirs.fc = nn.Identity()
    torch.testing.assert_close(ours(images), theirs(images))


def test_the_chain_of_bert_computes_what_transformers_compute() -> None:
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=20,
        max_position_embeddings=10,
        num_hidden_layers=3,
        hidden_size=8,
        num_attention_heads=2,
        intermediate_size=12,
    )
    theirs = transformers.BertModel(config).double().eval()
    ours = bert(BertSize(layers=3, width=8, heads=2, inner=12, vocabulary=20, positions=10)).double().eval()
    load_bert(ours, theirs.state_dict())
    words = torch.randint(0, 20, (4, 7))
    mask = torch.ones_like(words)
    mask[1:, 5:] = 0
    found = theirs(input_ids=words, attention_mask=mask, token_type_ids=torch.zeros_like(words)).pooler_output
    torch.testing.assert_close(ours(torch.stack([words, mask, torch.zeros_like(words)], 1)), found)


def encoder_files(folder: Path, kind: str) -> dict[str, Path]:
    """A tiny encoder with random weights, saved as a published one is."""
    torch.manual_seed(0)
    settings: dict[str, Any] = {"vocab_size": len(WORDS), "max_position_embeddings": 12, "pad_token_id": 0}
    config = getattr(transformers, kind)(**settings, **ENCODERS[kind])
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: k for k, word in enumerate(WORDS)}, "[UNK]"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.save(str(folder / "tokenizer.json"))
    return {path.name: path for path in folder.iterdir()}


@pytest.mark.parametrize("kind", ENCODERS)
def test_an_encoder_of_transformers_is_read_from_its_files(kind: str, tmp_path: Path) -> None:
    files = encoder_files(tmp_path, kind)
    backbone = named_backbone("transformers", files)
    network = backbone.fill(backbone.build(), files).eval()
    texts = nn.utils.rnn.pad_sequence([torch.tensor(list(text)) for text in (b"a good film", b"bad")], batch_first=True)
    short, long = (backbone.inputs(texts.to(torch.uint8), files, length) for length in (3, 6))
    assert short.shape == (2, 3, 3)
    assert short[0, 0].tolist() == [4, 5, 7]
    assert long[1, 1].tolist() == [1, 0, 0, 0, 0, 0]
    assert network(short).shape == (2, backbone.width) == (2, 8)
    torch.testing.assert_close(network(long), network(short))  # what was filled up counts for nothing
    model = nn.Sequential(network, nn.Linear(8, 2))
    assert len(torch.autograd.grad(model(short).logsumexp(1).sum(), list(model.parameters()))) > 20  # none is unused


def test_from_a_module_on_all_is_trained() -> None:
    network = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), nn.Linear(2, 2))
    freeze_below(network, "")
    assert all(parameter.requires_grad for parameter in network.parameters())
    freeze_below(network, "0.1")
    assert [name for name, p in network.named_parameters() if not p.requires_grad] == ["0.0.weight", "0.0.bias"]
    with pytest.raises(UserError, match="no parameter lies in a module '2'"):
        freeze_below(network, "2")
