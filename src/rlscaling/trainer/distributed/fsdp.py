"""Sharded model and gradient reduction of the trainer ranks, and how the weights get to the generators.

Weights, gradients and optimizer state are split by FSDP2 (``torch.distributed.fsdp.fully_shard``), layer by layer; the
embedding, the last norm and the head are the part that stays whole from a forward pass to its backward pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor, nn

from rlscaling.trainer.model.decoder import MixtureOfExperts
from rlscaling.trainer.training.data_parallel import MicroBatchShare

if TYPE_CHECKING:
    from rlscaling.trainer.model.decoder import Decoder
    from rlscaling.trainer.training.step_metrics import StepMetrics


BUCKET_BYTES = 64 * 2**20
"""Weights sent at once: small ones travel together, and no second copy of a large model is needed."""


class ShardedDataParallel:
    """The trainer ranks, which share each update.

    Parameters
    ----------
    group
        Their process group.
    device
        ``"cpu"`` or ``"cuda"``.
    """

    def __init__(self, group: dist.ProcessGroup, device: str) -> None:
        self.group, self.device = group, device
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self._balances: list[_Balance] = []

    def prepare(self, model: Decoder) -> None:
        """Split the model."""
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        mixtures = [module for module in model.modules() if isinstance(module, MixtureOfExperts)]
        self._balances = [_Balance(mixture) for mixture in mixtures]
        mesh = DeviceMesh.from_group(self.group, self.device)
        policy = MixedPrecisionPolicy(reduce_dtype=torch.float32)  # bf16 gradients are not added up in bf16
        for layer in model.layers:
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        fully_shard(model, mesh=mesh, mp_policy=policy)

    def share(self, rows: Tensor, weight: Tensor) -> MicroBatchShare:
        """Return every ``size``-th completion, so that long prompts are spread."""
        own = rows[self.rank :: self.size]
        if len(own):
            return MicroBatchShare(own, weight[own])
        return MicroBatchShare(rows[:1], torch.zeros_like(weight[rows[:1]]), stands_in=True)

    def load_balance(self, model: Decoder, share: MicroBatchShare) -> Tensor | None:
        """Return this rank's part; the experts' shares of visits are those of the whole micro-batch."""
        if not self._balances:
            return None
        return torch.stack([balance.loss(self.group, counts=not share.stands_in) for balance in self._balances]).mean()

    def scaled(self, loss: Tensor) -> Tensor:
        """Return the loss times the number of ranks: FSDP takes the mean of the gradients."""
        return loss * self.size

    def add_up(self, stats: StepMetrics) -> None:
        """Add up over the ranks."""
        sums = torch.tensor(stats.sums(), dtype=torch.float64, device=self.device)
        largest = torch.tensor(stats.ratio_max, dtype=torch.float64, device=self.device)
        dist.all_reduce(sums, group=self.group)
        dist.all_reduce(largest, dist.ReduceOp.MAX, group=self.group)
        stats.replace(sums.tolist(), float(largest))


class _Balance:
    """The load-balance loss of one mixture of experts over the completions of all ranks.

    ``E * sum_e f_e * P_e``, where f_e is the expert's share of all visits and P_e this rank's part of the mean of its
    probability: the parts add up to the loss of the whole micro-batch (``model.MixtureOfExperts``).
    """

    def __init__(self, mixture: MixtureOfExperts) -> None:
        self.top_k = mixture.top_k
        self._logits: Tensor | None = None
        mixture.gate.register_forward_hook(self._keep)

    def _keep(self, _: nn.Module, __: object, logits: Tensor) -> None:
        self._logits = logits

    def loss(self, group: dist.ProcessGroup, *, counts: bool) -> Tensor:
        """Return the part of this rank; a row that stands in does not count."""
        assert self._logits is not None, "no forward pass yet"
        probability = self._logits.float().softmax(-1)  # (B * T, E)
        self._logits = None
        n_experts = probability.shape[1]
        chosen = probability.topk(self.top_k, -1).indices
        visits = torch.bincount(chosen.flatten(), minlength=n_experts) * counts
        dist.all_reduce(visits, group=group)
        total = visits.sum()  # top_k for each token of all ranks
        own = probability.sum(0) * self.top_k / total * counts
        return n_experts * ((visits / total) * own).sum()


def buckets(tensors: Sequence[Tensor]) -> Iterator[list[int]]:
    """Return the numbers of the tensors that travel together: of one type, ``BUCKET_BYTES`` at most, or one alone."""
    bucket: list[int] = []
    size = 0
    for i, tensor in enumerate(tensors):
        n = tensor.numel() * tensor.element_size()
        if bucket and (size + n > BUCKET_BYTES or tensor.dtype != tensors[bucket[0]].dtype):
            yield bucket
            bucket, size = [], 0
        bucket.append(i)
        size += n
    if bucket:
        yield bucket


@torch.no_grad()
def push(model: nn.Module, group: dist.ProcessGroup | None) -> None:
    """Send the weights to the generators; every trainer rank calls it, rank 0 with the group that it sends to."""
    from torch.distributed.tensor import DTensor

    weights = [weight.detach() for weight in model.parameters()]
    for bucket in buckets(weights):
        parts = []
        for weight in (weights[i] for i in bucket):
            parts.append(weight.full_tensor() if isinstance(weight, DTensor) else weight)  # all trainers gather it
        if group is not None:
            dist.broadcast(torch.cat([part.flatten() for part in parts]), src=0, group=group)


@torch.no_grad()
def pull(model: nn.Module, group: dist.ProcessGroup) -> None:
    """Take the weights that rank 0 sends."""
    weights = [weight.detach() for weight in model.parameters()]
    for bucket in buckets(weights):
        sizes = [weights[i].numel() for i in bucket]
        flat = weights[bucket[0]].new_empty(sum(sizes))
        dist.broadcast(flat, src=0, group=group)
        for i, part in zip(bucket, torch.split(flat, sizes), strict=True):
            weights[i].copy_(part.view_as(weights[i]))


@torch.no_grad()
def gather(model: nn.Module, *, keep: bool) -> dict[str, Tensor]:
    """Return the whole weights by name, in memory of the CPU; every trainer rank calls it, those that keep none too."""
    from torch.distributed.tensor import DTensor

    whole = {}
    for name, weight in model.named_parameters():
        full = weight.full_tensor() if isinstance(weight, DTensor) else weight
        if keep:
            whole[name] = full.detach().cpu()
    return whole
