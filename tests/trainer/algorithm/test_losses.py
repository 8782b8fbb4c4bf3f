"""Losses against hand-computed values, published formulas and autograd in float64."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.clip_bounds import CLIPS
from helpers.float64_kernels import tensor
from rlscaling.trainer.algorithm.advantages import normalize_batch
from rlscaling.trainer.algorithm.filters import AGGREGATIONS, kept_completions, token_weights
from rlscaling.trainer.algorithm.losses import LOSSES, Clip, LossStats


class Case(NamedTuple):
    """Tokens of `n` completions of `t` tokens, one after the other."""

    logp: Tensor
    old: Tensor
    advantage: Tensor
    weight: Tensor
    sequence: Tensor

    def select(self, rows: Tensor) -> Case:
        """These completions, numbered from 0."""
        picked = [(self.sequence == row).nonzero()[:, 0] for row in rows]
        sequence = torch.cat([torch.full_like(at, i) for i, at in enumerate(picked)])
        at = torch.cat(picked)
        return Case(self.logp[at], self.old[at], self.advantage[at], self.weight[at], sequence)


def run(name: str, case: Case, clip: Clip | None = None) -> tuple[Tensor, LossStats]:
    logp, old, advantage, weight, sequence = case
    return LOSSES[name](logp, old, advantage, weight, clip or CLIPS[name], sequence)


def gradient(name: str, case: Case) -> Tensor:
    logp = case.logp.clone().requires_grad_()
    run(name, case._replace(logp=logp))[0].backward()
    assert logp.grad is not None
    return logp.grad


def random_case(seed: int = 0, n: int = 6, t: int = 5) -> Case:
    generator = torch.Generator().manual_seed(seed)
    old = -torch.rand(n * t, generator=generator, dtype=torch.float64) * 2
    logp = old + torch.randn(n * t, generator=generator, dtype=torch.float64) * 0.4
    advantage = torch.randn(n, generator=generator, dtype=torch.float64).repeat_interleave(t)
    weight = torch.rand(n * t, generator=generator, dtype=torch.float64)
    weight[torch.rand(n * t, generator=generator) < 0.2] = 0.0
    return Case(logp, old, advantage, weight / weight.sum(), torch.arange(n).repeat_interleave(t))


# One completion of one token, weight 1: rho = 1.5, logp = log 0.6, old_logp = log 0.4.
BY_HAND = [
    ("reinforce", 2.0, -2.0 * math.log(0.6), -2.0),
    ("cispo", 2.0, -1.5 * 2.0 * math.log(0.6), -3.0),  # at the cap, not above
    ("dapo", 2.0, -1.26 * 2.0, 0.0),  # clipped: no gradient
    ("dapo", -2.0, 1.5 * 2.0, 3.0),  # the lower of the two is the unclipped one
    ("grpo", 2.0, -1.2 * 2.0, 0.0),
    ("gspo", 2.0, -1.004 * 2.0, 0.0),
    ("gspo", -2.0, 1.5 * 2.0, 3.0),
]


@pytest.mark.parametrize(("name", "advantage", "value", "slope"), BY_HAND)
def test_loss_by_hand(name: str, advantage: float, value: float, slope: float) -> None:
    case = Case(*(tensor([x]) for x in (math.log(0.6), math.log(0.4), advantage, 1.0)), torch.tensor([0]))
    loss, stats = run(name, case)
    assert float(loss) == pytest.approx(value, rel=1e-12)
    assert float(gradient(name, case)) == pytest.approx(slope, rel=1e-12, abs=1e-12)
    assert float(stats.ratio_max) == pytest.approx(1.5)
    assert int(stats.n_clipped) == int(slope == 0.0)


def test_cispo_keeps_the_gradient_of_a_capped_token() -> None:
    case = Case(*(tensor([x]) for x in (0.0, -3.0, 1.0, 1.0)), torch.tensor([0]))  # the ratio is exp(3) = 20
    assert float(run("cispo", case, Clip(0.0, 4.0))[1].n_clipped) == 1
    assert float(gradient("cispo", case)) == -CLIPS["cispo"].high


def test_gspo_ratio_is_the_geometric_mean_over_the_sequence() -> None:
    log_ratio = tensor([0.001, -0.0004, 9.0])  # the third token is not in the loss
    case = Case(log_ratio - 1.0, tensor([-1.0] * 3), tensor([1.0] * 3), tensor([0.5, 0.5, 0.0]), torch.zeros(3).long())
    loss, stats = run("gspo", case)
    s = math.exp(0.0003)
    assert float(loss) == pytest.approx(-s, rel=1e-12)
    # d/dlogp_t of s * Adv is s * Adv / |y|
    assert gradient("gspo", case).tolist() == pytest.approx([-s / 2, -s / 2, 0.0], rel=1e-12)
    assert float(stats.ratio_max) == pytest.approx(s)


# cispo's value holds the ratio fixed, so its gradient is not the value's slope
@pytest.mark.parametrize("name", [name for name in LOSSES if name != "cispo"])
def test_gradient_against_finite_differences(name: str) -> None:
    case = random_case()
    assert torch.autograd.gradcheck(lambda x: run(name, case._replace(logp=x))[0], (case.logp.requires_grad_(),))


def test_cispo_gradient_against_the_formula() -> None:
    case = random_case(8)
    cap = CLIPS["cispo"].high
    expected = -case.weight * case.advantage * (case.logp - case.old).exp().clamp(max=cap)
    torch.testing.assert_close(gradient("cispo", case), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", LOSSES)
def test_micro_batches_add_up_to_the_batch(name: str) -> None:
    case = random_case(1)
    whole, stats = run(name, case)
    parts = [run(name, case.select(torch.arange(i, i + 2))) for i in (0, 2, 4)]
    torch.testing.assert_close(sum(loss for loss, _ in parts), whole, rtol=1e-12, atol=1e-15)
    for field in ("n_tokens", "ratio_sum", "n_clipped"):
        added = sum(float(getattr(part, field)) for _, part in parts)
        assert added == pytest.approx(float(getattr(stats, field)))
    assert max(float(part.ratio_max) for _, part in parts) == float(stats.ratio_max)


@pytest.mark.parametrize("name", LOSSES)
def test_on_policy_every_loss_has_the_gradient_of_reinforce(name: str) -> None:
    case = random_case(2)
    # gspo's tokens share one ratio: equal weights within a sequence
    fresh = case._replace(logp=case.old.clone(), weight=torch.full_like(case.old, 1 / len(case.old)))
    torch.testing.assert_close(gradient(name, fresh), gradient("reinforce", fresh), rtol=1e-12, atol=1e-15)


def test_losses_are_named_by_their_records_and_need_no_torch() -> None:
    assert all(loss.name == name for name, loss in LOSSES.items())
    code = "import sys, rlscaling.trainer.algorithm.losses; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_grpo_is_dapo_with_equal_clips() -> None:
    case = random_case(3)
    assert torch.equal(run("grpo", case, Clip(0.2, 0.9))[0], run("dapo", case, Clip(0.2, 0.2))[0])


@pytest.mark.parametrize("name", LOSSES)
def test_tokens_of_weight_zero_are_not_there(name: str) -> None:
    case = random_case(4)
    wild = case._replace(logp=torch.where(case.weight > 0, case.logp, 900.0))  # exp would overflow
    plain, plain_stats = run(name, case)
    with_wild, stats = run(name, wild)
    assert torch.equal(plain, with_wild)
    assert all(torch.equal(a, b) for a, b in zip(stats, plain_stats, strict=True))
    assert not gradient(name, wild)[case.weight == 0].any()


def test_dapo_against_the_published_formula_of_trl() -> None:
    """TRL's GRPOTrainer: coef_1 = exp(logp - old), coef_2 = clamp(coef_1, 1 - low, 1 + high), min of products."""
    case = random_case(5)
    coef_1 = np.exp((case.logp - case.old).numpy())
    coef_2 = np.clip(coef_1, 1 - 0.2, 1 + 0.26)
    adv = case.advantage.numpy()
    expected = (-np.minimum(coef_1 * adv, coef_2 * adv) * case.weight.numpy()).sum()
    assert float(run("dapo", case)[0]) == pytest.approx(expected, rel=1e-12)


def test_cispo_with_token_average_against_the_published_formula_of_trl() -> None:
    """TRL: -clamp(coef_1, max=high) * advantage * logp, summed over tokens and divided by their number."""
    case = random_case(6)
    inside = case.weight.numpy() > 0
    coef_1, adv, logp = np.exp((case.logp - case.old).numpy()), case.advantage.numpy(), case.logp.numpy()
    expected = (-np.minimum(coef_1, CLIPS["cispo"].high) * adv * logp)[inside].sum() / inside.sum()
    averaged = case._replace(weight=torch.from_numpy(inside / inside.sum()))
    assert float(run("cispo", averaged)[0]) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_permuting_prompts_changes_no_loss(name: str, aggregation: str) -> None:
    generator = torch.Generator().manual_seed(6)
    prompts, group, length = 5, 3, 4
    n = prompts * group
    case = random_case(6, n, length)
    reward = torch.where(torch.rand(prompts, group, generator=generator) < 0.5, 1.0, -1.0).double()
    mask = torch.arange(length) < torch.randint(1, length + 1, (n, 1), generator=generator)

    def loss(order: Tensor) -> Tensor:
        rows = (order[:, None] * group + torch.arange(group)).flatten()
        keep = kept_completions(reward[order], torch.zeros(prompts, group, dtype=torch.bool), zero_variance="drop")
        weight = token_weights(mask[rows], keep, aggregation=aggregation).flatten()
        advantage = normalize_batch(reward[order]).flatten().repeat_interleave(length)
        return run(name, case.select(rows)._replace(weight=weight, advantage=advantage))[0]

    shuffled = loss(torch.randperm(prompts, generator=generator))
    torch.testing.assert_close(shuffled, loss(torch.arange(prompts)), rtol=1e-6, atol=1e-12)


def test_reinforce_ignores_the_ratio() -> None:
    case = random_case(7)
    assert torch.equal(run("reinforce", case)[0], run("reinforce", case._replace(old=case.old - 1))[0])
