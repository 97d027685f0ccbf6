"""Rules for layers whose parameters act linearly: z = layer(a; θ).

With the layer's input a and the derivative δ by its output z, the gradient of an example by θ is a product of the
two. So gradients of all examples, their norms and their squares follow from one backward pass to the activations,
without ever forming a gradient per example where that can be avoided ("ghost norms").

`probe` gives layer(V; a) for random signs V of each example's own: Vₙ = V ∘ rₙ sₙᵀ with signs rₙ, sₙ that differ
between examples. Given V, products over two examples average to zero, so quadratic forms of different examples are
uncorrelated, and one pass over n examples makes n uncorrelated estimates of the trace. A parameter that acts in several
places needs the same Vₙ in all of them: `ExampleSigns`, which `along` takes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from common.hessian.random import signs
from common.hessian.unfold import output_size, unfold

Tensors = dict[str, torch.Tensor]

CACHE = 8 << 20
"""Bytes that a block of intermediate results should not exceed."""
FEW_POSITIONS = 8
"""Positions of a sequence up to which squares of gradients are summed over pairs of them."""


@dataclass(frozen=True)
class ExampleSigns:
    """Vₙ = V ∘ rₙ sₙᵀ for a parameter [k, …], of each example n.

    Attributes:
        table: V [k, rest], or None where the parameter has one axis and Vₙ = rₙ.
        rows: rₙ [n, k].
        columns: sₙ [n, rest].
    """

    table: torch.Tensor | None
    rows: torch.Tensor
    columns: torch.Tensor | None

    @classmethod
    def drawn(cls, shape: torch.Size, count: int, source: torch.Generator, like: torch.Tensor) -> "ExampleSigns":
        """For a parameter of this shape and `count` examples."""
        if len(shape) == 1:
            return cls(None, signs((count, *shape), source, like), None)
        rest = shape[1:].numel()
        table, rows = signs((shape[0], rest), source, like), signs((count, shape[0]), source, like)
        return cls(table, rows, signs((count, rest), source, like))


Draw = Callable[[str], ExampleSigns | None]
"""The signs of the layer's 'weight' or 'bias'; None for what counts as zero."""


class Rule:
    """What is computed for one kind of layer, from what `prepare` makes of its inputs (`a`, [n, …]) and the
    derivatives by its outputs (`d`, [n, …])."""

    @staticmethod
    def prepare(layer: Any, inputs: torch.Tensor) -> torch.Tensor:
        """What the other functions take as `a`; `probe` takes the inputs themselves."""
        return inputs

    @staticmethod
    def gradients(layer: Any, a: torch.Tensor, d: torch.Tensor) -> Tensors:
        """Gradient of each example, [n, *shape of the parameter], by name of the parameter in the layer."""
        raise NotImplementedError

    @classmethod
    def norms(cls, layer: Any, a: torch.Tensor, d: torch.Tensor) -> Tensors:
        """Squared norm of each example's gradient [n]."""
        return {k: g.flatten(1).square().sum(1) for k, g in cls.gradients(layer, a, d).items()}

    @classmethod
    def summed_norms(cls, layer: Any, a: torch.Tensor, d: Sequence[torch.Tensor], sign: torch.Tensor) -> Tensors:
        """Σ_nc signₙc ‖gradient of example n for derivatives c‖², one number each; d C times [n, …], sign [n, C]."""
        total: Tensors = {}
        for some, signed in zip(d, sign.unbind(1), strict=True):
            for name, norms in cls.norms(layer, a, some).items():
                value = (norms.double() * signed).sum()
                total[name] = total[name] + value if name in total else value
        return total

    @classmethod
    def squares(cls, layer: Any, a: torch.Tensor, d: torch.Tensor) -> Tensors:
        """Σ_n (gradient of example n)², in the shape of the parameter."""
        return {k: g.square().sum(0) for k, g in cls.gradients(layer, a, d).items()}

    @classmethod
    def norms_and_squares(cls, layer: Any, a: torch.Tensor, d: torch.Tensor) -> tuple[Tensors, Tensors]:
        """Both from one gradient of each example."""
        squares = {k: g.flatten(1).square() for k, g in cls.gradients(layer, a, d).items()}
        return {k: g.sum(1) for k, g in squares.items()}, {k: g.sum(0) for k, g in squares.items()}

    @staticmethod
    def probe(layer: Any, a: torch.Tensor, source: torch.Generator, needs: tuple[bool, bool]) -> torch.Tensor:
        """layer(Vₙ; aₙ) for random signs Vₙ in place of (weight, bias); those not in `needs` count as zero."""
        raise NotImplementedError

    @staticmethod
    def along(layer: Any, a: torch.Tensor, draw: Draw) -> torch.Tensor:
        """layer(Vₙ; aₙ) for given signs, differentiable in a."""
        raise NotImplementedError


class LinearRule(Rule):
    """z = W a + b over the last axis; a [n, i] or [n, …, i]."""

    @staticmethod
    def gradients(layer: nn.Linear, a: torch.Tensor, d: torch.Tensor) -> Tensors:
        a, d = _positions(a), _positions(d)
        return {"weight": torch.bmm(d.transpose(1, 2), a), "bias": d.sum(1)}

    @classmethod
    def norms(cls, layer: nn.Linear, a: torch.Tensor, d: torch.Tensor) -> Tensors:
        if a.ndim == 2:
            squared = d.square().sum(1)
            return {"weight": squared * a.square().sum(1), "bias": squared}
        a, d = _positions(a), _positions(d)
        length = a.shape[1]
        if length * (a.shape[2] + d.shape[2]) < a.shape[2] * d.shape[2]:
            weight = (torch.bmm(a, a.transpose(1, 2)) * torch.bmm(d, d.transpose(1, 2))).sum((1, 2))
        else:
            weight = torch.bmm(d.transpose(1, 2), a).square_().sum((1, 2))
        return {"weight": weight, "bias": d.sum(1).square_().sum(1)}

    @classmethod
    def squares(cls, layer: nn.Linear, a: torch.Tensor, d: torch.Tensor) -> Tensors:
        if a.ndim == 2:
            squared = d.square()
            return {"weight": squared.T @ a.square(), "bias": squared.sum(0)}
        a, d = _positions(a), _positions(d)
        weight = torch.zeros_like(layer.weight)
        if a.shape[1] <= FEW_POSITIONS:  # (Σ_t d_t a_tᵀ)² = Σ_{t, u} (d_t d_u)(a_t a_u)ᵀ, entry by entry
            for t in range(a.shape[1]):
                for u in range(t + 1):
                    weight.addmm_((d[:, t] * d[:, u]).T, a[:, t] * a[:, u], alpha=1.0 if t == u else 2.0)
        else:
            size = max(1, CACHE // (4 * weight.numel()))
            for some_a, some_d in zip(a.split(size), d.split(size), strict=True):
                weight += torch.bmm(some_d.transpose(1, 2), some_a).square_().sum(0)
        return {"weight": weight, "bias": d.sum(1).square_().sum(0)}

    @classmethod
    def norms_and_squares(cls, layer: nn.Linear, a: torch.Tensor, d: torch.Tensor) -> tuple[Tensors, Tensors]:
        return cls.norms(layer, a, d), cls.squares(layer, a, d)

    @staticmethod
    def probe(layer: nn.Linear, a: torch.Tensor, source: torch.Generator, needs: tuple[bool, bool]) -> torch.Tensor:
        out, middle = layer.weight.shape[0], (1,) * (a.ndim - 2)
        if a.ndim == 2:  # rows of V are independent, so z has independent entries of variance ‖a‖² (+ 1)
            variance = needs[0] * a.square().sum(1, keepdim=True) + float(needs[1])
            return signs((len(a), out), source, a) * variance.sqrt()
        result = torch.zeros((), dtype=a.dtype, device=a.device)
        if needs[0]:
            flipped = a * signs((len(a), *middle, a.shape[-1]), source, a)
            result = functional.linear(flipped, signs(layer.weight.shape, source, a))
            result = result * signs((len(a), *middle, out), source, a)
        return result + signs((len(a), *middle, out), source, a) if needs[1] else result

    @staticmethod
    def along(layer: nn.Linear, a: torch.Tensor, draw: Draw) -> torch.Tensor:
        weight, bias, middle = draw("weight"), draw("bias"), (1,) * (a.ndim - 2)
        result = torch.zeros((), dtype=a.dtype, device=a.device)
        if weight is not None and weight.table is not None and weight.columns is not None:
            flipped = a * weight.columns.view(len(a), *middle, -1)
            result = functional.linear(flipped, weight.table) * weight.rows.view(len(a), *middle, -1)
        return result if bias is None else result + bias.rows.view(len(a), *middle, -1)


class ConvolutionRule(Rule):
    """Two-dimensional convolution with zero padding and one group."""

    @staticmethod
    def gradients(layer: nn.Conv2d, a: torch.Tensor, d: torch.Tensor) -> Tensors:
        weight = torch.bmm(d.flatten(2), unfold(layer, a).transpose(1, 2))
        return {"weight": weight.view(len(a), *layer.weight.shape), "bias": d.sum((2, 3))}

    @classmethod
    def norms(cls, layer: nn.Conv2d, a: torch.Tensor, d: torch.Tensor) -> Tensors:
        parts = [g.square_().sum((1, 2)) for g in cls._weight_gradients(layer, a, d)]
        return {"weight": torch.cat(parts), "bias": d.sum((2, 3)).square_().sum(1)}

    @classmethod
    def summed_norms(cls, layer: nn.Conv2d, a: torch.Tensor, d: Sequence[torch.Tensor], sign: torch.Tensor) -> Tensors:
        """The patches of an image serve all C derivatives; with few positions of the kernel t, u, the sum is
        Σ_tu ⟨aₜ, aᵤ⟩ Σ_c ± ⟨d_ct, d_cu⟩ (Goodfellow 2015)."""
        count, out, columns, positions = *d[0].shape[:2], len(d), d[0].shape[2] * d[0].shape[3]
        width = layer.weight[0].numel()
        by_positions = positions * (width + columns * out) < columns * out * width
        signs_of = sign[:, :, None].expand(count, columns, out).reshape(count, -1, 1)
        bias = (torch.stack([of.sum((2, 3)).square().sum(1) for of in d], dim=1).double() * sign).sum()
        total = torch.zeros((), dtype=torch.float64, device=a.device)
        size = max(1, CACHE // (4 * (width * positions + columns * out * min(positions, width))))
        parts = zip(a.split(size), *(of.flatten(2).split(size) for of in d), strict=True)
        for (some_a, *some_d), signed in zip(parts, signs_of.split(size), strict=True):
            patches, some = unfold(layer, some_a), torch.cat(some_d, dim=1)
            if by_positions:
                kernel = torch.bmm(patches.transpose(1, 2), patches)
                total += (torch.bmm((some * signed).transpose(1, 2), some) * kernel).sum((1, 2)).double().sum()
            else:
                squares = torch.bmm(some, patches.transpose(1, 2)).square_().sum(2, keepdim=True)
                total += (squares * signed).double().sum()
        return {"weight": total, "bias": bias}

    @classmethod
    def squares(cls, layer: nn.Conv2d, a: torch.Tensor, d: torch.Tensor) -> Tensors:
        return cls.norms_and_squares(layer, a, d)[1]

    @classmethod
    def norms_and_squares(cls, layer: nn.Conv2d, a: torch.Tensor, d: torch.Tensor) -> tuple[Tensors, Tensors]:
        norms, total = [], torch.zeros_like(layer.weight).flatten(1)
        for gradient in cls._weight_gradients(layer, a, d):
            squares = gradient.square_()
            norms.append(squares.sum((1, 2)))
            total += squares.sum(0)
        bias = d.sum((2, 3)).square_()
        return {"weight": torch.cat(norms), "bias": bias.sum(1)}, {"weight": total, "bias": bias.sum(0)}

    @staticmethod
    def _weight_gradients(layer: nn.Conv2d, a: torch.Tensor, d: torch.Tensor) -> Iterator[torch.Tensor]:
        """In blocks of examples whose patches stay in the cache: several times as fast as all at once."""
        each = 4 * layer.weight[0].numel() * d.shape[2] * d.shape[3]
        size = max(1, CACHE // each)
        for some_a, some_d in zip(a.split(size), d.split(size), strict=True):
            yield torch.bmm(some_d.flatten(2), unfold(layer, some_a).transpose(1, 2))

    @staticmethod
    def probe(layer: nn.Conv2d, a: torch.Tensor, source: torch.Generator, needs: tuple[bool, bool]) -> torch.Tensor:
        out = (len(a), layer.out_channels, 1, 1)
        result = torch.zeros((), dtype=a.dtype, device=a.device)
        if needs[0]:
            width = layer.weight[0].numel()
            kernel, flips = signs((layer.out_channels, width), source, a), signs((len(a), width, 1), source, a)
            rows, columns = output_size(layer, a)
            size = max(1, CACHE // (4 * width * rows * columns))
            parts = [
                torch.matmul(kernel, unfold(layer, some) * flip)
                for some, flip in zip(a.split(size), flips.split(size), strict=True)
            ]
            result = torch.cat(parts).view(*out[:2], rows, columns) * signs(out, source, a)
        return result + signs(out, source, a) if needs[1] else result

    @staticmethod
    def along(layer: nn.Conv2d, a: torch.Tensor, draw: Draw) -> torch.Tensor:
        weight, bias, out = draw("weight"), draw("bias"), (len(a), layer.out_channels, 1, 1)
        result = torch.zeros((), dtype=a.dtype, device=a.device)
        if weight is not None and weight.table is not None and weight.columns is not None:
            found = torch.matmul(weight.table, unfold(layer, a) * weight.columns[:, :, None])
            result = found.view(*out[:2], *output_size(layer, a)) * weight.rows.view(out)
        return result if bias is None else result + bias.rows.view(out)


class NormalisationRule(Rule):
    """z = γ ∘ â + β with â free of parameters: BatchNorm in evaluation mode, LayerNorm, GroupNorm, RMSNorm."""

    @staticmethod
    def prepare(layer: Any, inputs: torch.Tensor) -> torch.Tensor:
        return normalised(layer, inputs)

    @staticmethod
    def gradients(layer: Any, a: torch.Tensor, d: torch.Tensor) -> Tensors:
        axes = _summed_axes(layer, a)
        weight = d * a
        return {"weight": weight.sum(axes), "bias": d.sum(axes)} if axes else {"weight": weight, "bias": d}

    @staticmethod
    def probe(layer: Any, a: torch.Tensor, source: torch.Generator, needs: tuple[bool, bool]) -> torch.Tensor:
        axes = _summed_axes(layer, a)
        shape = [1 if axis in axes else length for axis, length in enumerate(a.shape)]
        result = torch.zeros((), dtype=a.dtype, device=a.device)
        if needs[0]:
            result = signs(shape, source, a) * normalised(layer, a)
        return result + signs(shape, source, a) if needs[1] else result

    @staticmethod
    def along(layer: Any, a: torch.Tensor, draw: Draw) -> torch.Tensor:
        axes = _summed_axes(layer, a)
        shape = [1 if axis in axes else length for axis, length in enumerate(a.shape)]
        weight, bias = (_of_examples(found, shape) if (found := draw(part)) else None for part in ("weight", "bias"))
        result = torch.zeros((), dtype=a.dtype, device=a.device) if weight is None else weight * normalised(layer, a)
        return result if bias is None else result + bias


class EmbeddingRule(Rule):
    """Rows of a table; a [n, …] are indices, which may repeat within an example."""

    @staticmethod
    def gradients(layer: nn.Embedding, a: torch.Tensor, d: torch.Tensor) -> Tensors:
        tokens, d = a.reshape(len(a), -1), d.reshape(len(a), -1, d.shape[-1])
        weight = d.new_zeros(len(a), *layer.weight.shape)
        weight.scatter_add_(1, tokens[..., None].expand_as(d), d)
        if layer.padding_idx is not None:
            weight[:, layer.padding_idx] = 0
        return {"weight": weight}

    @classmethod
    def norms(cls, layer: nn.Embedding, a: torch.Tensor, d: torch.Tensor) -> Tensors:
        tokens, d = _tokens(layer, a, d)
        same = (tokens[:, :, None] == tokens[:, None, :]).to(d)
        return {"weight": (same * torch.bmm(d, d.transpose(1, 2))).sum((1, 2))}

    @classmethod
    def squares(cls, layer: nn.Embedding, a: torch.Tensor, d: torch.Tensor) -> Tensors:
        tokens, d = _tokens(layer, a, d)
        same = (tokens[:, :, None] == tokens[:, None, :]).to(d)
        # a token that occurs k times in an example has the summed derivative at k places: divide by k
        combined = torch.bmm(same, d).square_() / same.sum(2, keepdim=True)
        weight = torch.zeros_like(layer.weight)
        return {"weight": weight.index_add_(0, tokens.reshape(-1), combined.flatten(0, 1))}

    @staticmethod
    def probe(layer: nn.Embedding, a: torch.Tensor, source: torch.Generator, needs: tuple[bool, bool]) -> torch.Tensor:
        table = signs(layer.weight.shape, source, layer.weight)
        if layer.padding_idx is not None:
            table[layer.padding_idx] = 0
        tokens = a.reshape(len(a), -1)
        first = (tokens[:, :, None] == tokens[:, None, :]).to(torch.uint8).argmax(2)
        of_token = signs(tokens.shape, source, table).gather(1, first).view(*a.shape, 1)  # equal for equal tokens
        return table[a] * of_token * signs((len(a), *(1,) * (a.ndim - 1), table.shape[1]), source, table)

    @staticmethod
    def along(layer: nn.Embedding, a: torch.Tensor, draw: Draw) -> torch.Tensor:
        weight = draw("weight")
        if weight is None or weight.table is None or weight.columns is None:
            raise ValueError("An embedding has a table of two axes and nothing else.")
        of_token = weight.rows.gather(1, a.reshape(len(a), -1)).view(*a.shape, 1)
        if layer.padding_idx is not None:
            of_token = of_token * (a != layer.padding_idx)[..., None].to(of_token)
        return weight.table[a] * of_token * weight.columns.view(len(a), *(1,) * (a.ndim - 1), -1)


def rule_of(layer: nn.Module) -> type[Rule] | None:
    """The rule for a layer, or None."""
    kind = type(layer)
    if kind is nn.Linear:
        return LinearRule
    if kind is nn.Conv2d:
        plain = layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
        return ConvolutionRule if plain else None
    if kind in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm):
        return NormalisationRule
    if kind is nn.Embedding:
        plain = layer.max_norm is None and not layer.scale_grad_by_freq and not layer.sparse
        return EmbeddingRule if plain else None
    return None


def normalised(layer: Any, a: torch.Tensor) -> torch.Tensor:
    """â: what the layer multiplies by its weight."""
    if isinstance(layer, nn.LayerNorm):
        return functional.layer_norm(a, layer.normalized_shape, eps=layer.eps)
    if isinstance(layer, nn.RMSNorm):
        return functional.rms_norm(a, layer.normalized_shape, eps=layer.eps)
    if isinstance(layer, nn.GroupNorm):
        return functional.group_norm(a, layer.num_groups, eps=layer.eps)
    return functional.batch_norm(a, layer.running_mean, layer.running_var, eps=layer.eps)


def _of_examples(found: ExampleSigns, shape: Sequence[int]) -> torch.Tensor:
    """Signs of a weight of a normalisation, in this shape of each example's."""
    if found.table is None or found.columns is None:
        return found.rows.view(shape)
    return (found.table * found.rows[:, :, None] * found.columns[:, None, :]).view(shape)


def _positions(tensor: torch.Tensor) -> torch.Tensor:
    """[n, …, k] as [n, positions, k]."""
    return tensor.reshape(len(tensor), -1, tensor.shape[-1])


def _tokens(layer: nn.Embedding, a: torch.Tensor, d: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    tokens, d = a.reshape(len(a), -1), d.reshape(len(a), -1, d.shape[-1])
    if layer.padding_idx is not None:
        d = d * (tokens != layer.padding_idx)[..., None].to(d)
    return tokens, d


def _summed_axes(layer: Any, a: torch.Tensor) -> tuple[int, ...]:
    """Axes of the activations, other than that of the examples, along which the weight is constant."""
    if isinstance(layer, nn.LayerNorm | nn.RMSNorm):
        return tuple(range(1, a.ndim - len(layer.normalized_shape)))
    return tuple(range(2, a.ndim))
