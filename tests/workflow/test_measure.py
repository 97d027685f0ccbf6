"""`replicate measure`: a user's own model on a registered data set, and every mistake as one sentence."""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import save_file
from torch import nn

from common.cli import main
from common.datasets import load
from common.hessian import Hessian, Problem
from common.hessian import dense as dense_matrix
from common.workflow.user_models import load_weights
from tests.conftest import make_project

NETS = """
from types import SimpleNamespace

import torch
from torch import nn

def small():
    return nn.Sequential(nn.Flatten(), nn.Linear(8, 5), nn.Tanh(), nn.Dropout(0.5), nn.Linear(5, 3))

class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.out = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.out(self.second(self.first(x.flatten(1)).tanh()).tanh())

class Forward(torch.autograd.Function):
    @staticmethod
    def forward(context, x): return 2 * x

    @staticmethod
    def backward(context, slope): raise RuntimeError("no derivative")

class Flat(nn.Module):
    def forward(self, x): return Forward.apply(x)

def flat(): return nn.Sequential(nn.Flatten(), nn.Linear(8, 5), Flat(), nn.Tanh(), nn.Linear(5, 3))
def wide(): return nn.Sequential(nn.Flatten(), nn.Linear(8, 4))
def other(): return nn.Sequential(nn.Flatten(), nn.Linear(9, 3))
def pair(): return type("Pair", (nn.Linear,), {"forward": lambda self, x: (x, x)})(1, 1)
def needs(size): return nn.Linear(size, 3)
def text(): return "a model"
def broken(): raise KeyError("weights")

class Fails(nn.Linear):
    def __init__(self, error, limit):
        super().__init__(8, 3)
        self.error, self.limit = error, limit

    def forward(self, x):
        if len(x) > self.limit:
            raise self.error
        return super().forward(x.flatten(1))

def lacks_a_key(): return Fails(KeyError("logits"), 0)
def ends_the_process(): return Fails(SystemExit(0), 0)
def takes_two(): return Fails(IndexError("the third"), 2)

class Answers(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Flatten(), nn.Linear(8, 3))

    def forward(self, x): return SimpleNamespace(logits=self.inner(x), hidden=None)

class Reads(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.out = nn.Embedding(9, 4), nn.Linear(4, 3)

    def forward(self, input_ids, attention_mask):
        mask = attention_mask[..., None].to(self.out.weight)
        return self.out((self.table(input_ids) * mask).sum(1) / mask.sum(1))

def on_meta(): return nn.Linear(8, 3, device="meta")
def of_complex_numbers(): return nn.Linear(8, 3, dtype=torch.complex64)
number = 3
"""


@dataclass
class Answer:
    code: int
    out: str
    err: str


Measure = Callable[..., Answer]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A checkout with the data set `dots`, one that no source has, and the module `nets`, as working directory."""
    root = make_project(tmp_path / "checkout", {}).root
    mirror = tmp_path / "mirror" / "dots"
    mirror.mkdir(parents=True)
    (root / "replications").mkdir()
    source, files = torch.Generator().manual_seed(0), []
    for name, count in (("train", 60), ("test", 30)):
        path = mirror / f"{name}.safetensors"
        images = torch.randint(0, 256, (count, 2, 2, 2), generator=source).to(torch.uint8)
        save_file({"inputs": images, "targets": torch.randint(0, 3, (count,), generator=source)}, path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        files.append({"name": path.name, "size": path.stat().st_size, "sha256": digest})
    entry = {
        "title": "Dots", "version": "1", "licence": "CC0", "citation": "none", "format": "safetensors", "classes": 3,
        "files": files, "splits": {"train": ["train.safetensors"], "test": ["test.safetensors"]},
        "sources": [{"kind": "mirror", "folders": ["dots"]}],
    }  # fmt: skip
    texts = torch.zeros(6, 12, dtype=torch.uint8)
    for row, text in zip(texts, (b"good film", b"bad", b"film", b"good good", b"bad film", b"a"), strict=True):
        row[: len(text)] = torch.tensor(list(text), dtype=torch.uint8)
    written = {**entry, "files": [], "sources": [{"kind": "mirror", "folders": ["texts"]}]}
    (mirror.parent / "texts").mkdir()
    for name in ("train", "test"):
        path = mirror.parent / "texts" / f"{name}.safetensors"
        save_file({"inputs": texts, "targets": torch.tensor([0, 1, 2, 0, 1, 2])}, path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        written["files"].append({"name": path.name, "size": path.stat().st_size, "sha256": digest})
    words = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film", "a")
    (root / "vocab.txt").write_text("\n".join(words) + "\n")
    lost = {**entry, "sources": [{"kind": "mirror", "folders": ["lost"]}]}
    (root / "data" / "registry.yaml").write_text(yaml.safe_dump({"dots": entry, "lost": lost, "texts": written}))
    (root / "nets.py").write_text(NETS)
    (root / "fails.py").write_text("import nowhere_to_be_found")
    monkeypatch.setenv("REPLICATIONS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("REPLICATIONS_MIRROR", str(mirror.parent))
    monkeypatch.setenv("REPLICATIONS_OFFLINE", "1")
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(root)
    monkeypatch.syspath_prepend(str(root))
    yield root
    for name in ("nets", "fails"):
        sys.modules.pop(name, None)


@pytest.fixture
def measure(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Measure:
    """Call the command in this process."""

    def call(*arguments: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["replicate", "measure", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr()
        return Answer(int(end.value.code or 0), printed.out, printed.err)

    return call


def make(factory: str) -> nn.Module:
    import nets

    return getattr(nets, factory)()


@pytest.mark.parametrize("ending", ["safetensors", "pt"])
@pytest.mark.parametrize("loss", ["cross_entropy", "mse"])
def test_numbers_are_those_of_the_dense_hessian(place: Path, measure: Measure, ending: str, loss: str) -> None:
    torch.manual_seed(3)
    model = make("small").eval()
    checkpoint = f"w.{ending}"
    torch.save({"state_dict": model.state_dict(), "epoch": 7}, "w.pt")
    save_file(model.state_dict(), "w.safetensors")
    on = f"--checkpoint {checkpoint} --data dots --split test --loss {loss}"
    asked = "--what loss,trace,sharpness --relative-error 0.05 --json"
    done = measure("nets:small", *on.split(), *asked.split())
    assert done.code == 0, done.err
    result = json.loads(done.out)
    rows = {row["name"]: row for row in result["measures"]}
    assert list(rows) == ["loss", "hessian_trace", "sharpness"]
    assert (result["images"], result["images_of_split"], result["parameters"]) == (30, 30, 63)

    from common.datasets import load

    data = load("dots")
    inputs = data.test.standardised(*data.train.channel_statistics())
    targets = data.test.targets if loss == "cross_entropy" else nn.functional.one_hot(data.test.targets, 3).float()
    function = nn.CrossEntropyLoss() if loss == "cross_entropy" else nn.MSELoss()
    assert rows["loss"]["value"] == pytest.approx(function(model(inputs), targets).item(), rel=1e-5)
    eigenvalues = torch.linalg.eigvalsh(dense_matrix(Hessian(Problem(model, function, (inputs, targets)))).double())
    trace = rows["hessian_trace"]
    assert abs(trace["value"] - float(eigenvalues.sum())) < 4 * trace["standard_error"] + 1e-4
    assert rows["sharpness"]["value"] == pytest.approx(float(eigenvalues[-1]), rel=1e-3)
    assert all(row["converged"] for row in rows.values())


def test_the_table_and_the_plot(place: Path, measure: Measure) -> None:
    done = measure("nets:small", "--data", "dots", "--images", "40", "--seed", "2", "--plot", "out/s.svg")
    assert done.code == 0, done.err
    assert "nets:small, 63 parameters, weights as the factory makes them" in done.out
    assert "dots/train, 40 of 60 examples, cross_entropy, seed 2" in done.out
    assert [name in done.out for name in ("Tr H", "λ₁", "±", "converged", "cost (g)")] == [True] * 5
    assert sorted(os.listdir("out")) == ["s.csv", "s.png", "s.svg"]
    assert measure("nets:small", "--data", "dots", "--images", "40", "--seed", "2", "--plot", "out/s.svg") == done


@pytest.mark.parametrize(("largest", "converged"), [(1.3737, False), (1.3340, True)])
def test_a_sharpness_below_the_spectrum_is_called_unconverged(largest: float, converged: bool) -> None:
    from common.workflow.measure import _compared

    row = {"name": "sharpness", "problem": "", "value": 1.3339, "bound": 0.0009, "converged": True, "reason": ""}
    assert _compared(row, largest)["converged"] is converged


def test_a_measure_that_is_not_defined_says_why_in_its_row(measure: Measure) -> None:
    done = measure("nets:flat", "--data", "dots", "--what", "loss,gradient-norm,sharpness")
    assert done.code == 0, done.err
    row = next(line for line in done.out.splitlines() if line.startswith("sharpness"))
    assert "–" in row
    assert "The module '2' (Flat)" in row  # the check of second derivatives names it, with torch's own words
    assert "no derivative" in " ".join(done.out.split())
    assert measure("nets:flat", "--data", "dots", "--plot", "s.svg").code == 2
    done = measure("nets:takes_two", "--data", "dots", "--what", "loss,sharpness")
    assert "Traceback" not in done.err
    assert "IndexError: the third" in done.out + done.err


def test_of_tied_parameters_a_file_may_hold_one(place: Path, measure: Measure) -> None:
    weights = make("Tied").state_dict()
    del weights["second.weight"]
    save_file(weights, "tied.safetensors")
    done = measure("nets:Tied", "--checkpoint", "tied.safetensors", "--data", "dots", "--what", "loss", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["parameters"] == 64 + 8 + 8 + 27


@pytest.mark.parametrize("wrapped", ["module.{}", "_orig_mod.{}", "module._orig_mod.{}", "_orig_mod.module.{}"])
def test_weights_of_a_compiled_or_a_parallel_model_fit_the_plain_one(
    place: Path, measure: Measure, wrapped: str
) -> None:
    weights = {name: value + 1.0 for name, value in make("small").state_dict().items()}
    save_file(weights, "plain.safetensors")
    save_file({wrapped.format(name): value for name, value in weights.items()}, "wrapped.safetensors")
    answers = [
        measure("nets:small", "--checkpoint", f"{name}.safetensors", "--data", "dots", "--what", "loss", "--json")
        for name in ("plain", "wrapped")
    ]
    assert [answer.code for answer in answers] == [0, 0], answers[1].err
    plain, found = (json.loads(answer.out)["measures"][0]["value"] for answer in answers)
    assert plain == found


def test_weights_of_a_plain_model_fit_the_compiled_one(place: Path) -> None:
    plain = {name: value + 1.0 for name, value in make("small").state_dict().items()}
    compiled = torch.compile(make("small"))
    load_weights(compiled, plain, Path("plain.safetensors"))
    assert all(torch.equal(value, plain[name]) for name, value in compiled._orig_mod.state_dict().items())


def test_logits_of_a_model_that_returns_more_are_measured(place: Path, measure: Measure) -> None:
    answer = measure("nets:Answers", "--data", "dots", "--what", "ggn_trace", "--json")
    assert answer.code == 0, answer.err
    [row] = json.loads(answer.out)["measures"]
    torch.manual_seed(0)
    inner = make("Answers").inner
    dots = load("dots").train
    inputs = dots.standardised(*dots.channel_statistics(), dtype=torch.float64).float()
    exact = dense_matrix(Hessian(Problem(inner, nn.CrossEntropyLoss(), (inputs, dots.targets)))).trace()
    assert row["value"] == pytest.approx(float(exact), rel=1e-4)  # of a linear classifier H = G
    assert row["method"] == "exact GGN trace"


def test_texts_are_measured_as_tokens(place: Path, measure: Measure) -> None:
    answer = measure(
        "nets:Reads", "--data", "texts", "--tokenizer", "vocab.txt", "--length", "4", "--what", "loss", "--json"
    )
    assert answer.code == 0, answer.err
    [row] = json.loads(answer.out)["measures"]
    torch.manual_seed(0)
    model = make("Reads")
    ids = torch.tensor([[2, 5, 7, 3], [2, 6, 3, 0], [2, 7, 3, 0], [2, 5, 5, 3], [2, 6, 7, 3], [2, 8, 3, 0]])
    outputs = model(ids, (ids > 0).long())
    assert row["value"] == pytest.approx(nn.functional.cross_entropy(outputs, torch.tensor([0, 1, 2] * 2)).item())


MISTAKES = {
    "no factory": (["nets"], "write module:factory"),
    "no such module": (["nots:small"], "There is no module 'nots'"),
    "a module that fails": (["fails:small"], "No module named 'nowhere_to_be_found'"),
    "no such factory": (["nets:smal"], "did you mean 'small'?"),
    "not callable": (["nets:number"], "nets:number is not callable but an object of type int"),
    "arguments needed": (["nets:needs"], "called without arguments, failed: TypeError"),
    "a factory that fails": (["nets:broken"], "called without arguments, failed: KeyError: 'weights'"),
    "no module returned": (["nets:text"], "returns an object of type str"),
    "outputs do not fit labels": (["nets:wide"], "gives outputs of shape (2, 4) for 2 examples of dots"),
    "inputs do not fit": (["nets:other"], "does not take the inputs of dots, of shape (2, 2, 2)"),
    "two outputs": (["nets:pair"], "an object of type tuple where one tensor of outputs is needed"),
    "no such data set": (["nets:small", "--data", "dotz"], "did you mean dots"),
    "unavailable": (["nets:small", "--data", "lost"], "The data set lost is not available"),
    "no such measure": (["nets:small", "--what", "loss,hess"], "'hess' is not a measure"),
    "no such split": (["nets:small", "--split", "validation"], "'validation' is not a split"),
    "no such loss": (["nets:small", "--loss", "hinge"], "'hinge' is not a loss"),
    "too many images": (["nets:small", "--images", "61"], "choose 1 to 60"),
    "relative error": (["nets:small", "--relative-error", "0"], "must lie between 0 and 1"),
    "budget": (["nets:small", "--budget", "nan"], "must be a positive number"),
    "plot": (["nets:small", "--plot", "s.pdf"], "name a file that ends in .svg or .png"),
    "no tokenizer": (["nets:Reads", "--data", "texts", "--tokenizer", "no.json"], "There is no tokenizer no.json."),
    "rubbish for a tokenizer": (["nets:Reads", "--data", "texts", "--tokenizer", "rubbish.pt"], "read as a tokenizer"),
    "a tokenizer for images": (["nets:small", "--tokenizer", "vocab.txt"], "dots holds no texts"),
    "no checkpoint": (["nets:small", "--checkpoint", "no.pt"], "There is no checkpoint no.pt."),
    "no checkpoint's ending": (["nets:small", "--checkpoint", "w.bin"], "must end in .safetensors, .pt or .pth"),
    "another model's": (["nets:wide", "--checkpoint", "w.pt"], "gives outputs of shape"),
    "keys": (["nets:Tied", "--checkpoint", "w.pt"], "it lacks 'first.weight' and 5 more; the model has no '1.weight'"),
    "shapes": (["nets:small", "--checkpoint", "shape.pt"], "'1.bias' has shape (6,) there and (5,) in the model"),
    "NaN": (["nets:small", "--checkpoint", "nan.safetensors"], "Parameter '1.bias' holds NaN or infinite values."),
    "pickled": (["nets:small", "--checkpoint", "whole.pt"], "it holds more than weights"),
    "no weights": (["nets:small", "--checkpoint", "list.pt"], "list.pt holds no weights"),
    "meta": (["nets:small", "--checkpoint", "meta.pt"], "'1.bias' is on the meta device, which holds no numbers"),
    "sparse": (["nets:small", "--checkpoint", "sparse.pt"], "'1.bias' is stored as sparse_coo: make it dense first"),
    "quantised": (["nets:small", "--checkpoint", "quantised.pt"], "'1.bias' is quantised: dequantise it first"),
    "complex": (["nets:small", "--checkpoint", "complex.safetensors"], "'1.bias' is complex: curvature is measured of"),
    "a model on meta": (["nets:on_meta"], "nets:on_meta: the parameter 'weight' is on the meta device"),
    "a complex model": (["nets:of_complex_numbers"], "the parameter 'weight' is complex"),
    "a key that lacks": (
        ["nets:lacks_a_key"],
        "does not take the inputs of dots, of shape (2, 2, 2): KeyError: 'logits'",
    ),
    "an end": (["nets:ends_the_process"], "the inputs of dots, of shape (2, 2, 2): SystemExit: 0"),
    "a spectrum": (
        ["nets:takes_two", "--plot", "s.svg"],
        "does not take inputs [4, 2, 2, 2] of float32: IndexError: the third",
    ),
    "rubbish": (["nets:small", "--checkpoint", "rubbish.pt"], "cannot be read as weights"),
    "rubbish too": (["nets:small", "--checkpoint", "rubbish.safetensors"], "cannot be read as weights"),
}


def test_a_mistake_is_one_sentence_and_exit_code_2(place: Path, measure: Measure) -> None:
    model = make("small")
    weights = model.state_dict()
    torch.save(weights, "w.pt")
    torch.save(weights | {"1.bias": torch.zeros(6)}, "shape.pt")
    save_file(weights | {"1.bias": torch.full((5,), float("nan"))}, "nan.safetensors")
    torch.save(weights | {"1.bias": torch.zeros(5, device="meta")}, "meta.pt")
    torch.save(weights | {"1.bias": torch.zeros(5).to_sparse()}, "sparse.pt")
    torch.save(weights | {"1.bias": torch.quantize_per_tensor(torch.zeros(5), 0.1, 0, torch.qint8)}, "quantised.pt")
    save_file(weights | {"1.bias": torch.zeros(5, dtype=torch.complex64)}, "complex.safetensors")
    torch.save(model, "whole.pt")
    torch.save([torch.zeros(1)], "list.pt")
    for name in ("rubbish.pt", "rubbish.safetensors", "w.bin"):
        Path(name).write_text("rubbish")
    for mistake, (arguments, sentence) in MISTAKES.items():
        data = [] if "--data" in arguments else ["--data", "dots"]
        done = measure(*arguments, *data)
        assert (done.code, done.out) == (2, ""), mistake
        assert sentence in done.err, (mistake, done.err)
        assert done.err.startswith("replicate: "), mistake
        assert len(done.err.splitlines()) == 1, (mistake, done.err)
        assert done.err.rstrip()[-1] in ".?", (mistake, done.err)
