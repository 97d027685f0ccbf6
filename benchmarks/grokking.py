"""What a training step of the grokking replication costs: `python -m benchmarks.grokking [--device cuda]`.

Against a straightforward implementation of the same network (`plain_transformer.py`), with the same optimiser, seed
after seed, with the batches of the laptop scale. Both take the same steps from the same weights; that is checked.
Results go to `benchmarks/results/grokking.json`.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn import functional

from benchmarks.plain_transformer import PlainTransformer
from benchmarks.timing import medians
from common.files import write_json
from common.models import ModularTransformer

RESULTS = Path(__file__).parent / "results" / "grokking.json"
MODULUS, HEADS, BATCH = 97, 4, 256
SIZES = {"1 layer, width 64": (1, 64), "2 layers, width 128": (2, 128)}
STEPS = 10
TARGETS = {"cpu": 1.5, "cuda": 5.0}


def optimiser(parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    """AdamW as in the replication."""
    return torch.optim.AdamW(parameters, lr=1e-3, betas=(0.9, 0.98), weight_decay=1.0, fused=True)


def batched(model: ModularTransformer, pairs: torch.Tensor) -> Callable[[], object]:
    """`STEPS` steps of all members at once."""
    rule, answers = optimiser(list(model.parameters())), pairs.sum(-1) % MODULUS

    def steps() -> None:
        for _ in range(STEPS):
            rule.zero_grad()
            logits = model(pairs)
            losses = functional.cross_entropy(logits.flatten(0, 1), answers.flatten(), reduction="sum")
            torch.autograd.backward(losses / answers.shape[1])
            rule.step()
        _wait(pairs)

    return steps


def one_by_one(models: list[PlainTransformer], pairs: torch.Tensor) -> Callable[[], object]:
    """`STEPS` steps of every model in turn."""
    rules = [optimiser(list(model.parameters())) for model in models]

    def steps() -> None:
        for model, rule, own in zip(models, rules, pairs, strict=True):
            for _ in range(STEPS):
                rule.zero_grad()
                torch.autograd.backward(functional.cross_entropy(model(own), own.sum(-1) % MODULUS))
                rule.step()
        _wait(pairs)

    return steps


def _wait(tensor: torch.Tensor) -> None:
    if tensor.is_cuda:
        torch.cuda.synchronize()


def compare(layers: int, width: int, seeds: int, device: torch.device) -> dict[str, float]:
    """Milliseconds a step and seed of each way."""
    generators = [torch.Generator().manual_seed(seed) for seed in range(seeds)]
    model = ModularTransformer(MODULUS, layers=layers, width=width, heads=HEADS, members=seeds)
    model.initialise(generators).to(device)
    pairs = torch.randint(MODULUS, (seeds, BATCH, 2), generator=generators[0]).to(device)
    plain = [PlainTransformer(model, seed) for seed in range(seeds)]
    members = [model.member(seed).to(device) for seed in range(seeds)]
    alone = [batched(member, pairs[seed : seed + 1]) for seed, member in enumerate(members)]
    ways = {
        "seeds at once": batched(model, pairs),
        "seeds in turn": lambda: [way() for way in alone],
        "straightforward": one_by_one(plain, pairs),
    }
    ways["seeds at once"]()
    ways["straightforward"]()
    with torch.no_grad():
        distance = float((model(pairs)[0] - plain[0](pairs[0])).abs().max())
    assert distance < 0.05, f"the two implementations differ by {distance:.3g} after {STEPS} steps"
    seconds = medians(ways, repetitions=5)
    return {name: 1000 * value / (STEPS * seeds) for name, value in seconds.items()}


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=list(TARGETS))
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name, (layers, width) in SIZES.items():
        times = compare(layers, width, arguments.seeds, torch.device(arguments.device))
        ratio = times["straightforward"] / times["seeds at once"]
        rows.append({"network": name, "seeds": arguments.seeds, "device": arguments.device, **times, "ratio": ratio})
        shown = ", ".join(f"{way} {value:.2f} ms" for way, value in times.items())
        verdict = "met" if ratio >= TARGETS[arguments.device] else "missed"
        print(f"{name}: {shown} a step and seed; {ratio:.2f}× (target {TARGETS[arguments.device]}×, {verdict})")
    write_json(RESULTS, rows)


if __name__ == "__main__":
    main()
