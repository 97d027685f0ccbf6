"""Two and three processes give what one gives; whatever goes wrong on one ends all of them with a sentence."""

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from common.hessian import (
    GGN,
    MEASURES,
    Distributed,
    Divided,
    EmpiricalFisher,
    Hessian,
    MonteCarloFisher,
    NoiseCovariance,
    Problem,
    Streamed,
    alignment,
    diagonal,
    eigenpairs,
    empirical_ntk,
    epsilon_sharpness,
    frobenius_norm,
    ggn_frobenius_norm,
    ggn_spectrum,
    hessian_lipschitz,
    hutchinson_trace,
    measure,
    noise_along_curvature,
    noise_norm,
    noise_stability,
    noise_trace,
    non_uniformity,
    per_sample_gradient_norms,
    quadratic_forms_by_parameter,
    sharpness,
    sharpness_from_perturbations,
    spectrum,
    squared_norm_from_perturbations,
    stability_factor,
    trace,
    trace_from_perturbations,
    traces_by_parameter,
)
from tests.unit.hessian.networks import COUNT, family
from tests.unit.hessian.processes import on_ranks

ROOT = Path(__file__).parents[3]
SHARES = {2: (3, COUNT), 3: (4, 9, COUNT)}
"""Where the shares of ranks end; chunks of 4, so that ranks hold other numbers of them."""
DRAWS: dict[str, Any] = {"relative_error": 0.5, "budget": 30}


def targets() -> torch.Tensor:
    return torch.randint(0, 3, (COUNT,), generator=torch.Generator().manual_seed(1))


def shares(inputs: torch.Tensor, count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    ends = SHARES[count]
    return [(inputs[a:b], targets()[a:b]) for a, b in zip((0, *ends), ends, strict=False)]


def everything(problem: Problem) -> dict[str, Any]:
    """Each function of the package that passes over data, with few draws."""
    vector = torch.linspace(-1, 1, problem.size, dtype=problem.dtype)
    hessian, ggn = Hessian(problem), GGN(problem)
    norms = eigenpairs(hessian, 2, products=12)
    found: dict[str, Any] = {
        "loss": problem.loss(),
        "gradient": problem.gradient(),
        "Hessian": hessian @ torch.stack([vector, vector.square()], dim=1),
        "Hessian, recorded in every pass": Hessian(problem, memory_limit=0) @ vector,
        "GGN": ggn @ vector,
        "GGN, form": ggn.quadratic_form(vector),
        "Fisher": EmpiricalFisher(problem) @ vector,
        "Monte Carlo Fisher": MonteCarloFisher(problem, seed=3) @ vector,
        "noise covariance": NoiseCovariance(problem).quadratic_form(vector),
        "forms": quadratic_forms_by_parameter(hessian, vector),
        "eigenvalues": norms.values,
        "norms of gradients": per_sample_gradient_norms(problem),
        "trace of noise": noise_trace(problem),
        "norm of noise": noise_norm(problem, **DRAWS),
        "noise along curvature": noise_along_curvature(problem, **DRAWS),
        "trace": trace(problem, **DRAWS),
        "trace of GGN": trace(problem, "ggn"),
        "output signs": trace(problem, "ggn", method="output signs", **DRAWS),
        "Hutchinson": hutchinson_trace(hessian, **DRAWS),
        "diagonal": diagonal(problem, "ggn").diagonal,
        "diagonal by draws": diagonal(problem, "ggn", method="monte carlo", draws=4).diagonal,
        "norm": frobenius_norm(hessian, **DRAWS),
        "spectrum": spectrum(ggn, vectors=2, steps=4).nodes,
        "λ₁": sharpness(problem).estimate,
        "kernel": empirical_ntk(problem).gram,
        "eigenvalues of GGN": ggn_spectrum(problem),
        "norm of GGN": ggn_frobenius_norm(problem),
        "alignment": vars(alignment(problem)),
        "non-uniformity": non_uniformity(problem, products=6),
        "stability": stability_factor(problem, 0.1, 2, products=6),
        "noise stability": vars(noise_stability(problem, 0.01, **DRAWS)),
        "perturbations": trace_from_perturbations(problem, 0.1, **DRAWS),
        "shaped perturbations": squared_norm_from_perturbations(problem, 0.1, **DRAWS),
        "Lipschitz": hessian_lipschitz(problem, 0.1, draws=2, products=4),
        "worst case": sharpness_from_perturbations(problem, 0.1, iterations=3).value,
        "box": epsilon_sharpness(problem, dimensions=5, iterations=3).value,
    }
    if problem.size < 40:
        found["traces"] = traces_by_parameter(problem, **DRAWS)
    return found


def table(problem: Problem) -> dict[str, Any]:
    names = [name for name in MEASURES if name != "non_uniformity"]
    return {row.name: row.estimate for row in measure(problem, names, relative_error=0.3, budget=30)}


Work = dict[str, Callable[[Problem], dict[str, Any]]]
TABLES: Work = dict.fromkeys(("relu", "smooth convolutional", "deep convolutional", "attention", "tied"), table)
WORK: dict[int, Work] = {2: {"tanh": everything, **TABLES}, 3: {"tanh": everything}}


def shared_problem(name: str, rank: int, count: int) -> Problem:
    model, inputs = family(name)
    return Problem(model, nn.CrossEntropyLoss(), Distributed(shares(inputs, count)[rank]), chunk=4)


def measured(rank: int, count: int) -> dict[str, Any]:
    found = {name: work(shared_problem(name, rank, count)) for name, work in WORK[count].items()}
    model, inputs = family("tanh")
    divided = Problem(model, nn.CrossEntropyLoss(), Divided({"input": inputs, "labels": targets()}), chunk=4)
    streamed = [(inputs[rank::count], targets()[rank::count])]
    read_again = Problem(model, nn.CrossEntropyLoss(), Distributed(Streamed(streamed)), chunk=4)
    part = shares(inputs, count)[rank]
    counted = Problem(model, nn.CrossEntropyLoss(ignore_index=2), Distributed(part), chunk=4)
    more = {"counted": table(counted), "streamed": {"trace": trace(read_again, **DRAWS)}}
    return {**found, "divided": table(divided), **more}


def expected(count: int) -> dict[str, Any]:
    found = {}
    for name, work in WORK[count].items():
        model, inputs = family(name)
        found[name] = work(Problem(model, nn.CrossEntropyLoss(), shares(inputs, count), chunk=4))
    model, inputs = family("tanh")
    divided = Problem(model, nn.CrossEntropyLoss(), (inputs, targets()), chunk=4)
    streamed = [(inputs[rank::count], targets()[rank::count]) for rank in range(count)]
    kept = Problem(model, nn.CrossEntropyLoss(), streamed, chunk=4)
    counted = Problem(model, nn.CrossEntropyLoss(ignore_index=2), shares(inputs, count), chunk=4)
    more = {"counted": table(counted), "streamed": {"trace": trace(kept, **DRAWS)}}
    return {**found, "divided": table(divided), **more}


def plain(value: Any) -> Any:
    """Estimates and the like as dicts."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    return plain(dict(vars(value))) if hasattr(value, "__dataclass_fields__") else value


def check_close(found: Any, wanted: Any, place: str) -> None:
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for key in wanted:
            check_close(found[key], wanted[key], f"{place}, {key}")
    elif isinstance(wanted, list):
        for one, other in zip(found, wanted, strict=True):
            check_close(one, other, place)
    elif isinstance(wanted, torch.Tensor):
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-9, msg=lambda text: f"{place}: {text}")
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=1e-6, abs=1e-9), place
    else:
        assert found == wanted, place


def same_bits(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return all(same_bits(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return all(same_bits(*pair) for pair in zip(one, other, strict=True))
    return bool(torch.equal(one, other)) if isinstance(one, torch.Tensor) else one == other


@pytest.mark.parametrize("count", [2, 3])
def test_every_function_gives_on_several_ranks_what_it_gives_on_one(count: int) -> None:
    ranks = [plain(result) for result in on_ranks(count, measured)]
    wanted = plain(expected(count))
    for rank, found in enumerate(ranks):
        assert not isinstance(found, str), found
        check_close(found, wanted, f"rank {rank}")
        assert same_bits(found, ranks[0])


def troubles(rank: int, count: int) -> list[str]:
    """Sentences with which calls end that cannot go on, one after the other."""
    found = []

    def told(call: Callable[[], object]) -> None:
        try:
            call()
            found.append("nothing")
        except (ValueError, RuntimeError) as error:
            found.append(f"{type(error).__name__}: {error}")

    model, inputs = family("tanh")
    loss = nn.CrossEntropyLoss()
    mine = shares(inputs, count)[rank]
    told(lambda: Problem(model, loss, Distributed([] if rank == 1 else [mine])))
    told(lambda: Problem(model, loss, Distributed((mine[0], mine[1][rank:]))))
    told(lambda: Problem(model, loss, Divided((inputs[:1], targets()[:1]))))
    told(lambda: Problem(model, loss, Divided((inputs.roll(rank, 0), targets()))))
    told(lambda: Problem(Wrapped(), loss, Distributed(mine)))
    problem = Problem(model, loss, Distributed(mine))
    problem.summed_loss = functools.partial(broken, problem.summed_loss, rank)  # type: ignore[method-assign]
    [row] = measure(problem, ["loss"])
    found.append(row.problem)
    whole = Problem(model, loss, Distributed(mine))
    told(whole.loss)
    with torch.no_grad():
        next(model.parameters()).add_(rank)
    told(whole.loss)
    told(whole.loss if rank == 0 else whole.gradient)
    return found


class Wrapped(nn.parallel.DistributedDataParallel):
    """Of that kind, without the cost of making one."""

    def __init__(self) -> None:
        nn.Module.__init__(self)


def broken(function: Callable[..., Any], rank: int, *arguments: Any) -> Any:
    if rank == 1:
        raise ValueError("The lights went out.")
    return function(*arguments)


def test_what_one_rank_cannot_do_is_told_by_all() -> None:
    here, there = on_ranks(2, troubles)
    assert here[0] == "OtherRankFailed: Rank 1: The data hold no example."
    assert there[0] == "ValueError: The data hold no example."
    assert here[1] == "OtherRankFailed: Rank 1: 8 inputs and 7 targets: every example needs both."
    assert here[2] == there[2] == "ValueError: 1 examples for 2 ranks: each needs one at least."
    assert "different data" in here[3]
    assert "pass its `.module`" in here[4]
    assert (here[5], there[5]) == ("Rank 1: The lights went out.", "The lights went out.")
    assert here[6] == there[6] == "nothing"
    assert here[7] == there[7] == "RanksApart: The weights of ranks 0 and 1 differ: load the same on every rank."
    assert here[8] == there[8]
    assert here[8].startswith("RanksApart: The ranks went apart: rank 0 came to a sum over examples")


def dying(rank: int, count: int) -> float:
    problem = shared_problem("tanh", rank, count)
    if rank == count - 1:
        os._exit(1)
    return problem.loss()


def test_a_rank_that_dies_ends_the_others_with_a_sentence() -> None:
    *others, dead = on_ranks(3, dying)
    assert dead is None
    for rank, sentence in enumerate(others):
        assert sentence.startswith(f"RanksApart: Rank {rank} of 3 lost another one")


def test_without_torchrun_there_are_no_shares() -> None:
    with pytest.raises(ValueError, match="torchrun"):
        Distributed((torch.ones(1, 1), torch.ones(1, 1)))


def test_the_example_of_the_guide_runs_by_torchrun(tmp_path: Path) -> None:
    blocks = (ROOT / "docs" / "toolkit.md").read_text().split("```python\n")
    code = next(block.split("```")[0] for block in blocks if "torchrun" in block.split("\n")[0])
    (tmp_path / "ranks.py").write_text(code)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "ranks.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["λ₁", "Tr"]
