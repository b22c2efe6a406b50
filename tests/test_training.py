"""The books of a training loop: when it saves, and when it stops."""

import argparse

import pytest
import torch

from dlojz.training.distributed import Processes
from dlojz.training.training import Training


class Nothing:
    """A record, a chronometer."""

    def write(self, event, **fields):
        pass

    def start(self):
        pass


@pytest.fixture
def training(capsys):
    """Two epochs of six steps, a checkpoint every four, no step done."""
    training = Training(Processes(), Nothing(), signals := [])
    training.signals, training.args, training.epoch_lengths = signals, argparse.Namespace(checkpoint_every=4), [6, 6]
    training.chronometer, training.device = Nothing(), torch.device("cpu")
    training.watch(12)
    return training


def done(training, steps, **how):
    """Whether it is time to save after each of the next steps; where it is, that is done."""
    due = []
    for _ in range(steps):
        training.step_done(**how)
        due.append(training.should_save())
        if due[-1]:
            training._saved = training.step
    return due


def test_it_saves_every_so_many_steps_and_at_the_end_of_an_epoch(training):
    assert done(training, 6) == [False, False, False, True, False, True]
    training.epoch, training.position = 1, 0
    assert done(training, 6) == [False, False, False, True, False, True]
    assert (training.step, training.position, training.stop) == (12, 6, False)


def test_it_saves_after_updates_only(training):
    assert done(training, 4, updated=False) == [False] * 4 and done(training, 1) == [True]


def test_without_checkpoints_it_saves_to_stop(training):
    training.args.checkpoint_every = None
    assert done(training, 6) == [False] * 6
    training.epoch, training.position = 1, 0
    training.signals.append(15)
    assert done(training, 1, updated=False) == [False] and training.stop, "its gradients are in no checkpoint"
    assert done(training, 1) == [True]


def test_several_processes_stop_when_they_have_read_so(training):
    training.procs = Processes(0, 2)
    training.signals.append(15)
    training.step_done([])
    assert not training.stop, "the other one has not heard of it"
    assert training._ask().item() == 1.0  # without a process group each asks itself
    training.step_done([{"step": 1, "stop": True}])
    assert training.stop
    training.step_done([])
    assert training.stop, "it stays so until there is an update to stop after"


def test_sums_are_begun_anew_where_they_were_reduced(training):
    sums = torch.ones(3)
    training.step_done([], sums)
    assert training.sums is sums and sums.tolist() == [1, 1, 1]
    training.step_done([], sums, reduced=True)
    assert sums.tolist() == [0, 0, 0]
