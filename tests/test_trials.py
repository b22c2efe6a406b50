"""Workers on one journal: exactly as many trials as were asked for, and what a killed worker had begun is taken up again.

Workers are forked, so that a kill costs milliseconds. They are killed for real, at each line that one writes into the journal.
"""

import os
import random
import signal
import sys
import time
import traceback

import pytest
from patience import LIMIT

from dlojz.system.errors import UsageError
from dlojz.training import trials

optuna = pytest.importorskip("optuna")


def forked(function, *given):
    """The pid of a process that calls ``function`` and ends with 0, or with what it raises."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        function(*given)
        code = 0
    except SystemExit as stop:
        code = stop.code
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def ended(pid):
    """Its exit code; minus the number of the signal that has killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def square(trial):
    x = trial.suggest_float("x", -1, 1)
    trial.report(x, 1)
    return x * x


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def work(journal, count, objective=square):
    return trials.Search(journal).run(objective, count)


def states(journal):
    found = trials.Search(journal).study.trials
    assert [trial.number for trial in found] == list(range(len(found)))
    return [trial.state.name for trial in found]


@pytest.fixture
def journal(tmp_path, monkeypatch):
    monkeypatch.setattr(trials, "POLL", 0.01)
    return tmp_path / "deep" / "search.journal"


def elsewhere(journal, count, objective):
    trials.place = lambda: "another machine"
    work(journal, count, objective)


def aged(journal):
    """As if the workers of other machines had not been heard of for longer than their lease."""
    long_ago = time.time() - trials.LEASE - 60
    for file in journal.with_name(journal.name + ".workers").iterdir():
        os.utime(file, (long_ago, long_ago))


# ------------------------------------------------------------------------------------------------------------- how many
def test_three_workers_run_as_many_trials_as_were_asked_for(journal):
    workers = [forked(work, journal, 20) for _ in range(3)]
    assert [ended(pid) for pid in workers] == [0, 0, 0]
    assert states(journal) == ["COMPLETE"] * 20
    found = trials.Search(journal).study.trials
    assert len({trial.params["x"] for trial in found}) == 20  # no two workers propose the same
    assert not list(journal.parent.glob("*.workers"))


def test_more_trials_later_and_none_if_there_are_enough(journal):
    assert work(journal, 3) == [0, 1, 2]
    assert work(journal, 5) == [3, 4]
    assert work(journal, 5) == work(journal, 2) == []
    assert states(journal) == ["COMPLETE"] * 5


def test_one_worker_proposes_the_same_each_time(journal, tmp_path):
    for path in (journal, tmp_path / "other"):
        work(path, 12)
    one, other = ([trial.params for trial in trials.Search(path).study.trials] for path in (journal, tmp_path / "other"))
    assert one == other


def test_pruned_trials_count(journal):
    def hopeless(trial):
        trial.report(trial.suggest_float("x", 0, 1), 1)
        raise optuna.TrialPruned

    assert work(journal, 3, hopeless) == [0, 1, 2]
    assert states(journal) == ["PRUNED"] * 3


# ---------------------------------------------------------------------------------------------------------------- kills
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_worker_is_killed_at_each_line_that_it_writes(journal, when):
    def killed_at(line, path):
        written = 0
        backend = optuna.storages.journal.JournalFileBackend
        append = backend.append_logs

        def counted(self, logs):
            nonlocal written
            written += 1
            if written == line and when == "before":
                die()
            append(self, logs)
            if written == line:
                die()

        backend.append_logs = counted
        work(path, 2)

    for line in range(1, 100):
        path = journal.with_name(f"{line}.journal")
        code = ended(forked(killed_at, line, path))
        work(path, 2)
        assert states(path) == ["COMPLETE"] * 2, line
        for trial in trials.Search(path).study.trials:
            assert trial.value == trial.params["x"] ** 2 and trial.intermediate_values == {1: trial.params["x"]}, line
        if code == 0:
            assert line > 10  # of a study, of the filling, and five of each trial
            return
        assert code == -signal.SIGKILL
    pytest.fail("it never ended by itself")


def test_a_killed_workers_trial_keeps_its_number_and_parameters(journal):
    def objective(trial):
        x = trial.suggest_float("x", -1, 1)
        trial.report(x, 1)
        if trial.number == 1:
            die()
        return x

    assert ended(forked(work, journal, 3, objective)) == -signal.SIGKILL
    before = trials.Search(journal).study.trials
    assert [trial.state.name for trial in before] == ["COMPLETE", "RUNNING", "WAITING"]
    assert work(journal, 3) == [1, 2]
    after = trials.Search(journal).study.trials
    assert after[1].params == before[1].params and after[1].value == before[1].params["x"] ** 2
    one, other = trials.attempts(after[1].user_attrs)
    assert one["process"] != other["process"] and one["at"] < other["at"]
    rows = trials.rows(trials.Search(journal).study)
    assert [[worker for worker, _ in row["workers"]] for row in rows] == [[1], [1, 2], [2]]
    assert [row["state"] for row in rows] == ["complete"] * 3 and rows[0]["begin"] == 0 and rows[1]["end"] > rows[1]["begin"]


def test_a_trial_that_kills_its_workers_fails(journal, capfd):
    def objective(trial):
        if trial.number == 1:
            die()
        return 0.0

    codes = [ended(forked(work, journal, 3, objective)) for _ in range(trials.ATTEMPTS + 1)]
    assert codes == [-signal.SIGKILL] * trials.ATTEMPTS + [0]
    assert states(journal) == ["COMPLETE", "FAIL", "COMPLETE"]
    assert "trial 1 failed: 3 workers died while they ran it" in capfd.readouterr().err


def many_kills(journal, monkeypatch, kills, count):
    monkeypatch.setattr(trials, "GRACE", 3)  # some are killed while they write
    monkeypatch.setattr(trials, "ATTEMPTS", 10_000)

    def slow(trial):
        time.sleep(0.02)
        return square(trial)

    draw = random.Random(0)
    workers = [forked(work, journal, count, slow) for _ in range(3)]
    for _ in range(kills):
        time.sleep(draw.random() * 0.1)
        victim = workers.pop(draw.randrange(len(workers)))
        os.kill(victim, signal.SIGKILL)
        ended(victim)
        workers.append(forked(work, journal, count, slow))
    assert [ended(pid) for pid in workers] == [0, 0, 0]
    assert states(journal) == ["COMPLETE"] * count


def test_some_kills_at_any_time(journal, monkeypatch):
    many_kills(journal, monkeypatch, 5, 15)


@pytest.mark.long
def test_many_kills_at_any_time(journal, monkeypatch):
    many_kills(journal, monkeypatch, 150, 60)


@pytest.mark.long
def test_a_worker_that_is_killed_while_it_writes_does_not_lock_out_the_others(journal, monkeypatch):
    monkeypatch.setattr(trials, "GRACE", 3)

    def locks_and_dies(trial):
        optuna.storages.journal.JournalFileSymlinkLock(str(journal)).acquire()
        die()

    assert ended(forked(work, journal, 2, locks_and_dies)) == -signal.SIGKILL
    assert work(journal, 2) == [0, 1]


@pytest.mark.parametrize("half", [b"{", b'{"op_code":8,"worker_id":"' + b"x" * 9000], ids=["a byte", "more than a page"])
def test_half_a_line_of_a_killed_worker_is_cut_off(journal, half):
    assert work(journal, 1) == [0]
    whole = journal.read_bytes()
    journal.write_bytes(whole + half)
    assert work(journal, 2) == [1]
    assert journal.read_bytes().startswith(whole + b'{"op_code"') and half not in journal.read_bytes().splitlines()
    assert states(journal) == ["COMPLETE", "COMPLETE"]


# --------------------------------------------------------------------------------------------------------- other machines
def test_a_worker_of_another_machine_is_dead_when_its_lease_is_over(journal):
    def dies(trial):
        trial.suggest_float("x", -1, 1)
        die()

    assert ended(forked(elsewhere, journal, 2, dies)) == -signal.SIGKILL
    search = trials.Search(journal)
    holder = trials.owner(search.study.trials[0].user_attrs, "trial")[1]
    with search._beating():
        assert search._lives(holder)  # it may be: only its own machine can tell
        aged(journal)
        assert not search._lives(holder)
    assert work(journal, 2) == [0, 1]


def test_a_halted_worker_changes_nothing_when_it_wakes_up(journal):
    def halts(trial):
        x = trial.suggest_float("x", -1, 1)
        os.kill(os.getpid(), signal.SIGSTOP)
        trial.report(x, 1)  # of a trial that is finished by then
        return -5.0

    pid = forked(elsewhere, journal, 1, halts)
    os.waitpid(pid, os.WUNTRACED)
    aged(journal)
    assert work(journal, 1) == [0]
    value = trials.Search(journal).study.trials[0].value
    os.kill(pid, signal.SIGCONT)
    assert ended(pid) == 0
    assert trials.Search(journal).study.trials[0].value == value != -5.0


# ------------------------------------------------------------------------------------------------------------ other ends
def test_sigterm_gives_the_trial_back_at_once(journal):
    read, write = os.pipe()

    def waits(trial):
        os.write(write, b"x")
        time.sleep(600)

    pid = forked(elsewhere, journal, 1, waits)
    os.read(read, 1)
    os.kill(pid, signal.SIGTERM)
    assert ended(pid) == 143
    assert trials.owner(trials.Search(journal).study.trials[0].user_attrs, "trial") == (1, None)
    assert work(journal, 1) == [0]


def test_an_error_fails_the_trial_and_ends_its_worker(journal, capfd):
    def wrong(trial):
        raise ZeroDivisionError("by zero")

    with pytest.raises(ZeroDivisionError):
        work(journal, 3, wrong)
    assert states(journal) == ["FAIL", "WAITING", "WAITING"]
    assert trials.Search(journal).run(wrong, 3, catch=(ZeroDivisionError,)) == [1, 2]
    assert "trial 2 failed: ZeroDivisionError: by zero" in capfd.readouterr().err


@pytest.fixture
def ctrl_c():
    """SIGINT as in a terminal, where nobody has put pytest into the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("when", ["in the block", "while it waits"])
def test_ctrl_c_ends_the_workers_beside_this_one_which_do_not_hear_it(tmp_path, ctrl_c, when):
    """Here the worker itself sends it, to both: as if it still imported torch, it has no handler of its own."""
    sends = "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); os.kill(os.getppid(), signal.SIGINT); time.sleep(600)"
    if when == "while it waits":
        sends = f"import os, time\nwhile not os.path.exists({str(tmp_path / 'waits')!r}): time.sleep(0.01)\n{sends}"
    with pytest.raises(KeyboardInterrupt), trials.beside([[sys.executable, "-c", sends]]) as codes:
        if when == "in the block":
            time.sleep(LIMIT)
        (tmp_path / "waits").touch()
    assert codes == ([-signal.SIGTERM] if when == "in the block" else []), "it has not died of SIGINT"


def test_an_error_ends_no_worker_beside_this_one():
    with pytest.raises(ZeroDivisionError), trials.beside([[sys.executable, "-c", "exit(3)"], ["true"]]) as codes:
        raise ZeroDivisionError
    assert codes == [3, 0]


# ------------------------------------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize("where, words", [
    ("sqlite:////home/me/search.db", "several workers.*database is locked.*journal"),
    ("mysql://me@host/search", "mysql:// is the address of a database"),
])
def test_databases_are_refused_in_words(where, words):
    with pytest.raises(UsageError, match=words):
        trials.Search(where)


def test_a_file_that_is_no_journal(tmp_path):
    for text in ("to do\nall of it\n", "to do"):
        (tmp_path / "notes.txt").write_text(text)
        with pytest.raises(UsageError, match=r"notes\.txt is no journal"):
            trials.Search(tmp_path / "notes.txt")
        assert (tmp_path / "notes.txt").read_text() == text
    with pytest.raises(UsageError, match="cannot be opened"):
        trials.Search(tmp_path / "notes.txt" / "search.journal")


def test_without_optuna_one_sentence(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UsageError, match=r"Optuna is not installed: the lab hpo needs it, and nothing else does\. .*pip install"):
        trials.library()
    monkeypatch.setattr(sys, "argv", ["/home/me/search.py", "--workers", "2"])
    with pytest.raises(SystemExit, match="2"):
        trials.library("__main__")
    assert capsys.readouterr().err.startswith("search.py: Optuna is not installed")


def test_what_was_used(journal):
    with trials.accounted(journal, "cpu"):
        work(journal, 1)
    assert trials.account(trials.Search(journal).study) == {"gpu_seconds": 0, "joules": None}


def test_what_two_gpus_have_used(journal, monkeypatch):
    class Meter:
        def __init__(self, uuid):
            self.joules = iter((100.0, {"GPU-0": 400.0, "GPU-1": 150.0}[uuid]))

        def read(self):
            return 0.0, next(self.joules)

    monkeypatch.setattr("dlojz.system.machine.gpu_uuid", lambda device: f"GPU-{device.index}")
    monkeypatch.setattr("dlojz.training.energy.EnergyMeter", Meter)
    for devices in (["cuda:0", "cuda:1"], ["cuda:1"]):  # a job with both, another one with one of them
        with trials.accounted(journal, *devices):
            time.sleep(0.01)
    found = trials.account(trials.Search(journal).study)
    assert found["joules"] == 400 and 0.03 <= found["gpu_seconds"] < 60
