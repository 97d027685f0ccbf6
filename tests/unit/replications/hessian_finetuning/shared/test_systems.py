"""A network cut anywhere computes what it computed whole; each seed has its own parts of the pool."""

from typing import Any

import pytest
import torch
from torch import nn

from common.errors import UserError
from common.models.bert import Attention, BertSize, bert
from replications.hessian_finetuning.shared.backbones import BACKBONES, Backbone, images
from replications.hessian_finetuning.shared.fine_tuning import TuningParameters, tuning_of
from replications.hessian_finetuning.shared.graph_network import PackedGraphNetwork
from replications.hessian_finetuning.shared.linear_classifier import linear_accuracy, ridge_weights
from replications.hessian_finetuning.shared.mean_attention import MeanAttention, mean_bert
from replications.hessian_finetuning.shared.methods import METHODS
from replications.hessian_finetuning.shared.systems import SystemParameters, load_systems
from replications.hessian_finetuning.shared.text_tensors import as_tensor
from replications.hessian_finetuning.shared.upper_layers import upper_layers
from tests.context import Artifact, MemoryContext

SIZE = BertSize(layers=2, width=8, heads=2, inner=12, vocabulary=20, positions=6)
POOL, CUT = 20, 2


class Encoder:
    """A tiny encoder with inputs, and what `frozen_features` would have kept of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        torch.manual_seed(0)
        tiny = Backbone(lambda: bert(SIZE), lambda network, _: network, images, SIZE.width)
        monkeypatch.setitem(BACKBONES, "tiny", tiny)
        self.network = bert(SIZE).eval()
        tokens = torch.randint(0, SIZE.vocabulary, (POOL + 5, 6))
        self.inputs = torch.stack([tokens, torch.ones_like(tokens), torch.zeros_like(tokens)], dim=1)
        with torch.no_grad():
            features = self.network[:CUT](self.inputs).half()
        labels = torch.arange(POOL + 5) % 3
        self.upper = {f"tiny.{k}": v for k, v in self.network.state_dict().items() if int(k.partition(".")[0]) >= CUT}
        self.features = {
            "pool": features[:POOL],
            "pool_labels": labels[:POOL],
            "test": features[POOL:],
            "test_labels": labels[POOL:],
            "dataset": as_tensor("mrpc"),
            "weights": as_tensor("tiny"),
        }

    def context(self) -> MemoryContext:
        kept = {"features": self.features, "upper": self.upper}
        return MemoryContext(needed=[Artifact(parameters(), *entry) for entry in kept.items()], match=())


def parameters(**values: Any) -> SystemParameters:
    return SystemParameters(**{"train_examples": 8, "validation_examples": 6, "trainable_stages": 1} | values)


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_wherever_it_is_cut_the_network_computes_what_it_computed_whole(stages, monkeypatch) -> None:
    encoder = Encoder(monkeypatch)
    (system,) = load_systems("text", [parameters(trainable_stages=stages)], encoder.context())
    with torch.no_grad():
        whole = encoder.network(encoder.inputs[POOL:])
        torch.testing.assert_close(system.model[:-1](system.test.examples()[0]), whole, atol=5e-3, rtol=0)
    assert len(system.model) == stages + 1
    assert system.classes == 3
    assert system.source == {"dataset": "mrpc", "weights": "tiny"}
    assert system.model[-1].weight.shape == (3, SIZE.width)


def test_a_seed_s_training_and_validation_examples_are_its_own_and_disjoint(monkeypatch) -> None:
    encoder = Encoder(monkeypatch)
    systems = load_systems("text", [parameters(seed=seed) for seed in (0, 1)], encoder.context())
    (again,) = load_systems("text", [parameters(seed=0)], encoder.context())
    rows = [
        {tuple(row) for row in part.tolist()}
        for part in (systems[0].train.examples()[0], systems[0].validation.examples()[0])
    ]
    assert len(rows[0]) == 8
    assert len(rows[1]) == 6
    assert not rows[0] & rows[1]
    torch.testing.assert_close(systems[0].train.examples()[0], again.train.examples()[0], rtol=0, atol=0)
    torch.testing.assert_close(systems[0].model[-1].weight, again.model[-1].weight, rtol=0, atol=0)
    assert not torch.equal(systems[0].train.examples()[0], systems[1].train.examples()[0])
    assert not torch.equal(systems[0].model[-1].weight, systems[1].model[-1].weight)
    torch.testing.assert_close(systems[0].test.examples()[0], systems[1].test.examples()[0], rtol=0, atol=0)


def test_what_cannot_be_had_is_refused_in_one_sentence(monkeypatch) -> None:
    encoder = Encoder(monkeypatch)
    with pytest.raises(UserError, match="pool of text has 20"):
        load_systems("text", [parameters(train_examples=15)], encoder.context())
    with pytest.raises(UserError, match="kept 3"):
        load_systems("text", [parameters(trainable_stages=4)], encoder.context())


def test_normalisation_of_the_kept_layers_uses_the_pretrained_statistics() -> None:
    torch.manual_seed(0)
    source = BACKBONES["mobilenet_v2"].build().eval()
    source[18][1].running_mean.normal_()
    kept = {f"mobilenet_v2.{k}": v for k, v in source.state_dict().items() if k.startswith("18.")}
    upper = upper_layers(kept)
    maps = torch.randn(2, 320, 2, 2)
    torch.testing.assert_close(upper(maps), source[18:](maps))
    assert len(upper) == 2
    assert not upper.training


def test_a_perceptron_has_the_layers_that_are_asked_for(monkeypatch) -> None:
    encoder = Encoder(monkeypatch)
    encoder.features |= {"pool": torch.randn(POOL, 5), "test": torch.randn(5, 5)}
    encoder.upper = {}
    (system,) = load_systems("digits", [parameters(depth=4, width=7, activation="tanh")], encoder.context())
    model = system.model
    shapes = [tuple(layer.weight.shape) for layer in model if isinstance(layer, nn.Linear)]
    assert shapes == [(7, 5), (7, 7), (7, 7), (3, 7)]
    assert sum(isinstance(layer, nn.Tanh) for layer in model) == 3


def test_the_packed_graph_network_ignores_places_without_a_node() -> None:
    torch.manual_seed(0)
    network = PackedGraphNetwork(3, 5, 2, nn.Tanh())
    labels = nn.functional.one_hot(torch.tensor([[0, 1, 2], [2, 2, 0]]), 3).float()
    diffusion = torch.rand(2, 3, 3)
    small = torch.cat([diffusion, labels], dim=-1)
    wide = torch.zeros(2, 5, 8)
    wide[:, :3, :3], wide[:, :3, 5:] = diffusion, labels
    torch.testing.assert_close(network(wide), network(small))
    hidden = torch.tanh(diffusion @ torch.tanh(diffusion @ labels @ network.first.weight.T) @ network.second.weight.T)
    torch.testing.assert_close(network(small), hidden.mean(1) @ network.readout.weight.T)


def test_the_probe_finds_classes_that_are_there_and_none_that_are_not() -> None:
    torch.manual_seed(0)
    labels = torch.arange(120) % 3
    points = torch.randn(120, 4) * 0.3 + nn.functional.one_hot(labels, 4)
    assert linear_accuracy({}, (points[:60], labels[:60]), (points[60:], labels[60:])) > 0.9
    shuffled = labels[torch.randperm(120)]
    assert linear_accuracy({}, (points[:60], shuffled[:60]), (points[60:], shuffled[60:])) < 0.6


@pytest.mark.parametrize(("examples", "features"), [(50, 7), (7, 50)])
def test_the_probe_minimises_squared_residuals_and_penalty(examples: int, features: int) -> None:
    torch.manual_seed(0)
    inputs, targets = (torch.randn(examples, width, dtype=torch.float64) for width in (features, 3))
    rows = torch.cat([inputs, 0.3**0.5 * torch.eye(features, dtype=torch.float64)])
    expected = torch.linalg.pinv(rows) @ torch.cat([targets, targets.new_zeros(features, 3)])
    torch.testing.assert_close(ridge_weights(inputs, targets, 0.3), expected)


def test_texts_become_tokens_with_mask_and_segments(tmp_path) -> None:
    pytest.importorskip("tokenizers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "film", "##s"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    texts = [b"Good films", b"good\tfilm", b"zzz good film film film"]
    rows = torch.zeros(3, 24, dtype=torch.uint8)
    for row, text in zip(rows, texts, strict=True):
        row[: len(text)] = torch.tensor(list(text), dtype=torch.uint8)
    found = BACKBONES["minilm_l6"].inputs(rows, {"vocab.txt": tmp_path / "vocab.txt"}, 6)
    assert found[:, 0].tolist() == [[2, 5, 6, 7, 3, 0], [2, 5, 3, 6, 3, 0], [2, 1, 5, 6, 6, 3]]
    assert found[:, 1].tolist() == [[1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 0], [1] * 6]
    assert found[1, 2].tolist() == [0, 0, 0, 1, 1, 0]


def test_the_mean_over_tokens_ignores_what_the_row_was_filled_up_with() -> None:
    torch.manual_seed(0)
    attention = MeanAttention(SIZE).eval()
    states = torch.randn(2, 5, SIZE.width + 1)
    states[..., -1] = torch.tensor([[1.0, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    filled = states.clone()
    filled[0, 3:, :-1] = 100.0
    torch.testing.assert_close(attention(filled), attention(states))
    torch.testing.assert_close(attention(states)[:1], attention(states[:1, :3]))
    hidden = states[1:, :, :-1]
    by_position = Attention.forward(attention, hidden, hidden, torch.ones(1, 5))
    torch.testing.assert_close(attention(states)[1:], by_position.mean(1))


def test_the_encoder_with_the_mean_takes_the_weights_of_the_ordinary_one() -> None:
    torch.manual_seed(0)
    ordinary, mean = bert(SIZE).eval(), mean_bert(SIZE).eval()
    mean.load_state_dict(ordinary.state_dict())
    tokens = torch.randint(0, SIZE.vocabulary, (3, 1))
    one_token = torch.stack([tokens, torch.ones_like(tokens), torch.zeros_like(tokens)], dim=1)
    torch.testing.assert_close(mean(one_token), ordinary(one_token))


def test_seeds_hold_the_pool_and_the_test_examples_once(monkeypatch) -> None:
    encoder = Encoder(monkeypatch)
    runs = [TuningParameters(train_examples=8, validation_examples=6, trainable_stages=1, seed=k) for k in range(3)]
    context = encoder.context()
    systems = load_systems("text", runs, context)
    tuning = tuning_of(
        [run.model_copy(update={"batch_size": 4}) for run in runs], context, METHODS["sgd"](1.0), systems
    )
    kept = {part.table[0].data_ptr() for parts in tuning.splits.values() for part in parts}
    assert kept == {systems[0].train.table[0].data_ptr(), systems[0].test.table[0].data_ptr()}
    assert [len(parts[0]) for parts in tuning.splits.values()] == [8, 6, 5]
    inputs, labels = systems[2].train.examples()
    expected = nn.functional.cross_entropy(systems[2].model(inputs), labels)
    torch.testing.assert_close(tuning.evaluate("train").loss[2], expected.detach())
