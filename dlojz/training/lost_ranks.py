"""Which process of a job is lost: so that the others can name it, and end in bounded time instead of waiting for it.

A process that was killed shows to the others as a connection that gloo finds closed, which says no name; with NCCL it shows as
nothing at all: they wait for it in a kernel until a watchdog ends them, minutes later. So each process also holds a connection to
rank 0, on which it says every second how far it has come. The system closes that connection in the moment in which its process
ends, whatever has ended it. A thread listens; the training itself is not touched.

    begin(place)       on all ranks, once the process group is there
    passed()           a step is done
    leave(words)       this process ends: with the words of what has stopped it, or without, where it is through
    lost(wait)         {rank: what is known of its end}, for an error message
"""

from __future__ import annotations

import json
import math
import os
import secrets
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path

EVERY = 1.0  # seconds between two signs of life
SILENCE = 60.0  # without one: the process is stopped, or its node is gone
PATIENCE = float(os.environ.get("DLOJZ_PATIENCE") or 600.0)  # nobody moves, and one is behind the others: NCCL waits as long
GRACE = 15.0  # for a process to fail by itself once another is lost; torchrun kills it after 30, srun (as we call it) after 60
WORDLESS = "died without an error message; it was probably killed"

_roll: Roll | None = None


class Roll:
    """One process's part of the roll call. ``give_up(lost, over)`` is called in a thread where the process doesn't end by itself:
    with what is known of each lost rank, and the ranks that have ended as they should.

    ``collectives``: how many this process has begun with all others.
    """

    def __init__(self, rank: int, give_up=None, patience: float | None = None, collectives=lambda: None):
        self.rank = rank
        self.give_up = give_up
        self.collectives = collectives
        self.patience = PATIENCE if patience is None else patience
        self.steps = 0
        self.lost: dict[int, str] = {}
        self.over: dict[int, int | None] = {}  # the ranks that have ended as they should, with the collectives that they began
        self.heard = threading.Event()  # something is lost
        self.left = False
        self.ours: dict[socket.socket, _Peer] = {}  # rank 0: those who hold a connection; the others: rank 0
        self._me = _Peer(0)
        self._since: float | None = None  # when the first was lost
        self._looked = math.inf
        self._lock = threading.Lock()

    # ------------------------------------------------------------------------------------------------------- connections
    def listen(self, host: str) -> dict:
        """Rank 0: returns what the others need for `join`."""
        self._server = socket.socket()
        try:
            self._server.bind((host, 0))
        except OSError:  # the name of the node may be an address that it doesn't have itself
            self._server.bind(("", 0))
        self._server.listen(1024)
        self._secret = secrets.token_hex(16)
        return {"host": host, "port": self._server.getsockname()[1], "secret": self._secret}

    def join(self, address: dict) -> None:
        """Another rank: raises OSError where rank 0 can't be reached."""
        connection = socket.create_connection((address["host"], address["port"]), timeout=10)
        self.ours[connection] = _Peer(0)
        self._tell({"secret": address["secret"], "rank": self.rank, "pid": os.getpid(), "host": socket.gethostname()})

    def connections(self) -> list[socket.socket]:
        return [*self.ours, *([self._server] if self.rank == 0 else [])]

    def start(self) -> None:
        threading.Thread(target=self._run, name="roll call", daemon=True).start()

    def leave(self, words: str = "") -> None:
        """Say goodbye: with words, the others hear what has stopped this process."""
        self.left = True
        self._tell({"failed": words} if words else {"over": True, "collectives": self.collectives()})

    def _tell(self, words: dict) -> None:
        with self._lock:
            for connection in list(self.ours):
                with suppress(OSError):
                    connection.sendall(json.dumps(words).encode() + b"\n")

    # ------------------------------------------------------------------------------------------------------------- thread
    def _run(self) -> None:
        next_sign = 0.0
        while not (self.left and self.rank):  # rank 0 still tells the others while it ends
            try:
                for ready in wait(self.connections(), 0.2):
                    self._hear(ready)
            except (OSError, ValueError):  # no file descriptor is left for a newcomer, say
                time.sleep(0.2)
            now = time.monotonic()
            if now >= next_sign and not self.left:
                next_sign = now + EVERY
                at = standing(self.steps)
                self._me.moved(at, now)
                if self.rank == 0:
                    self._look_around(now)
                else:
                    self._tell(at)
                if self._waits_for_ended(now):
                    self.give_up({}, set(self.over))
                    return
            if self._since is not None and now > self._since + GRACE and self.give_up and not self.left:
                self.give_up(dict(self.lost), set(self.over))
                return
            if self.rank and not self.ours:
                if not self.lost and not self.over:
                    return
                time.sleep(0.2)

    def _hear(self, ready: socket.socket) -> None:
        if self.rank == 0 and ready is self._server:
            connection, _ = ready.accept()
            connection.settimeout(10)
            self.ours[connection] = _Peer(None)
            return
        peer = self.ours[ready]
        try:
            data = ready.recv(65536)
        except OSError:
            data = b""
        if not data:
            ready.close()
            del self.ours[ready]
            # Once one is lost the others end, too: they are not the cause.
            if peer.rank is not None and peer.rank not in self.over and not self.lost:
                self._lose({peer.rank: f"{peer.where}{WORDLESS}"})
            return
        *lines, peer.waiting = (peer.waiting + data).split(b"\n")
        for line in lines:
            with suppress(ValueError, LookupError, TypeError, AttributeError):  # no words of ours
                self._understand(peer, json.loads(line), ready)

    def _understand(self, peer: _Peer, said: dict, connection: socket.socket) -> None:
        if peer.rank is None:
            if said.get("secret") != self._secret:
                connection.close()
                del self.ours[connection]
                return
            peer.rank, peer.where = said["rank"], f"(process {said['pid']} on {said['host']}) "
        elif "over" in said:
            self.over[peer.rank] = said.get("collectives")
            if self.rank == 0:
                self._tell({"ended": self.over})
        elif "ended" in said:
            self.over |= {int(rank): count for rank, count in said["ended"].items()}
        elif "failed" in said:
            self._lose({peer.rank: f"{peer.where}stopped: {said['failed']}"})
        elif "lost" in said:
            self._lose({int(rank): words for rank, words in said["lost"].items()})
        else:
            peer.moved(said, time.monotonic())

    def _look_around(self, now: float) -> None:
        """Rank 0: who has fallen silent, and who keeps all the others waiting."""
        peers = [peer for peer in self.ours.values() if peer.rank is not None and peer.heard]
        asleep, self._looked = now - self._looked > SILENCE / 2, now
        for peer in peers:
            if asleep:  # so was this process: a scheduler may stop all processes of a job for a while
                peer.heard = peer.since = now
            if now > peer.heard + SILENCE and peer.rank not in self.over:
                self._lose({peer.rank: f"{peer.where}has not responded for {SILENCE:.0f} seconds"})
        peers = [self._me, *(peer for peer in peers if peer.rank not in self.over)]
        waited = now - max(peer.since for peer in peers)
        if waited > self.patience:
            behind = behind_the_others({peer.rank: peer.at for peer in peers})
            said = f"has not moved for {waited:.0f} seconds, while the others wait for it: it is in"
            self._lose({peer.rank: f"{peer.where}{said} {peer.place}" for peer in peers if peer.rank in behind})

    def _waits_for_ended(self, now: float) -> bool:
        """Whether this process stands in a collective that one which has ended never began, and so will never end: with NCCL it
        would not hear of that, and where it waits otherwise, for its disk, say, it is let alone."""
        begun = self.collectives()
        return (begun is not None and any(count is not None and count < begun for count in self.over.values())
                and not self.lost and now > self._me.since + GRACE and self.give_up is not None)

    def _lose(self, found: dict[int, str]) -> None:
        new = {rank: words for rank, words in found.items() if rank not in self.lost}
        if not new or (self.rank in new and self.left):
            return
        self.lost |= new
        if self._since is None:
            self._since = time.monotonic()
        if self.rank in new:  # it is this one that hangs: show where
            with suppress(Exception):
                traceback.print_stack(sys._current_frames()[threading.main_thread().ident])
        if self.rank in new or any("has not moved" in words for words in new.values()):
            self._since -= GRACE  # nobody fails by itself there
        self.heard.set()
        if self.rank == 0:
            self._tell({"lost": new})


class _Peer:
    """What is known of a process: where it stands (``at``) and since when."""

    def __init__(self, rank: int | None):
        self.rank = rank
        self.where = self.place = ""
        self.at: list = []
        self.waiting = b""
        self.heard = self.since = 0.0
        self._last: dict = {}

    def moved(self, said: dict, now: float) -> None:
        self.heard = now
        if said != self._last:
            self._last, self.since = said, now
            self.at, self.place = said.get("at", []), said.get("place", "")


def standing(steps: int) -> dict:
    """Where the main thread is: ``at``, steps done and then the lines of the script's functions from outside in, which grow as
    a step goes on; ``place``, for a reader; ``deep``, whatever else moves."""
    frame = sys._current_frames().get(threading.main_thread().ident)
    deep = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""
    folder, lines, place = Path(sys.argv[0]).resolve().parent, [], ""
    while frame is not None:
        file = Path(frame.f_code.co_filename)
        if file.parent == folder or file.resolve().parent == folder:
            place = place or f"line {frame.f_lineno} of {file.name}"
            lines.append(frame.f_lineno)
        frame = frame.f_back
    return {"at": [steps, *reversed(lines)], "place": place or deep, "deep": deep}


def behind_the_others(at: dict[int, list]) -> list[int]:
    """The ranks that have come least far; none where all are at the same place."""
    least = min(at.values())
    behind = [rank for rank, place in at.items() if place == least]
    return [] if len(behind) == len(at) else behind


# ------------------------------------------------------------------------------------------------ what a training calls
def begin(place, give_up=None, patience: float | None = None) -> None:
    """On all ranks of the process group; ``place`` is a `distributed.Processes`. Where rank 0 cannot be reached, nothing is lost
    but this."""
    global _roll
    from . import distributed

    roll, address = Roll(place.rank, give_up, patience, distributed.collectives), None
    if place.rank == 0:
        with suppress(OSError):
            address = roll.listen(os.environ.get("MASTER_ADDR") or "127.0.0.1")
    address = distributed.same_everywhere(address)
    if address is None:
        return
    if place.rank:
        try:
            roll.join(address)
        except OSError:
            return
    _roll = roll
    os.register_at_fork(after_in_child=forget)
    roll.start()


def forget() -> None:
    """In a fork, such as a loader's worker: a connection that it keeps open would make its dead parent look alive."""
    global _roll
    for connection in _roll.connections() if _roll else ():
        connection.close()
    _roll = None


def passed() -> None:
    if _roll is not None:
        _roll.steps += 1


def leave(words: str = "") -> None:
    if _roll is not None:
        _roll.leave(words)


def lost(wait: float = 0.0) -> tuple[dict[int, str], set[int]]:
    """What is known of each lost rank, and the ranks that have ended as they should; waits until one is known to be lost."""
    if _roll is None:
        return {}, set()
    _roll.heard.wait(wait)
    return dict(_roll.lost), set(_roll.over)
