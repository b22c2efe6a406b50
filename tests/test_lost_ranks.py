"""The roll call: a process that is lost is named, whatever has ended it, and the others end in bounded time."""

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time

import pytest
from patience import LIMIT, patient
from training import ROOT

from dlojz.training import lost_ranks

# A process of a made-up job: without torch, so that it starts at once. It prints what it learns of the others.
MEMBER = """
import json, os, signal, sys, threading, time
from dlojz.training import lost_ranks
lost_ranks.EVERY, lost_ranks.SILENCE, lost_ranks.GRACE = 0.1, {silence}, 0.5
rank = int(sys.argv[1])
def give_up(lost, over):
    print(json.dumps(["gives up", lost_ranks._roll.rank, lost, sorted(over)]), flush=True)
    os._exit(7)
roll = lost_ranks._roll = lost_ranks.Roll(rank, give_up, patience={patience})
if rank == 0:
    print(json.dumps(roll.listen("127.0.0.1")), flush=True)
else:
    roll.join(json.loads(sys.argv[2]))
roll.start()
for line in sys.stdin:
    exec(line)
"""


class Job:
    def __init__(self, tmp_path, silence=30.0, patience=30.0, world=3):
        file = tmp_path / "member.py"
        file.write_text(textwrap.dedent(MEMBER.format(silence=silence, patience=patience)))
        self.file, self.members = file, []
        self.begin("")
        address = self.members[0].stdout.readline()
        for _ in range(world - 1):
            self.begin(address)
        self.address = json.loads(address)
        for rank in range(world):  # all have said who they are once rank 0 has heard of them
            self.tell(rank, "print('ready', flush=True)")
            assert self.members[rank].stdout.readline() == "ready\n"
        self.tell(0, f"while sum(bool(p.heard) for p in roll.ours.values()) < {world - 1}: time.sleep(0.01)")
        self.tell(0, "print('all here', flush=True)")
        assert self.members[0].stdout.readline() == "all here\n"

    def begin(self, address):
        command = [sys.executable, self.file, str(len(self.members)), address]
        self.members.append(subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
                                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE))

    def tell(self, rank, line):
        self.members[rank].stdin.write(line + "\n")
        self.members[rank].stdin.flush()

    def end(self, rank):
        """(exit code, what it said in the end)."""
        code = self.members[rank].wait(LIMIT)  # its stdin stays open: at its end it would leave
        lines, self.err = self.members[rank].stdout.read().splitlines(), self.members[rank].stderr.read()
        return code, json.loads(lines[-1]) if lines else None


@pytest.fixture
def job(tmp_path):
    made = []

    def make(**more):
        made.append(Job(tmp_path, **more))
        return made[-1]

    yield make
    for each in made:
        for member in each.members:
            member.kill()
            member.wait(LIMIT)
            for pipe in (member.stdin, member.stdout, member.stderr):
                pipe.close()


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_killed_process_is_named_by_all_others(job, lost):
    three = job()
    three.members[lost].kill()
    begun = time.monotonic()
    for rank in {0, 1, 2} - {lost}:
        code, (said, by, found, _) = three.end(rank)
        assert (code, said, by) == (7, "gives up", rank) and list(found) == [str(lost)]
        assert lost_ranks.WORDLESS in found[str(lost)]
    assert time.monotonic() - begun < patient(20)


def test_a_worker_that_outlives_its_process_does_not_hide_its_end(job):
    three = job()
    three.tell(1, "os.register_at_fork(after_in_child=lost_ranks.forget)")
    three.tell(1, "worker = os.fork() or (time.sleep(60), os._exit(0))")
    three.tell(1, "print(worker, flush=True)")
    worker = int(three.members[1].stdout.readline())
    try:
        three.members[1].kill()
        for rank in (0, 2):
            assert list(three.end(rank)[1][2]) == ["1"]
        os.kill(worker, 0)  # it was there all the time
    finally:
        os.kill(worker, signal.SIGKILL)


def test_a_process_that_fails_says_why(job):
    three = job()
    three.tell(1, "lost_ranks.leave('ValueError: mine'); os._exit(1)")
    for rank in (0, 2):
        _, (_, _, found, _) = three.end(rank)
        assert list(found) == ["1"]
        assert found["1"].startswith(f"(process {three.members[1].pid} on ") and "stopped: ValueError: mine" in found["1"]


def test_processes_that_are_through_are_not_lost(job):
    three = job()
    for rank in (1, 0):
        three.tell(rank, "lost_ranks.leave(); os._exit(0)")
        assert three.end(rank)[0] == 0
    time.sleep(1)
    assert three.members[2].poll() is None


def test_who_asks_hears_who_has_ended_already(job):
    three = job()
    three.tell(2, "lost_ranks.leave(); os._exit(0)")
    assert three.end(2)[0] == 0
    three.tell(0, "time.sleep(0.5); print(json.dumps([list(lost_ranks.lost()[0]), list(lost_ranks.lost()[1])]), flush=True)")
    assert json.loads(three.members[0].stdout.readline()) == [[], [2]]


@pytest.mark.parametrize("ended, waits", [(1, 0), (1, 2), (0, 2)])
def test_who_waits_for_one_that_has_ended_ends_as_well(job, ended, waits):
    """It has begun a collective that the other never began. With NCCL nothing else would tell it."""
    three = job()
    three.tell(ended, "roll.collectives = lambda: 6; lost_ranks.leave(); os._exit(0)")
    assert three.end(ended)[0] == 0
    third = ({0, 1, 2} - {ended, waits}).pop()
    three.tell(third, "roll.collectives = lambda: 6; threading.Event().wait()")
    three.tell(waits, "roll.collectives = lambda: 7; threading.Event().wait()")
    assert three.end(waits) == (7, ["gives up", waits, {}, [ended]])


def test_who_waits_for_something_else_is_let_alone(job):
    """For its disk, say, while the others are through."""
    three = job()
    for rank in (1, 2):
        three.tell(rank, "roll.collectives = lambda: 7; lost_ranks.leave(); os._exit(0)")
    three.tell(0, "roll.collectives = lambda: 7; threading.Event().wait()")
    time.sleep(2)
    assert three.members[0].poll() is None


def test_a_process_that_keeps_the_others_waiting_is_named_and_ended(job):
    """All have stopped moving; rank 2 has done a step less. It shows where it stands, and ends as well."""
    three = job(patience=1.5)
    for rank in (0, 1):
        three.tell(rank, "lost_ranks.passed(); threading.Event().wait()")
    three.tell(2, "threading.Event().wait()")
    for rank in (0, 1, 2):
        code, (_, by, found, _) = three.end(rank)
        assert code == 7 and by == rank and list(found) == ["2"]
        assert "has not moved for" in found["2"] and "of member.py" in found["2"]
    assert "member.py" in three.err, "the stack of the one that hangs"


def test_nobody_is_named_where_all_wait_at_the_same_place(job):
    """A compiler at work on all ranks, say: the backend's own time-out decides."""
    three = job(patience=0.5)
    time.sleep(2)
    assert all(member.poll() is None for member in three.members)


def test_a_process_that_moves_is_not_behind(job):
    three = job(patience=1.0)
    moving = "end = time.monotonic() + 3\nwhile time.monotonic() < end: lost_ranks.passed(); time.sleep(0.05)"
    three.tell(1, f"exec({moving!r})")
    for rank in (0, 2):
        three.tell(rank, "lost_ranks._roll.steps = 99")
    time.sleep(2.5)
    assert all(member.poll() is None for member in three.members)


def test_a_process_that_is_stopped_is_named(job):
    three = job(silence=1.5)
    three.members[1].send_signal(signal.SIGSTOP)
    for rank in (0, 2):
        code, (_, _, found, _) = three.end(rank)
        assert code == 7 and list(found) == ["1"] and "not responded for" in found["1"]


def test_a_job_that_is_stopped_as_a_whole_goes_on(job):
    """As a scheduler does that gives its nodes to somebody else for a while."""
    three = job(silence=1.0, patience=1.0)
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for member in reversed(three.members):
            member.send_signal(number)
        time.sleep(2)
    assert all(member.poll() is None for member in three.members)


def test_strangers_are_turned_away(job):
    three = job()
    with socket.create_connection(("127.0.0.1", three.address["port"]), timeout=LIMIT) as stranger:
        stranger.sendall(json.dumps({"secret": "guessed", "rank": 1, "pid": 1, "host": "x"}).encode() + b"\n")
        assert stranger.recv(10) == b""
    with socket.create_connection(("127.0.0.1", three.address["port"]), timeout=LIMIT) as noise:
        noise.sendall(b"GET / HTTP/1.1\r\n[5]\n")
    time.sleep(0.5)
    assert all(member.poll() is None for member in three.members)


@pytest.mark.parametrize("at, behind", [
    ({0: [3, 240, 50], 1: [3, 232]}, [1]), ({0: [3, 240], 1: [3, 240]}, []), ({0: [4, 1], 1: [3, 240], 2: [3, 240]}, [1, 2]),
    ({0: [3], 1: [3, 9]}, [0]), ({0: []}, []),
])
def test_who_is_behind(at, behind):
    assert lost_ranks.behind_the_others(at) == behind


def test_a_place_is_a_line_of_the_script(monkeypatch):
    monkeypatch.setattr(sys, "argv", [__file__])
    found = lost_ranks.standing(5)
    assert found["at"][0] == 5 and "test_lost_ranks.py" in found["place"]


def test_without_a_job_it_does_nothing(monkeypatch):
    monkeypatch.setattr(lost_ranks, "_roll", None)
    lost_ranks.passed()
    lost_ranks.leave("words")
    assert lost_ranks.lost(5) == ({}, set())
