"""Networks that the toolkit has not been made for, tiny, in float64: libraries' families with random weights."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from common.datasets.homes import make_importable

COUNT, CLASSES = 3, 3


@dataclass
class Case:
    """A network with data.

    Attributes:
        read: the tensor that the loss reads, of what the model returns.
        loss: as the problem gets it.
        plain: the loss of one example as a function of that tensor and its target.
        counts: what an example counts in the mean over all.
        oracle: the model that the dense matrices are made of, if it is another object.
        rough: it computes in single precision somewhere, whatever its weights are.
    """

    model: nn.Module
    inputs: Any
    targets: torch.Tensor = field(default_factory=lambda: torch.tensor([0, 2, 1]))
    read: Callable[[Any], torch.Tensor] = lambda outputs: outputs
    loss: Any = field(default_factory=nn.CrossEntropyLoss)
    plain: Any = None
    counts: Callable[[torch.Tensor], float] = lambda target: 1.0
    oracle: nn.Module | None = None
    rough: bool = False


ZOO: dict[str, Callable[[], Case]] = {}


def entry(name: str) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
    def keep(make: Callable[[], Case]) -> Callable[[], Case]:
        ZOO[name] = make
        return make

    return keep


def made(name: str) -> Case:
    """The network in float64, in evaluation mode, its weights moved away from symmetric values."""
    torch.manual_seed(5)
    case = ZOO[name]()
    for model in filter(None, (case.model, case.oracle)):
        model.double().eval()
    with torch.no_grad():
        for parameter in case.model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
        for key, buffer in case.model.named_buffers():
            if key.endswith("running_var"):
                buffer.uniform_(0.5, 2)
    return case


def pictures(side: int, channels: int = 3) -> torch.Tensor:
    return torch.randn(COUNT, channels, side, side, dtype=torch.float64)


def series(length: int = 4, width: int = 3) -> torch.Tensor:
    return torch.randn(COUNT, length, width, dtype=torch.float64)


def tokens(length: int = 4, vocabulary: int = 7) -> torch.Tensor:
    return torch.randint(1, vocabulary, (COUNT, length))


# -- torchvision ---------------------------------------------------------------------------------------------------


def vision(name: str, side: int = 16) -> Callable[[Callable[[Any], nn.Module]], None]:
    def keep(make: Callable[[Any], nn.Module]) -> None:
        def case() -> Case:
            make_importable()
            import torchvision.models as models

            return Case(make(models), pictures(side))

        ZOO[name] = case

    return keep


@vision("torchvision ResNet")
def _(models: Any) -> nn.Module:
    class Narrow(models.ResNet):
        def _make_layer(self, block: Any, planes: int, *rest: Any, **more: Any) -> nn.Sequential:
            if planes == 64:
                self.inplanes = 4
                self.conv1, self.bn1 = nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
            return super()._make_layer(block, planes // 16, *rest, **more)

    network = Narrow(models.resnet.BasicBlock, [1, 1, 1, 1])
    network.fc = nn.Linear(32, CLASSES)
    return network


@vision("torchvision ResNeXt block")
def _(models: Any) -> nn.Module:
    block = models.resnet.Bottleneck(8, 2, groups=2, base_width=64)
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2), block, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, CLASSES))


@vision("torchvision VGG", 8)
def _(models: Any) -> nn.Module:
    network = models.VGG(models.vgg.make_layers([4, "M", 6, "M"], batch_norm=True), CLASSES, init_weights=False)
    network.classifier = nn.Sequential(nn.Linear(6 * 49, 4), nn.ReLU(True), nn.Dropout(), nn.Linear(4, CLASSES))
    return network


@vision("torchvision MobileNetV2")
def _(models: Any) -> nn.Module:
    settings = [[1, 8, 1, 1], [3, 8, 1, 2], [3, 8, 2, 2]]
    return models.MobileNetV2(CLASSES, width_mult=0.1, inverted_residual_setting=settings)


@vision("torchvision MobileNetV3")
def _(models: Any) -> nn.Module:
    block = models.mobilenetv3.InvertedResidualConfig
    settings = [block(8, 3, 8, 8, True, "RE", 1, 1, 1), block(8, 3, 16, 8, True, "HS", 2, 1, 1)]
    return models.MobileNetV3(settings, 8, CLASSES)


@vision("torchvision EfficientNet")
def _(models: Any) -> nn.Module:
    block = models.efficientnet.MBConvConfig
    settings = [block(1, 3, 1, 8, 8, 1), block(4, 3, 2, 8, 8, 1)]
    return models.EfficientNet(settings, 0.0, num_classes=CLASSES, last_channel=16)


@vision("torchvision ShuffleNetV2")
def _(models: Any) -> nn.Module:
    return models.ShuffleNetV2([2, 2, 2], [8, 8, 8, 8, 8], CLASSES)


@vision("torchvision DenseNet", 32)
def _(models: Any) -> nn.Module:
    return models.DenseNet(4, (1, 1, 1), 8, bn_size=1, num_classes=CLASSES)


@vision("torchvision RegNet")
def _(models: Any) -> nn.Module:
    parameters = models.regnet.BlockParams.from_init_params(2, 8, 8.0, 2.0, 8, se_ratio=0.25)
    return models.RegNet(parameters, CLASSES, stem_width=8)


@vision("torchvision ConvNeXt", 8)
def _(models: Any) -> nn.Module:
    block = models.convnext.CNBlockConfig
    return models.ConvNeXt([block(4, 8, 1), block(8, None, 1)], num_classes=CLASSES)


@vision("torchvision Swin", 8)
def _(models: Any) -> nn.Module:
    return models.SwinTransformer([2, 2], 4, [2, 1], [2, 2], [2, 2], num_classes=CLASSES)


@vision("torchvision Swin V2", 8)
def _(models: Any) -> nn.Module:
    make = models.swin_transformer
    return models.SwinTransformer(
        [2, 2],
        4,
        [1, 1],
        [2, 2],
        [2, 2],
        num_classes=CLASSES,
        block=make.SwinTransformerBlockV2,
        downsample_layer=make.PatchMergingV2,
    )


@vision("torchvision ViT", 8)
def _(models: Any) -> nn.Module:
    return models.VisionTransformer(8, 4, 1, 2, 4, 6, num_classes=CLASSES)


@vision("torchvision MNASNet", 32)
def _(models: Any) -> nn.Module:
    return models.MNASNet(0.05, CLASSES, dropout=0.0)


@vision("torchvision fire modules of SqueezeNet")
def _(models: Any) -> nn.Module:
    fire = models.squeezenet.Fire
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, 2), nn.ReLU(True), fire(4, 2, 3, 3), nn.MaxPool2d(3, 2), nn.Flatten(), nn.Linear(54, CLASSES)
    )


@vision("torchvision inception module of GoogLeNet", 6)
def _(models: Any) -> nn.Module:
    return nn.Sequential(
        importlib.import_module("torchvision.models.googlenet").Inception(3, 2, 2, 2, 2, 2, 2),
        nn.Flatten(),
        nn.Linear(288, CLASSES),
    )


# -- transformers --------------------------------------------------------------------------------------------------

SMALL = {
    "vocab_size": 7, "hidden_size": 4, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 6,
    "max_position_embeddings": 8, "num_labels": CLASSES, "pad_token_id": 0,
}  # fmt: skip


def hugging(name: str, config: str, model: str, **options: Any) -> None:
    """A classifier of sequences with a padding mask, or a language model with padded targets."""

    def case() -> Case:
        make_importable()
        import transformers

        settings = getattr(transformers, config)(**{**SMALL, **options})
        network = getattr(transformers, model)(settings)
        inputs = {"input_ids": tokens(), "attention_mask": torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0]])}
        if "CausalLM" not in model and "Conditional" not in model and "MaskedLM" not in model:
            return Case(
                network,
                inputs,
                read=lambda o: o.logits,
                loss=lambda o, t: functional.cross_entropy(o.logits, t),
                plain=functional.cross_entropy,
                rough=True,
            )
        if "Conditional" in model:
            inputs["decoder_input_ids"] = tokens(3)
        targets = tokens(3 if "Conditional" in model else 4)
        targets[0, -1] = targets[2, -2:] = -100

        def plain(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return functional.cross_entropy(logits.flatten(0, 1), target.flatten())

        counts = lambda target: float((target != -100).sum())  # noqa: E731
        return Case(
            network, inputs, targets, lambda o: o.logits, lambda o, t: plain(o.logits, t), plain, counts, rough=True
        )

    ZOO[f"transformers {name}"] = case


hugging("BERT", "BertConfig", "BertForSequenceClassification")
hugging("BERT, masked tokens", "BertConfig", "BertForMaskedLM")
hugging(
    "DistilBERT", "DistilBertConfig", "DistilBertForSequenceClassification", dim=4, n_layers=1, n_heads=2, hidden_dim=6
)
hugging("RoBERTa", "RobertaConfig", "RobertaForSequenceClassification", max_position_embeddings=12)
hugging("ALBERT, a layer used twice", "AlbertConfig", "AlbertForSequenceClassification", embedding_size=3)
hugging("ELECTRA", "ElectraConfig", "ElectraForSequenceClassification", embedding_size=3)
hugging(
    "GPT-2",
    "GPT2Config",
    "GPT2ForSequenceClassification",
    n_embd=4,
    n_layer=1,
    n_head=2,
    n_positions=8,
    n_inner=6,
    bos_token_id=1,
    eos_token_id=1,
)
hugging("OPT", "OPTConfig", "OPTForCausalLM", ffn_dim=6, word_embed_proj_dim=4)
hugging("Llama", "LlamaConfig", "LlamaForCausalLM", num_key_value_heads=1)
hugging("Qwen2", "Qwen2Config", "Qwen2ForCausalLM", num_key_value_heads=2)
hugging("GPT-NeoX", "GPTNeoXConfig", "GPTNeoXForCausalLM")
hugging(
    "T5",
    "T5Config",
    "T5ForConditionalGeneration",
    d_model=4,
    d_kv=2,
    d_ff=6,
    num_layers=1,
    num_heads=2,
    decoder_start_token_id=0,
)
hugging(
    "BART",
    "BartConfig",
    "BartForConditionalGeneration",
    d_model=4,
    encoder_layers=1,
    decoder_layers=1,
    encoder_attention_heads=2,
    decoder_attention_heads=2,
    encoder_ffn_dim=6,
    decoder_ffn_dim=6,
)


# -- recurrent -----------------------------------------------------------------------------------------------------


class Recurrent(nn.Module):
    """A recurrent layer of torch and a readout of its last step."""

    def __init__(self, layer: nn.RNNBase, width: int) -> None:
        super().__init__()
        self.layer, self.readout = layer, nn.Linear(width, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.layer.batch_first:
            return self.readout(self.layer(x.transpose(0, 1))[0][-1])
        return self.readout(self.layer(x)[0][:, -1])


RECURRENT: dict[str, Callable[[], nn.Module]] = {
    "LSTM": lambda: Recurrent(nn.LSTM(3, 2, batch_first=True), 2),
    "LSTM, time first": lambda: Recurrent(nn.LSTM(3, 2), 2),
    "LSTM, two layers, both directions": lambda: Recurrent(nn.LSTM(3, 1, 2, batch_first=True, bidirectional=True), 2),
    "LSTM with projections": lambda: Recurrent(nn.LSTM(3, 2, batch_first=True, proj_size=1), 1),
    "GRU": lambda: Recurrent(nn.GRU(3, 2, batch_first=True), 2),
    "RNN": lambda: Recurrent(nn.RNN(3, 2, batch_first=True), 2),
    "RNN with ReLU": lambda: Recurrent(nn.RNN(3, 2, batch_first=True, nonlinearity="relu"), 2),
}
for _name, _make in RECURRENT.items():
    ZOO[_name] = lambda make=_make: Case(make(), series())


class Cells(nn.Module):
    """A cell in a loop that ends when the state says so: control flow that depends on the data."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.readout = nn.GRUCell(3, 2), nn.Linear(2, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = []
        for example in x:
            state = example.new_zeros(1, 2)
            for step in example:
                state = self.cell(step[None], state)
                if float(state.sum()) > 0.3:
                    break
            rows.append(state)
        return self.readout(torch.cat(rows))


ZOO["GRU cell, left early"] = lambda: Case(Cells(), series())


# -- graphs --------------------------------------------------------------------------------------------------------


def adjacency() -> torch.Tensor:
    edges = torch.triu(torch.ones(COUNT, 4, 4), 1) * (torch.rand(COUNT, 4, 4) < 0.7)
    return (edges + edges.mT + torch.eye(4)).double()


class DenseGraphs(nn.Module):
    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first(x, edges)), edges).mean(1)


class SparseGraphs(nn.Module):
    """A graph at a time, its edges read off its adjacency matrix."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        rows = []
        for nodes, matrix in zip(x, edges, strict=True):
            pairs = matrix.nonzero().T
            rows.append(self.second(functional.elu(self.first(nodes, pairs)), pairs).mean(0))
        return torch.stack(rows)


def graphs(name: str, kind: type[nn.Module], make: Callable[[Any], tuple[nn.Module, nn.Module]]) -> None:
    def case() -> Case:
        make_importable()
        import torch_geometric.nn as layers

        return Case(kind(*make(layers)), (series(4, 3), adjacency()))

    ZOO[f"torch_geometric {name}"] = case


graphs("GCN", SparseGraphs, lambda g: (g.GCNConv(3, 3), g.GCNConv(3, CLASSES)))
graphs("GAT", SparseGraphs, lambda g: (g.GATConv(3, 2, heads=2), g.GATConv(4, CLASSES)))
graphs("GraphSAGE", SparseGraphs, lambda g: (g.SAGEConv(3, 2), g.SAGEConv(2, CLASSES)))
graphs("GIN, dense", DenseGraphs, lambda g: (g.DenseGINConv(nn.Linear(3, 3)), g.DenseGCNConv(3, CLASSES)))


# -- torch's own, and by hand --------------------------------------------------------------------------------------


class Padded(nn.Module):
    """Attention or an encoder of torch with a padding mask; the mean over what is not padding."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer, self.readout = layer, nn.Linear(4, CLASSES)

    def forward(self, x: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        if isinstance(self.layer, nn.MultiheadAttention):
            x = self.layer(x, x, x, key_padding_mask=padding, need_weights=False)[0]
        else:
            x = self.layer(x, src_key_padding_mask=padding)
        return self.readout(x.mean(1))


def padding() -> torch.Tensor:
    return torch.tensor([[False] * 4, [False] * 3 + [True], [False] * 2 + [True] * 2])


ZOO["attention with a padding mask"] = lambda: Case(
    Padded(nn.MultiheadAttention(4, 2, batch_first=True)), (series(4, 4), padding())
)
ZOO["encoder with a padding mask"] = lambda: Case(
    Padded(nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 5, 0.0, batch_first=True), 1)),
    (series(4, 4), padding()),
)


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.out = nn.Linear(3, 3), nn.Linear(3, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.layer(x))
        return self.out(self.layer(hidden) * hidden)


class Mixture(nn.Module):
    """Each example goes to the expert that its gate prefers."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(3, 2), nn.ModuleList([nn.Linear(3, CLASSES) for _ in range(2)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight, place = self.gate(x).softmax(1).max(1)
        outputs = torch.zeros(len(x), CLASSES, dtype=x.dtype)
        for number, expert in enumerate(self.experts):
            mine = place == number
            if mine.any():
                outputs = outputs.index_put((mine.nonzero()[:, 0],), expert(x[mine]))
        return outputs * weight[:, None]


class Spectral(nn.Module):
    """Weights of a Fourier transform, and a second network that makes the weights of the first."""

    def __init__(self) -> None:
        super().__init__()
        self.filter, self.maker = nn.Parameter(torch.randn(3)), nn.Linear(2, 4 * CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        filtered = torch.fft.irfft(torch.fft.rfft(x, dim=1) * self.filter, n=4, dim=1)
        weights = self.maker(x[:, :2]).view(-1, CLASSES, 4)
        return torch.einsum("noi,ni->no", weights, filtered)


@dataclass
class Answer:
    """What a model of somebody's library may return."""

    scores: torch.Tensor
    hidden: torch.Tensor
    note: str = "an answer"


class Answering(nn.Sequential):
    def forward(self, x: torch.Tensor) -> Answer:
        hidden = self[0](x).tanh()
        return Answer(self[1](hidden), hidden)


class Several(nn.Sequential):
    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        hidden = self[0](x).tanh()
        return {"scores": self[1](hidden), "hidden": (hidden, None)}


def vectors(width: int = 3) -> torch.Tensor:
    return torch.randn(COUNT, width, dtype=torch.float64)


def layers() -> tuple[nn.Module, nn.Module]:
    return nn.Linear(3, 3), nn.Linear(3, CLASSES)


def penalised(outputs: dict[str, Any], targets: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(outputs["scores"], targets) + outputs["hidden"][0].square().sum(1).mean()


def _penalised_flat(flat: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(flat[:, :3], target) + flat[:, 3:].square().sum(1).mean()


@entry("weight normalisation")
def _() -> Case:
    norm = nn.utils.parametrizations.weight_norm
    return Case(nn.Sequential(norm(nn.Linear(3, 3)), nn.Tanh(), norm(nn.Linear(3, CLASSES))), vectors())


@entry("weight normalisation, by hooks")
def _() -> Case:
    return Case(nn.Sequential(nn.utils.weight_norm(nn.Linear(3, 3)), nn.Tanh(), nn.Linear(3, CLASSES)), vectors())


@entry("scripted")
def _() -> Case:
    return Case(torch.jit.script(nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, CLASSES)).double()), vectors())


@entry("compiled")
def _() -> Case:
    inner = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, CLASSES))
    return Case(torch.compile(inner, backend="aot_eager"), vectors(), oracle=inner)


@entry("compiled part")
def _() -> Case:
    first = nn.Linear(3, 3)
    compiled = nn.Sequential(torch.compile(first, backend="aot_eager"), nn.Tanh(), nn.Linear(3, CLASSES))
    return Case(compiled, vectors(), oracle=nn.Sequential(first, nn.Tanh(), compiled[2]))


@entry("class weights")
def _() -> Case:
    weight = torch.tensor([1.0, 3.0, 0.5], dtype=torch.float64)
    loss = nn.CrossEntropyLoss(weight=weight)
    return Case(nn.Sequential(*layers()), vectors(), loss=loss, counts=lambda target: float(weight[target]))


@entry("ignored tokens")
def _() -> Case:
    class Tagger(nn.Sequential):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x).mT

    targets = torch.tensor([[0, 1, -100, 2], [-100] * 4, [1, -100, -100, -100]])
    counts = lambda target: float((target != -100).sum())  # noqa: E731
    summed = nn.CrossEntropyLoss(reduction="sum")

    def plain(outputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return summed(outputs, target) / max(counts(target), 1)

    return Case(
        Tagger(nn.Embedding(7, 3), nn.Tanh(), nn.Linear(3, CLASSES)), tokens(), targets, plain=plain, counts=counts
    )


BY_HAND: dict[str, Callable[[], Case]] = {
    "dataclass": lambda: Case(
        Answering(*layers()), vectors(), read=lambda o: o.scores,
        loss=lambda o, t: functional.cross_entropy(o.scores, t), plain=functional.cross_entropy,
    ),
    "two tensors of a dict": lambda: Case(
        Several(*layers()), vectors(), read=lambda o: torch.cat([o["scores"], o["hidden"][0]], 1),
        loss=penalised, plain=_penalised_flat,
    ),
    "layer used twice": lambda: Case(Twice(), vectors()),
    "mixture of experts": lambda: Case(Mixture(), vectors()),
    "Fourier filter and made weights": lambda: Case(Spectral(), vectors(4)),
    "spectral normalisation": lambda: Case(
        nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3)), nn.Tanh(), nn.Linear(3, CLASSES)),
        vectors(),
    ),
    "bilinear, PReLU, Mish": lambda: Case(_Pair(), (vectors(2), vectors(2))),
    "one dimension and back": lambda: Case(
        nn.Sequential(nn.Conv1d(2, 2, 3), nn.Softplus(), nn.ConvTranspose1d(2, 2, 2), nn.GLU(1), nn.Flatten(),
                      nn.Linear(5, CLASSES)),
        series(2, 6),
    ),
    "three dimensions, InstanceNorm": lambda: Case(
        nn.Sequential(nn.Conv3d(1, 2, 2), nn.InstanceNorm3d(2, affine=True), nn.SELU(), nn.Flatten(),
                      nn.Linear(16, CLASSES)),
        torch.randn(COUNT, 1, 3, 3, 3, dtype=torch.float64),
    ),
    "depthwise, GroupNorm": lambda: Case(
        nn.Sequential(nn.Conv2d(2, 4, 3, groups=2), nn.GroupNorm(2, 4), nn.GELU(), nn.Flatten(),
                      nn.Linear(16, CLASSES)),
        pictures(4, 2),
    ),
    "hard swish": lambda: Case(nn.Sequential(nn.Linear(3, 3), nn.Hardswish(), nn.Linear(3, CLASSES)), vectors()),
}  # fmt: skip


class _Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.both, self.bend, self.out = nn.Bilinear(2, 2, 3), nn.PReLU(3), nn.Linear(3, CLASSES)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.out(functional.mish(self.bend(self.both(x, y))))


ZOO.update(BY_HAND)
