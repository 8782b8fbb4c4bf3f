"""Messages between ranks: they arrive, losses are noticed, strangers stay out."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.distributed as dist

from rlscaling.trainer import TrainError
from rlscaling.trainer.distributed import control_channel
from rlscaling.trainer.distributed.control_channel import (
    ControlClient,
    ControlServer,
    Message,
    PeerLostError,
    decode,
    encode,
)


@pytest.fixture
def ends() -> Iterator[tuple[ControlServer, list[ControlClient]]]:
    """The two kinds of ends, three ranks in one process."""
    store = dist.HashStore()
    with ThreadPoolExecutor(3) as pool:
        made = pool.submit(ControlServer, store, "channel", "127.0.0.1", [1, 2], 30.0)
        clients = [pool.submit(ControlClient, store, "channel", "127.0.0.1", rank, 30.0).result(30) for rank in (1, 2)]
        server = made.result(30)
    yield server, clients
    server.close()
    for client in clients:
        client.close()


def test_messages_arrive_as_they_were_sent(ends: tuple[ControlServer, list[ControlClient]]) -> None:
    server, clients = ends
    arrays = {
        "flags": torch.tensor([True, False, True]),
        "numbers": torch.arange(6).reshape(2, 3),
        "none": torch.empty(0, dtype=torch.float64),
        "scale": torch.tensor(1.5),
    }
    clients[1].send(Message("group", {"gap": None, "n": 3}, arrays))
    received = server.receive(30)
    assert received is not None
    rank, message = received
    assert (rank, message.kind, message.facts) == (2, "group", {"gap": None, "n": 3})
    for name, value in arrays.items():
        assert message.arrays[name].dtype == value.dtype
        assert torch.equal(message.arrays[name], value)
    assert not clients[0].waiting()
    server.send(Message("start", {"groups": [[0, 7]]}), [1])
    assert clients[0].receive().facts["groups"] == [[0, 7]]
    assert server.receive(0.01) is None


def test_nothing_but_data_is_decoded() -> None:
    raw = encode(Message("x", arrays={"a": torch.zeros(2)}))
    head, _ = control_channel._LENGTHS.unpack(raw[:16])
    with pytest.raises(ValueError, match="cannot create an OBJECT array"):  # one would be a pickle
        decode(raw[16 : 16 + head].replace(b"<f4", b"object"), bytearray(8))


def test_waiting_costs_no_cpu(ends: tuple[ControlServer, list[ControlClient]]) -> None:
    """A generator without work sleeps in ``receive`` until the next message."""
    server, clients = ends
    waited: list[float] = []

    def wait() -> None:
        began = time.thread_time()
        clients[0].receive()
        waited.append(time.thread_time() - began)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.5)
    assert not waited
    server.send(Message("push", {"version": 1}), [1])
    thread.join(30)
    assert waited[0] < 0.05


def test_a_lost_rank_is_noticed_and_the_others_are_told(ends: tuple[ControlServer, list[ControlClient]]) -> None:
    server, clients = ends
    server.explain = lambda rank: f"{rank} is gone"
    clients[0].close()
    assert server.lost() == 1
    with pytest.raises(PeerLostError, match="1 is gone"):
        clients[1].receive()


def test_rank_0_lost_is_noticed(ends: tuple[ControlServer, list[ControlClient]]) -> None:
    server, clients = ends
    server.close()
    with pytest.raises(PeerLostError, match="rank 0 has ended before the run was done; start again with --resume"):
        clients[0].receive()
    assert "rank 0 has ended" in clients[1].reason()


def test_reason_of_the_end_is_told(ends: tuple[ControlServer, list[ControlClient]]) -> None:
    server, clients = ends
    server.abort("the loss of step 3 is nan")
    assert [client.reason() for client in clients] == ["the loss of step 3 is nan"] * 2


def test_strangers_are_not_let_in() -> None:
    store = dist.HashStore()
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(ControlServer, store, "channel", "127.0.0.1", [1], 0.5)
        port = int(store.get("channel").decode()[1:].split(",")[0])
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(control_channel._GREETING.pack(b"\0" * 32, 1))
            assert stranger.recv(1) == b""
        with pytest.raises(TrainError, match=r"rank 1 did not call within 0.5 s"):
            made.result(30)
