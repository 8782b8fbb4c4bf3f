"""The parts of a distributed run without processes: roles, agreement, channel, dispatch, clocks, evaluation shares."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

from rlscaling.trainer import TrainError, make_config, train
from rlscaling.trainer.curriculum import Curriculum
from rlscaling.trainer.distributed import channel
from rlscaling.trainer.distributed.agreement import Proposal, agree, proposal_of
from rlscaling.trainer.distributed.channel import Hub, Message, PeerLostError, Spoke, decode, encode
from rlscaling.trainer.distributed.clocks import ClusterMeter, RankClock, Spent
from rlscaling.trainer.distributed.dispatch import Dispatcher, groups_of
from rlscaling.trainer.distributed.generating import share_of
from rlscaling.trainer.distributed.layout import Layout, check_layout, layout_of, place_of
from rlscaling.trainer.distributed.sharding import BUCKET_BYTES, Trainers, buckets
from rlscaling.trainer.distributed.shards import load_shards, remove_other_shards, save_shards
from rlscaling.trainer.evaluate import evaluation_seed, generate_all, heldout_rollouts
from rlscaling.trainer.jobs import Job, run_jobs
from rlscaling.trainer.learner import Learner
from rlscaling.trainer.rollout import Group, Rollout, pack_rollouts
from rlscaling.trainer.run import Run
from rlscaling.trainer.schedule import Schedule
from small_runs import SMALL

# --- roles ----------------------------------------------------------------------------------------------

TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}


def test_place_is_what_torchrun_says() -> None:
    place = place_of(TORCHRUN)
    assert place is not None
    assert (place.rank, place.world, place.master) == (1, 2, "localhost")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"MASTER_ADDR": ""}, "LOCAL_RANK, MASTER_PORT are set but MASTER_ADDR are not: ranks cannot find each other"),
        ({"RANK": "one"}, "RANK='one' is no whole number; start with torchrun"),
        ({"RANK": "2"}, "RANK=2 with WORLD_SIZE=2: ranks count from 0"),
    ],
)
def test_broken_variables_are_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(TrainError, match=message):
        place_of({**TORCHRUN, **changes})


def test_one_rank_in_five_trains() -> None:
    assert [layout_of(world).trainers for world in (2, 3, 5, 10, 80)] == [1, 1, 1, 2, 16]
    assert layout_of(8, generators=5) == Layout(5, 3)


@pytest.mark.parametrize(("world", "given"), [(1, {}), (2, {"generators": 2}), (3, {"generators": 1, "trainers": 1})])
def test_roles_that_do_not_add_up(world: int, given: dict[str, int]) -> None:
    with pytest.raises(TrainError, match=rf"on {world} ranks?: each role needs at least one"):
        layout_of(world, **given)


def test_ranks_without_work_are_refused() -> None:
    config = make_config(**{**SMALL, "micro_batch": 8})
    with pytest.raises(TrainError, match="7 generators for 6 prompts per step: some would never have one"):
        check_layout(Layout(7, 1), config)
    with pytest.raises(TrainError, match="3 trainers for 2 prompts per backward pass: the batch does not fit them"):
        check_layout(Layout(1, 3), config)
    with pytest.raises(TrainError, match="7 trainers for 6 prompts per backward pass: .* or raise prompts_per_step"):
        check_layout(Layout(1, 7), make_config(**SMALL))
    check_layout(Layout(6, 2), config)


# --- agreement ------------------------------------------------------------------------------------------


def answers(proposals: list[Proposal], timeout: float = 30.0) -> list[str]:
    """What each rank is told when all agree at once."""
    store = dist.HashStore()

    def ask(rank: int) -> str:
        try:
            agree(store, proposals[rank], rank=rank, world=len(proposals), name="agree", timeout=timeout)
        except TrainError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(len(proposals)) as pool:
        return list(pool.map(ask, range(len(proposals))))


def proposed(folder: Path, rank: int, *, resume: bool = True, **changes: Any) -> Proposal:
    config = make_config(changes.pop("recipe", "scalerl"), **{**SMALL, **changes})
    return proposal_of(config, Layout(1, 2), folder, resume=resume, rank=rank)


def test_equal_ranks_agree(tmp_path: Path) -> None:
    assert answers([proposed(tmp_path, rank) for rank in range(3)]) == ["", "", ""]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 3}, "rank 0 has seed=0 and rank 1 has seed=3"),
        ({"recipe": "dapo"}, "rank 0 has recipe='scalerl' and rank 1 has recipe='dapo'"),
        ({"steps": 7}, "rank 0 has steps=2000 and rank 1 has steps=7"),
        ({"resume": False}, "rank 0 has resume=True and rank 1 has resume=False"),
    ],
)
def test_every_rank_hears_of_a_difference(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    told = answers([proposed(tmp_path, 0), proposed(tmp_path, 1, **changes), proposed(tmp_path, 2)])
    assert told == [f"the ranks disagree: {message}; start all of them with the same command"] * 3


def test_every_rank_hears_of_another_checkpoint(tmp_path: Path) -> None:
    train(make_config(**{**SMALL, "steps": 1, "eval_samples": 2}), tmp_path / "there")
    mine, other = proposed(tmp_path / "there", 0), proposed(tmp_path / "elsewhere", 1)
    other = Proposal({**other.settings, "out": mine.settings["out"]})  # the same path on another machine
    told = answers([mine, other, proposed(tmp_path / "there", 2)])
    assert len(set(told)) == 1
    assert "and rank 1 has checkpoint='none'; all trainer ranks must see the same folder" in told[0]
    (tmp_path / "there" / "checkpoint.pt").write_bytes(b"torn")
    told = answers([proposed(tmp_path / "there", rank) for rank in range(3)])
    assert all("rank 0: " in line and "cannot be read as a checkpoint" in line for line in told)


def test_a_rank_that_never_comes_is_named() -> None:
    with pytest.raises(TrainError, match=r"rank 1 of 2 has said nothing for 0.1 s: it has not started"):
        agree(dist.HashStore(), Proposal({}), rank=0, world=2, name="agree", timeout=0.1)


# --- channel --------------------------------------------------------------------------------------------


@pytest.fixture
def ends() -> Iterator[tuple[Hub, list[Spoke]]]:
    """The two kinds of ends, three ranks in one process."""
    store = dist.HashStore()
    with ThreadPoolExecutor(3) as pool:
        made = pool.submit(Hub, store, "channel", "127.0.0.1", [1, 2], 30.0)
        spokes = [pool.submit(Spoke, store, "channel", "127.0.0.1", rank, 30.0).result(30) for rank in (1, 2)]
        hub = made.result(30)
    yield hub, spokes
    hub.close()
    for spoke in spokes:
        spoke.close()


def test_messages_arrive_as_they_were_sent(ends: tuple[Hub, list[Spoke]]) -> None:
    hub, spokes = ends
    arrays = {
        "flags": torch.tensor([True, False, True]),
        "numbers": torch.arange(6).reshape(2, 3),
        "none": torch.empty(0, dtype=torch.float64),
        "scale": torch.tensor(1.5),
    }
    spokes[1].send(Message("group", {"gap": None, "n": 3}, arrays))
    received = hub.receive(30)
    assert received is not None
    rank, message = received
    assert (rank, message.kind, message.facts) == (2, "group", {"gap": None, "n": 3})
    for name, value in arrays.items():
        assert message.arrays[name].dtype == value.dtype
        assert torch.equal(message.arrays[name], value)
    assert not spokes[0].waiting()
    hub.send(Message("start", {"groups": [[0, 7]]}), [1])
    assert spokes[0].receive().facts["groups"] == [[0, 7]]
    assert hub.receive(0.01) is None


def test_nothing_but_data_is_decoded() -> None:
    raw = encode(Message("x", arrays={"a": torch.zeros(2)}))
    head, _ = channel._LENGTHS.unpack(raw[:16])
    with pytest.raises(ValueError, match="cannot create an OBJECT array"):  # one would be a pickle
        decode(raw[16 : 16 + head].replace(b"<f4", b"object"), bytearray(8))


def test_waiting_costs_no_cpu(ends: tuple[Hub, list[Spoke]]) -> None:
    """A generator without work sleeps in ``receive`` until the next message."""
    hub, spokes = ends
    spent: list[float] = []

    def wait() -> None:
        began = time.thread_time()
        spokes[0].receive()
        spent.append(time.thread_time() - began)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.5)
    assert not spent
    hub.send(Message("push", {"version": 1}), [1])
    thread.join(30)
    assert spent[0] < 0.05


def test_a_lost_rank_is_noticed_and_the_others_are_told(ends: tuple[Hub, list[Spoke]]) -> None:
    hub, spokes = ends
    hub.explain = lambda rank: f"{rank} is gone"
    spokes[0].close()
    assert hub.lost() == 1
    with pytest.raises(PeerLostError, match="1 is gone"):
        spokes[1].receive()


def test_rank_0_lost_is_noticed(ends: tuple[Hub, list[Spoke]]) -> None:
    hub, spokes = ends
    hub.close()
    with pytest.raises(PeerLostError, match="rank 0 has ended before the run was done; start again with --resume"):
        spokes[0].receive()
    assert "rank 0 has ended" in spokes[1].reason()


def test_reason_of_the_end_is_told(ends: tuple[Hub, list[Spoke]]) -> None:
    hub, spokes = ends
    hub.abort("the loss of step 3 is nan")
    assert [spoke.reason() for spoke in spokes] == ["the loss of step 3 is nan"] * 2


def test_strangers_are_not_let_in() -> None:
    store = dist.HashStore()
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(Hub, store, "channel", "127.0.0.1", [1], 0.5)
        port = int(store.get("channel").decode()[1:].split(",")[0])
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(channel._HELLO.pack(b"\0" * 32, 1))
            assert stranger.recv(1) == b""
        with pytest.raises(TrainError, match=r"rank 1 did not call within 0.5 s"):
            made.result(30)


# --- checkpoints ----------------------------------------------------------------------------------------


@pytest.fixture
def alone() -> Iterator[dist.ProcessGroup]:
    """A process group of this process."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    assert dist.group.WORLD is not None
    yield dist.group.WORLD
    dist.destroy_process_group()


@pytest.mark.filterwarnings("ignore::UserWarning:torch", "ignore::FutureWarning:torch")
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_shards_hold_weights_masters_and_moments(dtype: str, tmp_path: Path, alone: dist.ProcessGroup) -> None:
    config = make_config(**{**SMALL, "dtype": dtype})
    first, second = (Learner(config, Trainers(alone, "cpu")) for _ in range(2))
    for _ in range(2):
        for weight in first.optimizer.masters:
            weight.grad = torch.ones_like(weight)
        first.optimizer.step()
    save_shards(tmp_path / "checkpoint-2-a", first.model, first.optimizer, alone)
    load_shards(tmp_path / "checkpoint-2-a", second.model, second.optimizer, steps=2, group=alone)
    for left, right in zip(first.optimizer.masters, second.optimizer.masters, strict=True):
        assert torch.equal(whole(left), whole(right))
        a, b = first.optimizer.adamw.state[left], second.optimizer.adamw.state[right]
        assert float(a["step"]) == float(b["step"]) == 2
        assert all(torch.equal(whole(a[name]), whole(b[name])) for name in ("exp_avg", "exp_avg_sq"))
    for a, b in zip(first.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(whole(a), whole(b))
    remove_other_shards(tmp_path, "checkpoint-2-b")
    with pytest.raises(TrainError, match=r"checkpoint-2-a cannot be read .* put it back, or remove checkpoint.pt"):
        load_shards(tmp_path / "checkpoint-2-a", second.model, second.optimizer, steps=2, group=alone)
    (tmp_path / "file").write_text("")
    with pytest.raises(
        TrainError, match=r"file/checkpoint-3 could not be written: .*; the checkpoint before it is whole"
    ):
        save_shards(tmp_path / "file" / "checkpoint-3", first.model, first.optimizer, alone)


def whole(value: Any) -> torch.Tensor:
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def test_the_command_of_one_process_refuses_to_be_a_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(TrainError, match="this is rank 1 of 2 and would train the same run as the others"):
        next(run_jobs([Job(make_config(**SMALL), tmp_path / "run")], resume=False))


# --- dispatch -------------------------------------------------------------------------------------------

P = 4


def prompt(index: int) -> Any:
    return SimpleNamespace(ids=(1, 2), index=index)


def group(n: int, index: int) -> Group:
    one = np.ones(1, dtype=np.int64)
    rollouts = tuple(
        Rollout(n, sample, prompt(index), one, one.astype(np.float32), one > 0, one, False, False, 1.0, 1.0)
        for sample in range(2)
    )
    return Group(n, prompt(index), rollouts)


def counting() -> Callable[[], int]:
    numbers = iter(range(10_000))
    return lambda: next(numbers)


@pytest.mark.parametrize(
    ("kind", "k"), [("pipeline", 0), ("pipeline", 3), ("ppo-off-policy", 1), ("ppo-off-policy", 3)]
)
def test_no_group_is_handed_out_before_its_time_and_each_is_trained_once(kind: str, k: int, rng: Any) -> None:
    """Generators that finish in any order: groups are trained in the order of their start, at most k updates old."""
    work, draw, in_flight = Dispatcher(Schedule(kind, k, P), [1, 2]), counting(), {}
    trained = []
    for step in range(12):
        for rank, new in work.assign(draw).items():
            in_flight |= {n: (rank, index, step) for n, index in new}
        while not work.ready:
            n = int(rng.choice(sorted(in_flight)))
            _, index, _ = in_flight.pop(n)
            work.add(group(n, index))
        batch = work.take()
        trained += [(g.index, g.prompt.index) for g in batch]
        assert all(n // P - step <= k for n in in_flight)
        work.updates += 1
    assert trained == [(n, n) for n in range(12 * P)]


def test_work_goes_to_the_generator_with_the_least() -> None:
    work = Dispatcher(Schedule("pipeline", 0, P), [1, 2])
    assert work.assign(counting()) == {1: [(0, 0), (2, 2)], 2: [(1, 1), (3, 3)]}
    work = Dispatcher(Schedule("pipeline", 1, P), [1, 2])
    draw = counting()
    first = work.assign(draw)
    for n, index in first[1]:
        work.add(group(n, index))
    for n, index in first[2][:2]:
        work.add(group(n, index))
    work.take()
    work.updates += 1
    assert work.assign(draw) == {1: [(8, 8), (9, 9), (10, 10)], 2: [(11, 11)]}


def test_resumed_dispatch_starts_what_was_in_flight_anew_on_any_number_of_generators() -> None:
    work, draw = Dispatcher(Schedule("pipeline", 1, P), [1, 2]), counting()
    given = dict(item for new in work.assign(draw).values() for item in new)
    for n in (0, 1, 2, 3, 5):
        work.add(group(n, given[n]))
    work.take()
    work.updates += 1
    state = work.state_dict()
    again = Dispatcher(Schedule("pipeline", 1, P), [1])
    again.load_state_dict(state, prompt)
    assert again.assign(draw) == {1: [(4, 4), (6, 6), (7, 7), (8, 8), (9, 9), (10, 10), (11, 11)]}
    for n in (4, 6, 7):
        again.add(group(n, n))
    assert [g.index for g in again.take()] == [4, 5, 6, 7]


def test_a_pool_that_runs_out_stops_after_the_last_whole_batch() -> None:
    curriculum = Curriculum(P * 2, P, kind="npr", threshold=0.5, seed=0)
    for index in range(P * 2):
        curriculum.record(index, 1, 1)
    curriculum._order, curriculum.epoch = np.arange(P * 2), 0  # the first epoch was begun before they were mastered
    work, done = Dispatcher(Schedule("pipeline", 3, P), [1]), 0
    while not work.stuck:
        for new in work.assign(curriculum.draw).values():
            for n, index in new:
                work.add(group(n, index))
        if work.ready:
            done += len(work.take())
            work.updates += 1
    assert done == P * 2
    assert "fewer than the 4 of one update" in work.exhausted


def test_groups_come_out_of_a_message_sorted() -> None:
    rollouts = [r for g in (group(3, 30), group(2, 20)) for r in reversed(g.rollouts)]
    found = groups_of(pack_rollouts(rollouts), prompt)
    assert [(g.index, g.prompt.index, [r.sample for r in g.rollouts]) for g in found] == [
        (2, 20, [0, 1]),
        (3, 30, [0, 1]),
    ]


# --- clocks and weights ---------------------------------------------------------------------------------


def test_meter_counts_every_rank_also_after_a_resume_with_another_number() -> None:
    meter = ClusterMeter(n_devices=3)
    meter.seconds |= {"generate": 10.0, "train": 20.0, "checkpoint": 5.0, "evaluate": 7.0}
    assert meter.compute_hours == pytest.approx(3 * 35 / 3600)
    later = ClusterMeter(n_devices=2)
    later.load_state_dict(meter.state_dict())
    later.seconds["train"] += 100.0
    columns = later.columns("compute")
    assert columns["compute"] == pytest.approx((3 * 35 + 2 * 100) / 3600)
    assert columns["eval_gpu_hours"] == pytest.approx(3 * 7 / 3600)
    assert columns["seconds_train"] == 120.0


def test_rank_clock_leaves_evaluations_out() -> None:
    clock = RankClock()
    with clock.waiting():
        time.sleep(0.05)
    with clock.left_out(), clock.waiting():
        time.sleep(0.1)
    spent = clock.read()
    assert 0.05 <= spent.waiting < 0.1
    assert spent.waiting <= spent.elapsed < 0.1
    assert Spent(3.0, 4.0).since(Spent(1.0, 0.0)).idle_fraction == 0.5
    assert Spent().idle_fraction is None


def test_small_weights_travel_together() -> None:
    big = torch.empty(BUCKET_BYTES // 4 + 1)
    weights = [torch.empty(4), torch.empty(5), big, torch.empty(1, dtype=torch.bfloat16), torch.empty(2)]
    assert list(buckets(weights)) == [[0, 1], [2], [3], [4]]
    assert list(buckets([])) == []


def test_shares_of_an_evaluation_are_the_evaluation() -> None:
    config = make_config(**{**SMALL, "eval_samples": 3})
    run = Run(config)
    seed = evaluation_seed(config, 5)
    whole = generate_all(run.model, run.task, run.heldout, 3, seed=seed)
    shares = [share_of(len(run.heldout), i, 4) for i in range(4)]
    assert [len(share) for share in shares] == [2, 3, 2, 3]
    parts = []
    for share in shares:
        prompts = [run.heldout[i] for i in share]
        parts += heldout_rollouts(run.model, run.task, prompts, config, seed=seed, numbers=share)
    assert [(r.group, r.sample, r.tokens.tolist()) for r in parts] == [
        (r.group, r.sample, r.tokens.tolist()) for r in whole
    ]
