"""Networks that are cut and fine-tuned: parameter counts, official names, masks, the real encoder's known answers."""

import pytest
import torch
from torch import nn

from common.datasets import fetch, files
from common.models.bert import BERT_BASE, MINILM_L6, BertLayer, BertSize, bert, load_bert
from common.models.imagenet_resnet import load_resnet34, resnet34
from common.models.mobilenet import mobilenet_v2

SMALL = BertSize(layers=3, width=8, heads=2, inner=12, vocabulary=20, positions=10)


@pytest.mark.parametrize(
    ("build", "stages", "count"),
    [
        (lambda: bert(MINILM_L6), 9, 22_713_216),
        (lambda: bert(BERT_BASE), 15, 109_482_240),
        (mobilenet_v2, 20, 2_223_872),
        (resnet34, 18, 21_284_672),
    ],
    ids=["MiniLM-L6", "BERT-base", "MobileNetV2", "ResNet-34"],
)
def test_networks_have_the_published_number_of_parameters(build, stages: int, count: int) -> None:
    with torch.device("meta"):
        network = build()
    assert len(network) == stages
    assert sum(parameter.numel() for parameter in network.parameters()) == count


def texts(count: int, length: int) -> torch.Tensor:
    tokens = torch.randint(0, SMALL.vocabulary, (count, length))
    return torch.stack([tokens, torch.ones_like(tokens), torch.zeros_like(tokens)], dim=1)


def official(network: nn.Sequential) -> dict[str, torch.Tensor]:
    """Weights under names written out by hand from a BERT checkpoint, with its old names of LayerNorm's."""
    names = {"word": "word_embeddings.weight", "norm": "LayerNorm.gamma"}
    made = {f"bert.embeddings.{name}": network.state_dict()[f"0.{own}.weight"] for own, name in names.items()}
    made["bert.embeddings.LayerNorm.beta"] = network.state_dict()["0.norm.bias"]
    made["bert.embeddings.position_embeddings.weight"] = network.state_dict()["0.position.weight"]
    made["bert.embeddings.token_type_embeddings.weight"] = network.state_dict()["0.token_type.weight"]
    parts = {
        "attention.self.query": "query",
        "attention.self.key": "key",
        "attention.self.value": "value",
        "attention.output.dense": "mix",
        "attention.output.LayerNorm": "norm",
    }
    rest = {"intermediate.dense": "expand", "output.dense": "contract", "output.LayerNorm": "norm"}
    last = len(network) - 3
    for layer in range(last):
        for kind in ("weight", "bias"):
            attention, feed = ("1.attention.", "1.feed_forward.") if layer == 0 else ("2.attention.", "2.feed_forward.")
            if layer == last - 1:
                attention, feed = f"{last}.", f"{last + 1}."
            for group, prefix in ((parts, attention), (rest, feed)):
                for theirs, ours in group.items():
                    made[f"bert.encoder.layer.{layer}.{theirs}.{kind}"] = network.state_dict()[f"{prefix}{ours}.{kind}"]
    for kind in ("weight", "bias"):
        made[f"bert.pooler.dense.{kind}"] = network.state_dict()[f"{last + 2}.dense.{kind}"]
    return made


def test_an_encoder_is_filled_from_the_official_names_and_from_nothing_less() -> None:
    torch.manual_seed(0)
    source, target = bert(SMALL), bert(SMALL)
    weights = official(source)
    assert len(weights) == len(source.state_dict())
    load_bert(target, weights)
    inputs = texts(4, 6)
    torch.testing.assert_close(target(inputs), source(inputs))
    del weights["bert.encoder.layer.1.output.dense.bias"]
    with pytest.raises(ValueError, match=r"output\.dense\.bias"):
        load_bert(target, weights)


def test_places_that_were_filled_up_change_nothing_and_a_mask_of_one_half_counts_half() -> None:
    torch.manual_seed(0)
    network, inputs = bert(SMALL).double().eval(), texts(3, 5)
    longer = torch.cat([inputs, torch.randint(1, 9, (3, 3, 4))], dim=2)
    longer[:, 1:, 5:] = 0
    torch.testing.assert_close(network(longer), network(inputs))
    hidden = network[0](inputs)
    twice, halved = torch.cat([hidden, hidden[:, -1:]], dim=1), torch.cat([hidden, hidden[:, -1:]], dim=1)
    halved[:, -2:, -1] = 0.5
    attention = network[3]
    torch.testing.assert_close(attention(halved), attention(hidden))
    assert not torch.allclose(attention(twice), attention(hidden))


def test_the_last_layer_computes_at_the_first_position_what_a_whole_layer_computes_there() -> None:
    torch.manual_seed(0)
    network, whole = bert(SMALL).double().eval(), BertLayer(SMALL).double()
    whole.attention.load_state_dict(network[3].state_dict())
    whole.feed_forward.load_state_dict(network[4].state_dict())
    states = network[:3](texts(3, 5))
    torch.testing.assert_close(network[4](network[3](states)), whole(states)[:, 0, :-1])


def test_resnet_is_filled_from_torchvision_s_names() -> None:
    torch.manual_seed(0)
    source, target = resnet34().eval(), resnet34().eval()
    blocks = [f"layer{group}.{place}" for group, many in ((1, 3), (2, 4), (3, 6), (4, 3)) for place in range(many)]
    places = {"0": "", **{str(k + 1): f"{name}." for k, name in enumerate(blocks)}}
    weights = {places[k.partition(".")[0]] + k.partition(".")[2]: v for k, v in source.state_dict().items()}
    assert {"conv1.weight", "layer2.0.downsample.0.weight", "layer4.2.bn2.running_var"} <= weights.keys()
    assert "layer1.0.downsample.0.weight" not in weights
    load_resnet34(target, {**weights, "fc.weight": torch.zeros(1000, 512)})
    images = torch.randn(1, 3, 32, 32)
    torch.testing.assert_close(target(images), source(images))
    with pytest.raises(ValueError, match="not those of ResNet-34"):
        load_resnet34(target, {"conv1.weight": torch.zeros(1)})


@pytest.mark.network
def test_the_real_encoder_gives_the_similarities_that_its_authors_show() -> None:
    """Cosines of mean vectors, as the model's card prints them for these sentences."""
    from replications.hessian_finetuning.shared.backbones import BACKBONES

    report = fetch("minilm_l6")
    assert report.available, report.explanation()
    there = files("minilm_l6")
    network = BACKBONES["minilm_l6"].fill(bert(MINILM_L6), there).eval()
    whole = BertLayer(MINILM_L6)
    whole.attention.load_state_dict(network[6].state_dict())
    whole.feed_forward.load_state_dict(network[7].state_dict())
    sentences = [
        b"That is a happy person",
        b"That is a happy dog",
        b"That is a very happy person",
        b"Today is a sunny day",
    ]
    rows = torch.zeros(4, 40, dtype=torch.uint8)
    for row, sentence in zip(rows, sentences, strict=True):
        row[: len(sentence)] = torch.tensor(list(sentence), dtype=torch.uint8)
    with torch.no_grad():
        states = whole(network[:6](BACKBONES["minilm_l6"].inputs(rows, there, 12)))
    hidden, mask = states[..., :-1], states[..., -1:]
    means = nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1)
    assert (means @ means[0]).tolist()[1:] == pytest.approx([0.695, 0.943, 0.257], abs=5e-4)
