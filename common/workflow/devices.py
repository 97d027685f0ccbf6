"""Seconds that counted operations take: on a core of a calibrated machine, and on a GPU of which a data sheet is known.

On a core operations add up: each costs its start, a product its floating-point operations at the rate of its kind,
everything else the bytes that it moves. The rates are those of the pieces of work that a calibration times
(`common.experiments.calibration`).

On a GPU the host starts operations one after the other while the device works. It takes at least the longer of both,
with the device at its peak, and at most their sum, with a start twice as dear (the driver's part of it) and each kind
of product as far below the peak as it stays on a core behind large products. Between them stands their geometric mean.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from common.errors import UserError
from common.files import read_json

Amounts = Mapping[str, float]
"""What `common.experiments.operations.CountedOperations` counts."""

PIECES: Mapping[str, Amounts] = {
    "large_products": {"operations": 1, "products": 268435456},
    "layer_products": {"operations": 18, "products": 376320000},
    "batched_products": {"operations": 36, "batched_products": 201326592},
    "convolutions": {"operations": 30, "convolutions": 226492416, "bytes": 17301552},
    "elementwise": {"operations": 55, "bytes": 26400044},
    "small_operations": {"operations": 722, "products": 66000, "bytes": 104080},
}
"""What the pieces of work of a calibration hold, counted."""

PRODUCTS = ("products", "batched_products", "convolutions")
DOUBLE = 2.0
"""How many times as long a core takes for a product in float64: half as many fit its registers."""
SPARE = 0.9
"""Share of a GPU's memory that tensors may take: the rest is the driver's, the libraries', and between blocks."""
LAUNCH = 2.0
"""How many times as long an operation's start may take with a GPU's driver."""


@dataclass(frozen=True)
class Rates:
    """Seconds of a core for one operation, one byte, and one floating-point operation of each kind of product."""

    operations: float
    bytes: float
    products: float
    large_products: float
    batched_products: float
    convolutions: float


def rates(seconds: Mapping[str, float]) -> Rates:
    """The rates of a core from what the pieces of a calibration take it.

    Args:
        seconds: of each piece, all of `PIECES`.
    """
    each = seconds["small_operations"] / PIECES["small_operations"]["operations"]

    def rest(piece: str, kind: str, *, besides: float = 0.0) -> float:
        held = PIECES[piece]
        return max(seconds[piece] - each * held["operations"] - besides, 0.1 * seconds[piece]) / held[kind]

    byte = rest("elementwise", "bytes")
    return Rates(
        operations=each,
        bytes=byte,
        products=rest("layer_products", "products"),
        large_products=rest("large_products", "products"),
        batched_products=rest("batched_products", "batched_products"),
        convolutions=rest("convolutions", "convolutions", besides=byte * PIECES["convolutions"]["bytes"]),
    )


def core_seconds(amounts: Amounts, core: Rates) -> float:
    """Seconds of a core."""
    total = amounts.get("operations", 0.0) * core.operations + amounts.get("bytes", 0.0) * core.bytes
    for kind in PRODUCTS:
        flops = amounts.get(kind, 0.0) + DOUBLE * amounts.get(f"{kind}_double", 0.0)
        total += flops * getattr(core, kind)
    return total


@dataclass(frozen=True)
class Device:
    """A GPU as its data sheet has it: dense, without sparsity.

    Attributes:
        float32, tf32, float64: peak of floating-point operations a second (10¹²); of products, tf32 and float64 on
            tensor cores where it has some.
        bandwidth: of its memory, TB/s.
        memory_gb: how much of it there is.
    """

    name: str
    float32: float
    tf32: float
    float64: float
    bandwidth: float
    memory_gb: float


DEVICES = {
    device.name: device
    for device in (
        Device("v100", 15.7, 15.7, 7.8, 0.9, memory_gb=32),  # SXM2
        Device("a100", 19.5, 156.0, 19.5, 2.039, memory_gb=80),  # SXM, 80 GB
        Device("h100", 66.9, 494.7, 66.9, 3.35, memory_gb=80),  # SXM
        Device("h200", 66.9, 494.7, 66.9, 4.8, memory_gb=141),  # SXM
        Device("rtx4090", 82.6, 82.6, 1.29, 1.008, memory_gb=24),
    )
}
"""GPUs whose peaks are known; torch multiplies matrices in float32 and convolves in TF32 unless told otherwise."""

USUAL = "h100"
"""The GPU that a plan is made for where none is named."""


def device(name: str) -> Device:
    """A GPU of the table, or one as `replicate rehearse --device cuda` has measured it, in a JSON file.

    Raises:
        UserError: there is neither, or the file is none.
    """
    if name in DEVICES:
        return DEVICES[name]
    if not Path(name).is_file():
        raise UserError(f"--device {name}: choose one of {', '.join(DEVICES)}, or a file that a rehearsal measured.")
    stated = read_json(Path(name))
    try:
        found = Device(**stated)
        if min(found.float32, found.tf32, found.float64, found.bandwidth, found.memory_gb) > 0:
            return found
    except TypeError:
        pass
    raise UserError(f"--device {name}: a GPU has {', '.join(field.name for field in fields(Device))}, numbers above 0.")


def gpu_seconds(amounts: Amounts, device: Device, host: Rates) -> tuple[float, float, float]:
    """Seconds of a GPU whose host has cores of these rates: estimate, lower and upper bound."""
    starts = amounts.get("operations", 0.0) * host.operations
    least = most = amounts.get("bytes", 0.0) / (device.bandwidth * 1e12)
    for kind in PRODUCTS:
        peak = device.tf32 if kind == "convolutions" else device.float32
        at_peak = amounts.get(kind, 0.0) / (peak * 1e12) + amounts.get(f"{kind}_double", 0.0) / (device.float64 * 1e12)
        least += at_peak
        most += at_peak * max(getattr(host, kind) / host.large_products, 1.0)
    lower, upper = max(starts, least), LAUNCH * starts + most
    return math.sqrt(lower * upper), lower, upper
