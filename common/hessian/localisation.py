"""Which module of a model has wrong derivatives: each is examined on its own, from the model down.

A module is taken as a function of its own inputs and parameters at the inputs that it got in one pass. Where a module
is wrong and none of those inside it is, it is the one.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

from common.hessian.derivative_check import directions, examine, padding_rows, sizes_of, wave
from common.hessian.double_backward import custom_functions
from common.hessian.random import generator
from common.memory import shortage

Call = tuple[tuple[Any, ...], dict[str, Any]]


def culprit(model: nn.Module, setting: Callable[[], AbstractContextManager[None]], forward: Callable[[], Any]) -> str:
    """Name, kind and custom autograd function of the innermost module that is wrong; "" if none is on its own.

    Args:
        setting: in which the model and its parts are called.
        forward: a pass through the model, in the type in which the modules are to be examined; their parameters are
            the check's own (`Sample.weights`).
    """
    calls: dict[nn.Module, Call] = {}

    def remember(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if module not in calls:
            calls[module] = tree_map(_copied, args), tree_map(_copied, kwargs)

    handles = [module.register_forward_pre_hook(remember, with_kwargs=True) for module in _hookable(model)]
    try:
        with torch.no_grad():
            forward()
    finally:
        for handle in handles:
            handle.remove()
    names = {module: name for name, module in model.named_modules()}

    def innermost(module: nn.Module) -> nn.Module | None:
        inner = (found for child in module.children() if (found := innermost(child)) is not None)
        here = next(inner, None)
        return module if here is None and module in calls and is_wrong(module, calls[module]) else here

    with setting():
        found = innermost(model)
        return "" if found is None else described(names[found], found, _custom(found, calls[found]))


def described(name: str, module: nn.Module, custom: list[str]) -> str:
    """As a sentence names it."""
    name = name.split(".parametrizations.")[0]
    inside = f" with the custom autograd function {custom[0]}" if custom else ""
    return f"the module {name!r} ({type(module).__name__}){inside}" if name else f"the model itself{inside}"


def is_wrong(module: nn.Module, call: Call) -> bool:
    """Whether its derivatives by its inputs and parameters differ from differences, or cannot be computed."""
    try:
        variables, value = _function(module, call)
        sizes = sizes_of(variables)
        vectors = [directions(variables, sizes, generator(1))]
        for place, row in padding_rows(module, variables):
            vectors[0][place][row] = 0
    except (RuntimeError, TypeError, ValueError, AttributeError, KeyError) as error:
        if shortage(error) is not None:
            raise
        return False  # it does not work on its own
    try:
        return bool(examine(value, variables, vectors, sizes).wrong)
    except RuntimeError as error:
        if shortage(error) is not None:
            raise
        return True


def _function(module: nn.Module, call: Call) -> tuple[list[torch.Tensor], Callable[[], torch.Tensor]]:
    inputs = [leaf for leaf in tree_leaves(call) if _is_float(leaf)]
    variables = [leaf.detach().clone().requires_grad_() for leaf in inputs]
    replaced = {id(leaf): variable for leaf, variable in zip(inputs, variables, strict=True)}
    variables += [parameter for parameter in module.parameters() if parameter.requires_grad]

    def outputs() -> list[torch.Tensor]:
        def put(leaf: Any) -> Any:
            return replaced[id(leaf)] * 1 if id(leaf) in replaced else leaf

        args, kwargs = tree_map(put, call[0]), tree_map(put, call[1])
        return [leaf for leaf in tree_leaves(module(*args, **kwargs)) if _is_float(leaf)]

    with torch.no_grad():
        number = wave(outputs(), generator(2))
    if not variables:
        raise ValueError("It has neither inputs nor parameters to differentiate by.")
    return variables, lambda: number(outputs())


def _custom(module: nn.Module, call: Call) -> list[str]:
    try:
        with torch.enable_grad():
            return [name for name in custom_functions(_function(module, call)[1]()) if name != "BackwardHookFunction"]
    except RuntimeError:
        return []


def _hookable(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if not isinstance(module, torch.jit.ScriptModule)]


def _copied(leaf: Any) -> Any:
    return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf


def _is_float(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
