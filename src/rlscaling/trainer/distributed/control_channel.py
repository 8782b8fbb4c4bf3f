"""Messages between rank 0 and the others over TCP: JSON and raw arrays, nothing that could run code.

Collectives need both sides at the same moment. What is decided between them goes through here: a generator looks for
messages between two decode calls, or sleeps until one arrives, and a rank that dies is noticed because its connection
ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import queue
import secrets
import select
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch

from rlscaling.trainer.errors import TrainError

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store


_LENGTHS = struct.Struct("<QQ")  # bytes of the JSON part, bytes of the arrays
_READ_SECONDS = 1.0
END_SECONDS = 60.0
"""By when a generator has finished the decode call that it is in at the end of a run."""
_GREETING = struct.Struct("<32sQ")  # the secret of the job and the rank
NOTICE_SECONDS = 5.0
"""By when the end of a connection is known after a collective has failed."""


@dataclasses.dataclass(frozen=True, eq=False)
class Message:
    """A message: its kind, facts that JSON holds, arrays."""

    kind: str
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    arrays: Mapping[str, torch.Tensor] = dataclasses.field(default_factory=dict)


class PeerLostError(TrainError):
    """A rank that the others need has ended."""


def encode(message: Message) -> bytes:
    """Return the bytes of a message."""
    arrays = {name: tensor.contiguous().numpy() for name, tensor in message.arrays.items()}
    shapes = [(name, array.dtype.str, array.shape) for name, array in arrays.items()]
    head = json.dumps({"kind": message.kind, "facts": message.facts, "arrays": shapes}).encode()
    body = b"".join(array.tobytes() for array in arrays.values())
    return _LENGTHS.pack(len(head), len(body)) + head + body


def decode(head: bytes, body: bytearray) -> Message:
    """Return the message of which these are the parts."""
    description = json.loads(head)
    arrays, at = {}, 0
    for name, dtype, shape in description["arrays"]:
        count = int(np.prod(shape, dtype=np.int64))
        values = np.frombuffer(body, dtype=np.dtype(dtype), count=count, offset=at)
        at += values.nbytes
        # a copy: an array in the middle of the buffer may not be aligned
        arrays[name] = torch.from_numpy(values.reshape(shape).copy())
    return Message(description["kind"], description["facts"], arrays)


class Connection:
    """One end of a connection; messages come whole or not at all."""

    def __init__(self, sock: socket.socket, peer: int) -> None:
        self.sock, self.peer = sock, peer
        self._sending = threading.Lock()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def send(self, message: Message) -> None:
        """Send a message."""
        try:
            with self._sending:
                self.sock.sendall(encode(message))
        except OSError:
            raise self._lost() from None

    def receive(self) -> Message:
        """Return the next message, however long it takes."""
        head, body = _LENGTHS.unpack(self._read(_LENGTHS.size))
        return decode(bytes(self._read(head)), self._read(body))

    def waiting(self) -> bool:
        """Whether a message, or the end of the connection, is there."""
        return bool(select.select([self.sock], [], [], 0)[0])

    def _read(self, n: int) -> bytearray:
        data = bytearray(n)
        view = memoryview(data)
        while view:
            try:
                n_read = self.sock.recv_into(view)
            except OSError:
                n_read = 0
            if not n_read:
                raise self._lost()
            view = view[n_read:]
        return data

    def _lost(self) -> PeerLostError:
        remedy = "" if self.peer else "; start again with --resume"  # rank 0 itself knows what is left
        return PeerLostError(f"rank {self.peer} has ended before the run was done{remedy}")

    def close(self) -> None:
        """End the connection."""
        self.sock.close()


class ControlServer:
    """The end at rank 0: a thread takes in what the others send, so that none of them ever waits for an update.

    Parameters
    ----------
    store
        Where the others find the address.
    name
        Name of the channel in the store.
    host
        Address that the others reach this machine by.
    others
        Ranks to wait for.
    timeout
        Seconds to wait for them.

    Attributes
    ----------
    explain : callable
        Returns what the others are told when a rank has ended, from its number.
    """

    def __init__(self, store: Store, name: str, host: str, others: Iterable[int], timeout: float) -> None:
        self._connections: dict[int, Connection] = {}
        self._inbox: queue.SimpleQueue[tuple[int, Message | None]] = queue.SimpleQueue()
        self._lost: list[int] = []
        self._over = False  # ranks may end
        self.explain: Callable[[int], str] = lambda rank: f"rank {rank} has ended before the run was done"
        family, *_, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.create_server(address[:2], family=family) as server:
            secret = secrets.token_bytes(32)
            store.set(name, json.dumps([server.getsockname()[1], secret.hex()]))
            self._accept(server, secret, set(others), timeout)
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._fill_inbox, name="rlscaling-channel", daemon=True)
        self._thread.start()

    def _accept(self, server: socket.socket, secret: bytes, missing: set[int], timeout: float) -> None:
        server.settimeout(timeout)
        while missing:
            try:
                sock, _ = server.accept()
                sock.settimeout(timeout)
                offered, rank = _GREETING.unpack(sock.recv(_GREETING.size, socket.MSG_WAITALL))
            except TimeoutError:
                raise TrainError(f"rank {min(missing)} did not call within {timeout:g} s; see its own output") from None
            except struct.error:  # no rank: the first message is too short
                sock.close()
                continue
            if not secrets.compare_digest(offered, secret) or rank not in missing:
                sock.close()
                continue
            sock.settimeout(None)
            missing.remove(rank)
            self._connections[rank] = Connection(sock, rank)

    def _fill_inbox(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ)
            for rank, connection in self._connections.items():
                selector.register(connection.sock, selectors.EVENT_READ, rank)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is self._woken:
                        return
                    try:
                        self._inbox.put((key.data, self._connections[key.data].receive()))
                    except PeerLostError:
                        selector.unregister(key.fileobj)
                        self._lost.append(key.data)
                        self._inbox.put((key.data, None))
                        if not self._over:  # from here, because rank 0 may wait in a collective for those to be told
                            self._over = True
                            self._send_abort(self.explain(key.data))

    def receive(self, timeout: float | None = None) -> tuple[int, Message] | None:
        """Return the next message and who sent it; None when none comes in time.

        Raises
        ------
        PeerLostError
            When a rank has ended.
        """
        try:
            rank, message = self._inbox.get(timeout=timeout)
        except queue.Empty:
            return None
        if message is None:
            raise PeerLostError(f"rank {rank} has ended")
        return rank, message

    def send(self, message: Message, ranks: Iterable[int] | None = None) -> None:
        """Send a message to some ranks, or to all."""
        for rank in self._connections if ranks is None else ranks:
            self._connections[rank].send(message)

    def lost(self, seconds: float = NOTICE_SECONDS) -> int | None:
        """Return a rank that has ended; None when all are still there after some seconds."""
        try:
            while not self._lost and self.receive(seconds) is not None:
                pass
        except PeerLostError:
            pass
        return self._lost[0] if self._lost else None

    def _send_abort(self, reason: str) -> None:
        for connection in self._connections.values():
            with contextlib.suppress(PeerLostError):  # it is the reason, or knows it already
                connection.send(Message("abort", {"reason": reason}))

    def end(self) -> None:
        """Send every rank that the run is done, and wait until all have read it and closed their connections."""
        self._over = True
        for connection in self._connections.values():
            with contextlib.suppress(PeerLostError):  # it has what it needs: the run is done
                connection.send(Message("end"))
        self._drain(END_SECONDS)

    def abort(self, reason: str) -> None:
        """Send every remaining rank the reason for the end, and give it a second to read it and disconnect."""
        self._over = True
        self._send_abort(reason)
        self._drain(_READ_SECONDS)

    def _drain(self, seconds: float) -> None:
        """Read until the others disconnect: closing while something is unread would discard what was sent."""
        until = time.monotonic() + seconds
        while len(self._lost) < len(self._connections) and (left := until - time.monotonic()) > 0:
            with contextlib.suppress(PeerLostError):
                self.receive(left)

    def close(self) -> None:
        """End the thread and all connections."""
        self._over = True
        if not self._thread.is_alive():
            return
        self._wake.send(b"x")
        self._thread.join()
        self._wake.close()
        self._woken.close()
        for connection in self._connections.values():
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ControlClient:
    """The end at any other rank."""

    def __init__(self, store: Store, name: str, host: str, rank: int, timeout: float) -> None:
        port, secret = json.loads(store.get(name))
        try:
            sock = socket.create_connection((host, port), timeout)
        except OSError as error:
            raise TrainError(f"rank {rank} cannot reach rank 0 at {host}:{port}: {error}") from None
        sock.settimeout(None)
        sock.sendall(_GREETING.pack(bytes.fromhex(secret), rank))
        self._connection = Connection(sock, 0)

    def send(self, message: Message) -> None:
        """Send a message to rank 0."""
        self._connection.send(message)

    def receive(self) -> Message:
        """Return the next message from rank 0; sleeps until there is one.

        Raises
        ------
        PeerLostError
            When rank 0 has ended, or says that the run has.
        """
        message = self._connection.receive()
        if message.kind == "abort":
            raise PeerLostError(message.facts["reason"])
        return message

    def waiting(self) -> bool:
        """Whether ``receive`` would return at once."""
        return self._connection.waiting()

    def reason(self) -> str:
        """Return why the run has ended, when a collective has failed."""
        if not select.select([self._connection.sock], [], [], NOTICE_SECONDS)[0]:
            return ""
        try:
            while True:
                self.receive()
        except PeerLostError as error:
            return str(error)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
