"""The definition of the operations: sampling against the softmax, losses against autograd in float64."""

from __future__ import annotations

import math

import pytest
import scipy.stats
import torch
from torch import Tensor

from helpers.clip_bounds import CLIPS
from rlscaling.trainer import rng as counter
from rlscaling.trainer.algorithm.losses import LOSSES
from rlscaling.trainer.errors import TrainError
from rlscaling.trainer.kernels import ops


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("vocab", [1, 7, 130])
def test_sampling_frequencies(vocab: int, temperature: float) -> None:
    """Chi-squared of 40,000 draws against the softmax."""
    n = 40_000
    logits = torch.randn(vocab, generator=torch.Generator().manual_seed(vocab)) * 2
    expected = (logits.double() / temperature).softmax(0)
    tokens, logp = ops.sample(
        logits.expand(n, vocab), torch.arange(n), torch.full((n,), 2), key=counter.key_of(3), temperature=temperature
    )
    torch.testing.assert_close(logp.double(), expected.log()[tokens], atol=1e-5, rtol=1e-5)
    counts = torch.bincount(tokens, minlength=vocab).double()
    common = expected * n >= 5
    if vocab > 1:
        observed = [*counts[common].tolist(), counts[~common].sum().item()]
        wanted = [*(expected[common] * n).tolist(), (expected[~common].sum() * n).item()]
        if not wanted[-1]:
            observed, wanted = observed[:-1], wanted[:-1]
        wanted = [value * sum(observed) / sum(wanted) for value in wanted]  # rounding in the last digits
        assert scipy.stats.chisquare(observed, wanted).pvalue > 0.001


def test_samples_do_not_depend_on_the_batch() -> None:
    logits = torch.randn(64, 15, generator=torch.Generator().manual_seed(0))
    streams, positions = torch.arange(64) * 3, torch.arange(64) % 5
    tokens, logp = ops.sample(logits, streams, positions, key=11)
    order = torch.randperm(64, generator=torch.Generator().manual_seed(1))
    again = ops.sample(logits[order], streams[order], positions[order], key=11)
    assert torch.equal(again[0], tokens[order])
    assert torch.equal(again[1], logp[order])


def test_impossible_tokens() -> None:
    """Logits of -inf are never drawn, and the entropy stays a number."""
    logits = torch.tensor([[0.0, -torch.inf, 1.0, -torch.inf]]).repeat(500, 1).requires_grad_()
    tokens, _ = ops.sample(logits.detach(), torch.arange(500), torch.zeros(500, dtype=torch.long), key=1)
    assert set(tokens.tolist()) == {0, 2}
    logp, entropy = ops.token_logprobs(logits, tokens)
    p = 1 / (1 + math.e)
    assert entropy[0].item() == pytest.approx(-p * math.log(p) - (1 - p) * math.log(1 - p), abs=1e-6)
    (logp + entropy).sum().backward()
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("temperature", [0.1, 1.0, 3.0])
def test_token_logprobs_against_float64(temperature: float) -> None:
    """Near logits of 80 the naive order, the temperature first, errs by 5e-5 at T = 0.1."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(40, 33, generator=generator) + 80
    tokens = torch.randint(33, (40,), generator=generator)
    logp, entropy = ops.token_logprobs(logits, tokens, temperature)
    exact = (logits.double() / temperature).log_softmax(-1)
    bound = 5e-6 + 1e-7 * exact.abs().max().item()
    wanted = exact.gather(1, tokens[:, None])[:, 0]
    assert (logp - wanted).abs().max() < bound
    if temperature == 0.1:
        naive = (logits / temperature).log_softmax(-1).gather(1, tokens[:, None])[:, 0]
        assert (naive - wanted).abs().max() > max(4e-5, 3 * bound)
    assert (entropy + (exact.exp() * exact).sum(-1)).abs().max() < 5e-6


def plain_loss(
    loss: str, logp: Tensor, old: Tensor, advantage: Tensor, weight: Tensor, sequence: Tensor
) -> tuple[Tensor, int]:
    """The equations token by token, in Python: value, and how many tokens are clipped."""
    low, high = CLIPS[loss]
    total, clipped = torch.zeros((), dtype=logp.dtype), 0
    for t in range(len(logp)):
        if weight[t] == 0:
            continue
        ratio = (logp[t] - old[t]).exp()
        if loss == "gspo":
            own = (sequence == sequence[t]) & (weight > 0)
            ratio = (logp[own] - old[own]).mean().exp()
        A = advantage[t]
        if loss == "reinforce":
            value = -A * logp[t]
        elif loss == "cispo":
            value = -ratio.detach().clamp(max=high) * A * logp[t]
            clipped += bool(ratio > high)
        else:
            bounded = ratio.clamp(1 - low, 1 + high)
            value = -torch.minimum(ratio * A, bounded * A)
            clipped += bool(bounded * A < ratio * A)
        total = total + weight[t] * value
    return total, clipped


def loss_inputs(n: int = 60, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    sequence = torch.arange(n) // 6
    logp = -torch.rand(n, generator=generator) * 3 - 0.1
    old = logp + torch.randn(n, generator=generator) * 0.8
    advantage = torch.randn(n // 6, generator=generator)[sequence]
    weight = torch.rand(n // 6, generator=generator)[sequence] * (torch.rand(n, generator=generator) > 0.2)
    return logp, old, advantage, weight, sequence


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_token_by_token(loss: str) -> None:
    """Value and gradient against the equations under autograd in float64."""
    logp, old, advantage, weight, sequence = loss_inputs()
    low, high = CLIPS[loss]
    exact = logp.double().requires_grad_()
    expected, clipped = plain_loss(loss, exact, old.double(), advantage.double(), weight.double(), sequence)
    expected.backward()
    leaf = logp.clone().requires_grad_()
    value, stats = ops.policy_loss(
        leaf, old, advantage, weight, loss=loss, clip_low=low, clip_high=high, sequence=sequence
    )
    value.backward()
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)
    torch.testing.assert_close(leaf.grad.double(), exact.grad, atol=1e-5, rtol=1e-4)
    assert stats.n_tokens == (weight > 0).sum()
    assert stats.n_clipped == clipped
    if loss != "gspo":
        ratio = (logp - old).exp()[weight > 0]
        assert stats.ratio_sum.item() == pytest.approx(ratio.sum().item(), rel=1e-5)
        assert stats.ratio_max.item() == pytest.approx(ratio.max().item(), rel=1e-5)


def test_on_policy_gradients_agree() -> None:
    """At ratio 1 nothing is clipped, and every loss has the gradient of REINFORCE."""
    logp, _, advantage, _, sequence = loss_inputs()
    weight = torch.full_like(logp, 1 / 60)
    gradients = []
    for loss in LOSSES:
        leaf = logp.clone().requires_grad_()
        low, high = CLIPS[loss]
        value, stats = ops.policy_loss(
            leaf, logp, advantage, weight, loss=loss, clip_low=low, clip_high=high, sequence=sequence
        )
        value.backward()
        assert stats.ratio_max == 1
        assert stats.n_clipped == 0
        gradients.append(leaf.grad)
    for gradient in gradients:
        torch.testing.assert_close(gradient, gradients[0], atol=1e-7, rtol=1e-5)


def test_tokens_of_weight_zero_may_hold_anything() -> None:
    logp, old, advantage, weight, sequence = loss_inputs()
    wild = torch.where(weight > 0, old, -torch.inf)
    for loss in LOSSES:
        leaf = logp.clone().requires_grad_()
        value, _ = ops.policy_loss(leaf, wild, advantage, weight, loss=loss, clip_low=0.2, sequence=sequence)
        value.backward()
        assert torch.isfinite(value)
        assert torch.isfinite(leaf.grad).all()
        assert (leaf.grad[weight == 0] == 0).all()


def head_inputs(n: int = 48, width: int = 10, vocab: int = 13) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    hidden, weight = torch.randn(n, width, generator=generator), torch.randn(vocab, width, generator=generator)
    tokens = torch.randint(vocab, (n,), generator=generator)
    old = ops.token_logprobs(hidden @ weight.T, tokens, 0.7)[0] + torch.randn(n, generator=generator) * 0.3
    return hidden, weight, tokens, old


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("chunk_bytes", [1, 13 * 4 * 7, 2**20])
def test_policy_head_is_the_three_operations_in_float64(loss: str, chunk_bytes: int) -> None:
    """Chunks of 1 row, of 7 rows (which do not divide 48, and split sequences), and all at once."""
    hidden, weight, tokens, old = head_inputs()
    _, _, advantage, token_weight, sequence = loss_inputs(48)
    low, high = CLIPS[loss]
    x, w = hidden.double().requires_grad_(), weight.double().requires_grad_()
    exact = ((x @ w.T) / 0.7).log_softmax(-1)
    logp = exact.gather(1, tokens[:, None])[:, 0]
    expected, _ = plain_loss(loss, logp, old.double(), advantage.double(), token_weight.double(), sequence)
    expected.backward()
    ours, our_weight = hidden.clone().requires_grad_(), weight.clone().requires_grad_()
    result = ops.policy_head(
        ours,
        our_weight,
        tokens,
        old,
        advantage,
        token_weight,
        temperature=0.7,
        chunk_bytes=chunk_bytes,
        loss=loss,
        clip_low=low,
        clip_high=high,
        sequence=sequence,
    )
    (3 * result.loss).backward()
    assert result.loss.item() == pytest.approx(expected.item(), rel=1e-5)
    torch.testing.assert_close(ours.grad.double(), 3 * x.grad, atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(our_weight.grad.double(), 3 * w.grad, atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(result.logp.double(), logp.detach(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(result.entropy.double(), -(exact.exp() * exact).sum(-1).detach(), atol=1e-5, rtol=1e-5)
    assert not result.logp.requires_grad


def test_micro_batches_add_up_to_the_batch() -> None:
    """The denominator is in the weights, so gradients of parts add up."""
    hidden, weight, tokens, old = head_inputs()
    _, _, advantage, token_weight, _ = loss_inputs(48)

    def gradient(parts: list[slice]) -> Tensor:
        leaf = weight.clone().requires_grad_()
        for part in parts:
            per_token = (tokens[part], old[part], advantage[part], token_weight[part])
            ops.policy_head(hidden[part], leaf, *per_token).loss.backward()
        assert leaf.grad is not None
        return leaf.grad

    torch.testing.assert_close(gradient([slice(0, 12), slice(12, 48)]), gradient([slice(0, 48)]), atol=1e-6, rtol=1e-5)


def test_gradient_of_a_nearly_certain_token_keeps_its_digits() -> None:
    """At p = 0.9999 the difference ``1 - p`` taken in bf16 is 0; it is taken before the rounding."""
    hidden, weight = torch.tensor([[1.0]]), torch.tensor([[9.1875], [0.0]], requires_grad=True)
    zero, one = torch.zeros(1), torch.ones(1)
    result = ops.policy_head(hidden, weight, torch.tensor([0]), zero, one, one, loss="reinforce", head_dtype="bf16")
    result.loss.backward()
    assert weight.grad[0].item() == pytest.approx(-1 / (1 + math.exp(9.1875)), rel=0.01)


def test_bf16_head_is_near_the_fp32_one_and_not_equal() -> None:
    hidden, weight, tokens, old = head_inputs()
    one = torch.ones(48)
    fp32 = ops.policy_head(hidden, weight, tokens, old, one, one / 48)
    bf16 = ops.policy_head(hidden, weight, tokens, old, one, one / 48, head_dtype="bf16")
    apart = (fp32.logp - bf16.logp).abs().mean()
    assert 1e-4 < apart < 5e-2
    logits = ops.head(hidden, weight, "bf16")
    assert torch.equal(bf16.logp, ops.token_logprobs(logits, tokens)[0]), "trainer and generator share one head"


def test_no_tokens_at_all() -> None:
    hidden, weight = torch.zeros(0, 4, requires_grad=True), torch.ones(5, 4, requires_grad=True)
    empty = torch.zeros(0)
    result = ops.policy_head(hidden, weight, empty.long(), empty, empty, empty)
    result.loss.backward()
    assert result.loss == 0
    assert (weight.grad == 0).all()
    assert result.stats.n_tokens == 0


def test_refusals() -> None:
    x = torch.zeros(2)
    with pytest.raises(TrainError, match="loss='ppo' is unknown; choose one of cispo, dapo"):
        ops.policy_loss(x, x, x, x, loss="ppo")
    with pytest.raises(TrainError, match="loss='gspo' without sequence: .* pass one id per token"):
        ops.policy_loss(x, x, x, x, loss="gspo")


def test_backend_says_what_it_is() -> None:
    name, reason = ops.backend()
    assert name == "reference"
    assert "torch" in reason
