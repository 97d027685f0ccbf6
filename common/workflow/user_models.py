"""A user's own model: made by a factory, its weights read from a file, its outputs held against the data's classes."""

import difflib
import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from common.datasets import Dataset
from common.datasets.homes import make_importable
from common.errors import UserError
from common.hessian.chunks import Inputs

NESTED = ("state_dict", "model_state_dict", "model")
"""Keys under which training scripts put the weights in a .pt file, beside the optimiser's state and such."""


def load_model(name: str, seed: int = 0) -> nn.Module:
    """The model that `module:factory` makes, imported from the working directory first, in evaluation mode.

    Torch's generator is seeded before, so that weights which no checkpoint replaces are the same again.
    """
    make_importable()  # transformers and others import torchvision
    module_name, _, factory_name = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise UserError(f"There is no module {error.name!r} in {here} or among the installed ones.") from error
        raise UserError(f"The module {module_name!r} cannot be imported: {one_line(error)}.") from error
    except (Exception, SystemExit) as error:  # whatever the user's code does
        raise UserError(f"The module {module_name!r} cannot be imported: {named(error)}.") from error
    if not hasattr(module, factory_name):
        close = difflib.get_close_matches(factory_name, dir(module), n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        raise UserError(f"The module {module_name!r} has no {factory_name!r}{hint}")
    factory = getattr(module, factory_name)
    if not callable(factory):
        raise UserError(f"{name} is not callable but {_kind_of(factory)}: name a function that returns the model.")
    torch.manual_seed(seed)
    try:
        model = factory if isinstance(factory, nn.Module) else factory()
    except (Exception, SystemExit) as error:  # whatever the user's code does
        raise UserError(f"{name}, called without arguments, failed: {named(error)}.") from error
    if not isinstance(model, nn.Module):
        raise UserError(f"{name} returns {_kind_of(model)}, not a torch.nn.Module.")
    for parameter, value in model.named_parameters():
        if problem := _not_plain(value):
            raise UserError(f"{name}: the parameter {parameter!r} {problem}.")
    return model.eval()


def read_checkpoint(path: Path) -> dict[str, torch.Tensor]:
    """Tensors by name of a .safetensors file, or of a .pt or .pth file that holds nothing but weights and numbers."""
    if path.suffix not in (".safetensors", ".pt", ".pth"):
        raise UserError(f"{path} is not a checkpoint: its name must end in .safetensors, .pt or .pth.")
    if not path.is_file():
        raise UserError(f"There is no checkpoint {path}.")
    content: Any
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            content = load_file(path)
        else:
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # unpickling fails in many ways
        if "weights_only" in str(error).lower() or "weights only" in str(error).lower():
            reason = "it holds more than weights (save model.state_dict(), not the model)"
        else:
            reason = named(error)
        raise UserError(f"{path} cannot be read as weights: {reason}.") from error
    for key in NESTED:
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    if not isinstance(content, Mapping) or not all(isinstance(value, torch.Tensor) for value in content.values()):
        raise UserError(f"{path} holds no weights: save model.state_dict(), alone or under the key 'state_dict'.")
    for name, value in content.items():
        if problem := _not_plain(value):
            raise UserError(f"{path}: {name!r} {problem}.")
    return dict(content)


def _not_plain(value: torch.Tensor) -> str | None:
    """Why a tensor cannot be a weight that curvature is measured at, None if it can."""
    if is_lazy(value):
        return None
    if value.is_meta:
        return "is on the meta device, which holds no numbers: save it from a model that has been initialised"
    if value.is_quantized:
        return "is quantised: dequantise it first"
    if value.layout != torch.strided:
        return f"is stored as {str(value.layout).removeprefix('torch.')}: make it dense first (to_dense())"
    if value.is_complex():
        return "is complex: curvature is measured of real weights"
    return None


class Logits(nn.Module):
    """The `logits` of a model that returns more, as those of `transformers` do."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: torch.Tensor, **named_inputs: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(*inputs, **named_inputs).logits
        return logits


def with_tensor_outputs(name: str, model: nn.Module, inputs: Inputs, dataset: Dataset) -> nn.Module:
    """The model, or its `Logits` if it returns more than a tensor.

    Raises:
        UserError: the model, called `name`, does not give one output for each class of these inputs of `dataset`.
    """
    by_name = isinstance(inputs, dict)
    shape = ", ".join(inputs) if by_name else f"of shape {tuple(inputs.shape[1:])}"
    count = len(next(iter(inputs.values())) if by_name else inputs)
    try:
        with torch.no_grad():
            outputs = model(**inputs) if by_name else model(inputs)
    except (Exception, SystemExit) as error:  # whatever the user's code does
        raise UserError(f"{name} does not take the inputs of {dataset.name}, {shape}: {named(error)}.") from error
    if isinstance(getattr(outputs, "logits", None), torch.Tensor):
        model, outputs = Logits(model), outputs.logits
    if not isinstance(outputs, torch.Tensor):
        raise UserError(f"{name} gives {_kind_of(outputs)} where one tensor of outputs is needed.")
    if outputs.shape != (count, dataset.classes):
        raise UserError(
            f"{name} gives outputs of shape {tuple(outputs.shape)} for {count} examples of "
            f"{dataset.name}, which does not fit its labels: ({count}, {dataset.classes}) is needed, one output "
            "for each class."
        )
    return model


def tokenised(texts: list[str], path: Path, length: int) -> dict[str, torch.Tensor]:
    """Texts (a pair separated by a tab) as what a text model of `transformers` takes, each [n, length at most].

    Args:
        path: tokenizer.json of a saved tokenizer, or vocab.txt of an uncased WordPiece one.
        length: tokens at which texts are cut off.

    Raises:
        UserError: no such file, or none that holds a tokenizer; the package tokenizers is not installed.
    """
    try:
        from tokenizers import BertWordPieceTokenizer, Tokenizer
    except ModuleNotFoundError as error:
        raise UserError("--tokenizer needs the package tokenizers: install the extra `full`.") from error
    if not path.is_file():
        raise UserError(f"There is no tokenizer {path}.")
    try:
        uncased = path.suffix == ".txt"
        tokenizer = BertWordPieceTokenizer(str(path), lowercase=True) if uncased else Tokenizer.from_file(str(path))
    except Exception as error:  # of a type of its own
        raise UserError(f"{path} cannot be read as a tokenizer: {one_line(error)}.") from error
    tokenizer.enable_truncation(length)
    if tokenizer.padding is None:
        tokenizer.enable_padding()
    found = tokenizer.encode_batch([tuple(text.split("\t", 1)) if "\t" in text else text for text in texts])
    columns = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
    inputs = {name: torch.tensor([getattr(row, column) for row in found]) for name, column in columns.items()}
    if not inputs["token_type_ids"].any():
        del inputs["token_type_ids"]
    return inputs


def load_weights(model: nn.Module, weights: dict[str, torch.Tensor], path: Path) -> None:
    """Put weights that were read from `path` into the model; a `UserError` says which names or shapes do not fit.

    Names may hold what `torch.compile` and data parallelism put into them, or lack it.
    """
    state = model.state_dict(keep_vars=True)
    weights = _under_the_names_of(state, weights)
    held = {id(state[name]) for name in weights if name in state}  # of tied parameters a file may hold one
    lacks = [name for name, value in state.items() if name not in weights and id(value) not in held]
    unknown = [name for name in weights if name not in state]
    shapes = [
        f"{name!r} has shape {tuple(value.shape)} there and {tuple(state[name].shape)} in the model"
        for name, value in weights.items()
        if name in state and value.shape != state[name].shape
    ]
    wrong = [
        *([f"it lacks {_some(lacks)}"] if lacks else []),
        *([f"the model has no {_some(unknown)}"] if unknown else []),
        *shapes[:1],
    ]
    if wrong:
        raise UserError(f"{path} does not fit the model: {'; '.join(wrong)}.")
    model.load_state_dict(weights, strict=False)


def _under_the_names_of(state: dict[str, Any], weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Weights under the names that the model has for them, where only wrappers tell the two apart."""
    if set(weights) <= set(state):
        return weights
    places = {_unwrapped(name): name for name in state}
    found = {places.get(_unwrapped(name), name): value for name, value in weights.items()}
    return found if len(found) == len(weights) and len(places) == len(state) else weights


def _unwrapped(name: str) -> str:
    """A parameter's name without the `_orig_mod` of compiled modules and the `module` of a parallel one.

    Example:
        >>> _unwrapped("module._orig_mod.layer.weight"), _unwrapped("_orig_mod.module.weight")
        ('layer.weight', 'weight')
    """
    return ".".join(part for part in name.split(".") if part != "_orig_mod").removeprefix("module.")


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]!r}{more}"


def _kind_of(value: object) -> str:
    return f"an object of type {type(value).__name__}"


def named(error: BaseException) -> str:
    """An error's kind and the first line of its message."""
    return f"{type(error).__name__}: {one_line(error)}" if str(error) else type(error).__name__


def one_line(error: BaseException, whole: bool = False) -> str:
    """An error's message, or its first line, without the full stop that the sentence around it sets."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return " ".join(" ".join(lines if whole else lines[:1]).split()).rstrip("." if not whole else "")
