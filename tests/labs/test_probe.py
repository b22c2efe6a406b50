"""What a trainee's file may do to the probe: each time a clear outcome within the limit, and nothing left running."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import uuid

import pytest
from patience import LIMIT, patient

from dlojz.labs import catalogue, checking, fences
from dlojz.labs.checking import run_check
from dlojz.labs.outcome import CANNOT_CHECK, SOLVED, WRONG
from dlojz.labs.probe import Limits, Probe, Session, session
from dlojz.system import paths, processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for what is left in /proc")
PLENTY = Limits(seconds=60)
SIBLINGS = ["augment.py", "optimizers.py"]  # what train.py imports from beside it


@pytest.fixture(autouse=True)
def nothing_left(monkeypatch):
    """No process that a test has started may be there after it."""
    name, value = "PROBE_TEST", uuid.uuid4().hex
    monkeypatch.setenv(name, value)
    yield lambda: processes.marked(f"{name}={value}")
    until_none(lambda: processes.marked(f"{name}={value}"), patient(2))  # what was killed is gone when the kernel gets to it
    left = processes.marked(f"{name}={value}")
    processes.send(left, signal.SIGKILL)
    assert not left


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A folder of temporary files of our own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def until_none(left, patience=30.0):
    end = time.monotonic() + patience
    while left() and time.monotonic() < end:
        time.sleep(0.05)


def test_a_check_that_was_killed_leaves_its_folder_to_the_next_one(temporary, nothing_left):
    code = "from dlojz.labs.probe import Session; s = Session(); print(s.folder, flush=True); import time; time.sleep(60)"
    env = os.environ | {"PYTHONPATH": paths.python_path()}
    killed, alive = (subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True) for _ in range(2))
    theirs, used = killed.stdout.readline().strip(), alive.stdout.readline().strip()
    mark = json.loads(pathlib.Path(theirs, session.OWNER).read_text())["mark"]
    killed.kill()
    killed.wait()
    until_none(lambda: processes.marked(mark))  # what it had started ends by itself
    session.remove_abandoned()
    assert not os.path.exists(theirs) and os.path.isdir(used)
    with Session() as mine:
        assert sorted(os.listdir(temporary)) == sorted(os.path.basename(each) for each in (used, mine.folder))
    alive.kill()
    alive.wait()
    until_none(nothing_left)


def test_only_folders_that_are_certainly_abandoned_are_removed(temporary):
    me = processes.identity(os.getpid())
    gone = me | {"start": "1"}  # its pid has another process now: this one
    mark = f"{session.MARK}=nobody"
    child = subprocess.Popen(["sleep", "60"], env=os.environ | {session.MARK: "somebody"})
    folders = {
        "gone": session._place() | {"process": gone, "mark": mark},
        "mine": session._place() | {"process": me, "mark": mark},
        "in_use": session._place() | {"process": gone, "mark": f"{session.MARK}=somebody"},
        "other_host": session._place() | {"process": gone, "mark": mark, "host": "elsewhere"},
        "other_container": session._place() | {"process": gone, "mark": mark, "space": "pid:[1]"},
        "damaged": "", "other": [], "unknown": None}
    for name, owner in folders.items():
        folder = temporary / f"{session.PREFIX}{name}"
        folder.mkdir()
        if owner is not None:
            (folder / session.OWNER).write_text(json.dumps(owner) if owner else "{")
    (temporary / f"{session.PREFIX}link").symlink_to(temporary / f"{session.PREFIX}mine")
    (temporary / "else").mkdir()
    until = time.monotonic() + LIMIT
    while child.pid not in processes.marked(f"{session.MARK}=somebody") and time.monotonic() < until:
        time.sleep(0.01)  # an environment can be read a moment after the program has begun
    session.remove_abandoned()
    child.kill()
    child.wait()
    assert {path.name.removeprefix(session.PREFIX) for path in temporary.iterdir()} == {*folders, "link", "else"} - {"gone"}


@pytest.fixture(scope="module")
def host():
    with Session(PLENTY) as session:
        session.ready()
        yield session


@pytest.fixture
def shared(host):
    """A host for the tests that leave it alone. What it ran must have ended with the check."""
    yield host
    assert not host.descendants()


def script(folder, fence="", before=""):
    """train.py with the lab gpu solved, some code at the head of gpu.batch, and some before everything that it does."""
    text = catalogue.laid_out("train.py", ["gpu"])
    body = catalogue.reference_fences("train.py")["gpu.batch"].body
    text = fences.replace(text, {"gpu.batch": textwrap.dedent(fence) + body})
    if before:
        text = text.replace('\nif __name__ == "__main__":\n', f'\n{textwrap.dedent(before)}\nif __name__ == "__main__":\n')
    for name in SIBLINGS:
        folder.joinpath(name).write_text(catalogue.reference(name).read_text())
    folder.joinpath("train.py").write_text(text)
    return folder / "train.py"


def line_of(file, code):
    return next(number for number, line in enumerate(file.read_text().splitlines(), 1) if code in line)


# ------------------------------------------------------------------------------------------------------- it does not end
@pytest.mark.parametrize("code", ["while True: pass", "import time; time.sleep(1e6)", "while True: print('again')",
                                  "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)); signal.pause()"])
def test_never_ends(tmp_path, shared, code):
    file = script(tmp_path, fence=code + "\n")
    outcome = run_check("gpu", file.parent, Limits(seconds=5), shared)
    assert outcome.seconds < patient(20)
    assert outcome.state == WRONG
    assert "still running after 5 seconds" in outcome.message
    if "SIG_BLOCK" not in code:  # then it cannot be asked where it stands
        assert f"line {line_of(file, code)} of train.py" in outcome.message and "the fence gpu.batch" in outcome.message


def test_a_check_answers_within_20_seconds_with_five_of_them_for_importing_torch(tmp_path, monkeypatch):
    monkeypatch.setattr(session, "GPU", tmp_path / "none")
    assert Limits().seconds == 15
    monkeypatch.setattr(session, "GPU", tmp_path)  # CUDA takes seconds to start
    assert Limits().seconds == 30


def test_each_run_has_its_time(tmp_path, shared):
    """On a GPU each run starts CUDA first: several good runs, one after the other, are no endless loop."""
    tmp_path.joinpath("naps.py").write_text("import time; time.sleep(2.5)\n")
    shared.begin(Limits(seconds=6))
    begun = time.monotonic()
    for _ in range(3):
        run = shared.start(tmp_path, "naps.py", [])
        shared.wait(run)
        assert not run[0].killed
    assert time.monotonic() - begun > shared.seconds


def test_waiting_for_a_processor_does_not_count(tmp_path, shared, monkeypatch):
    """Beside many others a right answer takes longer: that makes it no wrong one."""
    begun = time.monotonic()
    monkeypatch.setattr(session, "_processor", lambda pid: (0.0, 0.9 * (time.monotonic() - begun)))
    file = script(tmp_path, fence="import time; time.sleep(0.6)\n")  # in each of four steps
    outcome = run_check("gpu", file.parent, Limits(seconds=2), shared)
    assert outcome.state == SOLVED and outcome.seconds > 2.4, outcome


def test_a_machine_that_is_too_busy_says_nothing_of_the_answer(tmp_path, shared, monkeypatch):
    begun = time.monotonic()
    monkeypatch.setattr(session, "BUSY", 2)
    monkeypatch.setattr(session, "_processor", lambda pid: (0.0, time.monotonic() - begun))
    outcome = run_check("gpu", script(tmp_path, fence="while True: pass\n").parent, Limits(seconds=2), shared)
    assert outcome.state == CANNOT_CHECK and 5.9 < outcome.seconds < patient(15)
    assert "waited for a CPU core for" in outcome.message and "Try again" in outcome.message


def test_what_the_runs_take_from_each_other_counts(tmp_path, shared, monkeypatch):
    begun = time.monotonic()
    monkeypatch.setattr(session, "_processor", lambda pid: (0.5 * (time.monotonic() - begun),) * 2)  # four of them
    outcome = run_check("gpu", script(tmp_path, fence="while True: pass\n").parent, Limits(seconds=2), shared)
    assert outcome.state == WRONG and "still running after 2 seconds" in outcome.message, outcome


def test_what_the_kernel_counts_as_waiting_for_a_processor():
    ours = min(os.sched_getaffinity(0))
    busy = [subprocess.Popen(["taskset", "-c", str(ours), sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    try:
        time.sleep(3)
        used, waited = map(sum, zip(*(session._processor(process.pid) for process in busy)))
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert used < 4 and 3 < waited < 9 and session._processor(busy[0].pid) == (0.0, 0.0)  # each has a third, or less


def test_never_ends_elsewhere(tmp_path, nothing_left):
    file = script(tmp_path, before="while True: pass\n")
    outcome = run_check("gpu", file.parent, Limits(seconds=5))
    assert not nothing_left()
    assert outcome.state == CANNOT_CHECK
    assert "still running after 5 seconds" in outcome.message and "`while True: pass`" in outcome.message


# ------------------------------------------------------------------------------------------------------ it ends too early
@pytest.mark.parametrize("code, said", [
    ("exit()", "ends with exit code 0 before it had trained"),
    ("import sys; sys.exit('enough')", "ends with exit code 1 before it had trained"),
    ("raise SystemExit(7)", "ends with exit code 7 before it had trained"),
    ("import os; os._exit(0)", "ends with exit code 0 before it had trained"),
    ("import os; os.kill(os.getpid(), 9)", "killed by the signal SIGKILL"),
    ("import os; os.abort()", "killed by the signal SIGABRT"),
    ("raise KeyboardInterrupt", "stops with KeyboardInterrupt"),
    ("1 / 0", "stops with ZeroDivisionError: division by zero"),
    ("def more(n): return more(n + 1)\nmore(0)", "stops with RecursionError"),
])
def test_ends_early(tmp_path, shared, code, said):
    file = script(tmp_path, fence=code + "\n")
    outcome = run_check("gpu", file.parent, PLENTY, shared)
    assert outcome.state == WRONG, "everything else in the file is the kit's"
    assert said in outcome.message
    if "signal" not in said:
        assert f"line {line_of(file, code.splitlines()[0])} of train.py" in outcome.message


def test_ends_in_the_midst_of_a_training(tmp_path, shared):
    file = script(tmp_path, fence="if step == 2: exit()\n")
    outcome = run_check("gpu", file.parent, PLENTY, shared)
    assert outcome.state == WRONG and "exits early, with exit code 0 after 2 steps" in outcome.message, outcome
    assert f"line {line_of(file, 'exit()')} of train.py" in outcome.message


def test_a_debugger_is_left_in(tmp_path, shared):
    outcome = run_check("gpu", script(tmp_path, fence="breakpoint()\n").parent, PLENTY, shared)
    assert outcome.state == WRONG and "asks somebody at a keyboard, and there is none, in line" in outcome.message, outcome


@pytest.mark.parametrize("code", [
    "open(__file__, 'w').close()", "import os; os.remove(__file__)", "import os; os.rename(__file__, 'away.py')",
    "import pathlib; pathlib.Path(__file__).with_name('augment.py').write_text('')",
    "import shutil, pathlib; shutil.rmtree(pathlib.Path(__file__).parent)",
])
def test_what_it_does_to_its_files_reaches_a_copy(tmp_path, shared, code):
    script(tmp_path, fence=f"if step == 0: {code}\n")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    outcome = run_check("gpu", tmp_path, PLENTY, shared)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert outcome.state in (SOLVED, WRONG), outcome


def test_files_may_be_read_and_others_written(tmp_path, shared):
    code = "open(__file__).close(); open('mine.py', 'w').close(); open('mine.py', 'w').close(); import os; os.remove('mine.py')\n"
    assert run_check("gpu", script(tmp_path, fence=code).parent, PLENTY, shared).state == SOLVED


def test_an_empty_file_says_how_to_get_a_new_one(tmp_path, shared):
    file = script(tmp_path)
    file.write_text("")
    outcome = run_check("gpu", tmp_path, PLENTY, shared)
    assert outcome.state == CANNOT_CHECK and "`rm train.py && dlojz workspace` recreates it" in outcome.message


def test_ends_early_elsewhere(tmp_path, shared):
    outcome = run_check("gpu", script(tmp_path, before="undefined_name\n").parent, PLENTY, shared)
    assert outcome.state == CANNOT_CHECK
    assert "NameError" in outcome.message and "`undefined_name`" in outcome.message
    assert "outside this lab's fences" in outcome.message and "`dlojz reset gpu --file`" in outcome.message


def test_deleted_import(tmp_path, shared):
    file = script(tmp_path)
    file.write_text(file.read_text().replace("from torch import nn\n", ""))
    outcome = run_check("gpu", file.parent, PLENTY, shared)
    assert outcome.state == CANNOT_CHECK
    assert "NameError: name 'nn' is not defined" in outcome.message and "line" in outcome.message


# --------------------------------------------------------------------------------------------------------------- too much
def test_a_million_lines(tmp_path, shared):
    file = script(tmp_path, before="for number in range(1_000_000): print('line', number)\n")
    outcome = run_check("gpu", file.parent, PLENTY, shared)
    assert outcome.state == SOLVED, outcome
    assert len(shared.output) <= 20_000


def test_memory(tmp_path, shared):
    file = script(tmp_path, fence="held = [bytearray(b'x' * 2**24) for _ in range(1000)]\n")
    outcome = run_check("gpu", file.parent, Limits(seconds=60, memory=2 * 10**9), shared)
    assert outcome.state == WRONG and "needs more than 2.0 GB of memory" in outcome.message


def test_a_daemon_is_not_left(tmp_path, nothing_left):
    code = "import subprocess\nsubprocess.Popen(['setsid', 'sleep', '1000'], stdin=-3, stdout=-3, stderr=-3, close_fds=True)\n"
    outcome = run_check("gpu", script(tmp_path, before=code).parent, PLENTY)
    assert outcome.state == SOLVED, outcome
    assert not nothing_left()


@pytest.mark.parametrize("start", [
    "import subprocess\nleft = subprocess.Popen(['setsid', 'sleep', '1000'], env={{}}, stdin=-3, stdout=-3, stderr=-3).pid\n"
    "open({file!r}, 'a').write(f'{{left}} ')\n",
    "import os\nif os.fork() == 0:\n    os.setsid()\n    open({file!r}, 'a').write(f'{{os.getpid()}} ')\n"
    "    os.execve('/bin/sleep', ['sleep', '1000'], {{}})\n"])
def test_a_process_with_an_emptied_environment_is_not_left(tmp_path, shared, start):
    with tempfile.NamedTemporaryFile(dir="/dev/shm" if os.path.isdir("/dev/shm") else tmp_path) as file:  # where it can write
        outcome = run_check("gpu", script(tmp_path, before=start.format(file=file.name)).parent, PLENTY, shared)
        started = [int(pid) for pid in file.read().split()]
    left = [pid for pid in started if "sleep" in processes.command(pid) and processes.identity(pid)]
    processes.send(left, signal.SIGKILL)
    assert outcome.state == SOLVED and started and not left, outcome


def test_no_variable_leads_to_the_workspace(tmp_path, shared, monkeypatch):
    for name in ("PWD", "OLDPWD", "JPY_SESSION_NAME"):
        monkeypatch.setenv(name, str(tmp_path))
    with Session() as own:
        assert not [name for name, value in own._environment().items() if str(tmp_path) in value and name != "TMPDIR"]


# ------------------------------------------------------------------------------------------------- it harms what watches it
def test_closes_every_file(tmp_path, shared):
    outcome = run_check("gpu", script(tmp_path, before="import os; os.closerange(3, 500)\n").parent, PLENTY, shared)
    assert outcome.state in (WRONG, CANNOT_CHECK) and outcome.message


def test_ends_its_parent(tmp_path, nothing_left):
    code = "import os, signal, time\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(1e6)\n"
    outcome = run_check("gpu", script(tmp_path, before=code).parent, Limits(seconds=10))
    assert outcome.state == CANNOT_CHECK and "is gone" in outcome.message
    assert not nothing_left()


def test_the_helper_process_is_stopped(tmp_path, nothing_left, monkeypatch):
    """Somebody's debugger, or a queue that suspends: every wait ends."""
    monkeypatch.setattr(session, "ANSWER", 1.0)
    code = "import os, signal, time\nos.kill(os.getppid(), signal.SIGSTOP)\ntime.sleep(1e6)\n"
    begun = time.monotonic()
    outcome = run_check("gpu", script(tmp_path, before=code).parent, Limits(seconds=4))
    assert outcome.state == CANNOT_CHECK and "does not answer" in outcome.message and time.monotonic() - begun < 60, outcome
    assert not nothing_left()


def test_the_helper_process_is_stopped_before_it_begins_a_run(tmp_path, nothing_left, monkeypatch):
    monkeypatch.setattr(session, "ANSWER_BEGIN", 1.0)
    with Session() as stopped:
        stopped.ready()
        os.kill(stopped._host.pid, signal.SIGSTOP)
        run = stopped.start(tmp_path, "train.py", [])
        with pytest.raises(session.HostLost, match="does not answer"):
            stopped.wait(run)
    assert not nothing_left()


def test_last_words_name_the_file_of_an_error(tmp_path):
    (tmp_path / "torch.py").write_text("\n\nraise RuntimeError('rubbish torch')\n")
    said = subprocess.run([sys.executable, "-c", "import torch"], env=os.environ | {"PYTHONPATH": str(tmp_path)},
                          capture_output=True, text=True, timeout=LIMIT).stderr
    assert session.last_words(said) == f": RuntimeError: rubbish torch ({tmp_path}/torch.py, line 3)"
    assert session.last_words(f"{said}Out of memory\nKilled\n") == ": Killed"
    assert session.last_words("") == ""



def test_the_kernel_is_killed(tmp_path, nothing_left):
    """Nothing goes on when what waited for the check is gone."""
    file = script(tmp_path, fence="import tempfile, time; open(f'{tempfile.gettempdir()}/here', 'w'); time.sleep(1e6)\n")
    code = f"from dlojz.labs.checking import run_check; run_check('gpu', {str(file.parent)!r})"
    env = os.environ | {"PYTHONPATH": str(paths.PACKAGE.parent), "TMPDIR": str(tmp_path)}
    kernel = subprocess.Popen([sys.executable, "-c", code], env=env)
    limit = time.monotonic() + 60
    while not any(tmp_path.rglob("here")) and time.monotonic() < limit:
        time.sleep(0.05)
    assert len(nothing_left()) >= 3
    kernel.kill()
    kernel.wait()
    limit = time.monotonic() + 10
    while nothing_left() and time.monotonic() < limit:
        time.sleep(0.05)
    assert not nothing_left()


def test_no_python(tmp_path):
    from dlojz.labs.probe import HostLost

    with pytest.raises(HostLost, match="cannot be started"):
        Session(python=str(tmp_path / "python"))


# ----------------------------------------------------------------------------------------------------------- it can't be run
MOVE = "    net = net.to(device)"


@pytest.mark.parametrize("damage, said", [
    (lambda text: text.replace(MOVE, "    net = net.to(device"), r"is not valid Python, line \d+: '\(' was never closed"),
    (lambda text: text.replace(MOVE, "\tnet = net.to(device)"), r"is not valid Python, line \d+: .*(tabs|indent)"),
    (lambda text: text.replace(MOVE, "    net = \0"), "is not valid Python"),
    (lambda text: text + "\nx = " + "(" * 500 + ")" * 500, "is not valid Python"),
], ids=["bracket", "tab", "zero", "nested"])
def test_no_python_file(tmp_path, damage, said):
    file = script(tmp_path)
    file.write_text(damage(file.read_text()))
    outcome = run_check("gpu", file.parent)
    assert outcome.state == CANNOT_CHECK and outcome.seconds < patient(8)
    assert re.search(said, outcome.message), outcome.message


def test_missing_file(tmp_path):
    outcome = run_check("gpu", tmp_path)
    assert outcome.state == CANNOT_CHECK and "train.py is not in" in outcome.message


@pytest.mark.parametrize("encode", [
    lambda text: text.replace("\n", "\r\n").encode(),
    lambda text: b"\xef\xbb\xbf" + text.encode(),
    lambda text: ("# -*- coding: latin-1 -*-\n" + text + "\n# caf\u00e9\n").encode("latin-1"),
], ids=["windows", "bom", "latin-1"])
def test_other_files(tmp_path, shared, encode):
    file = script(tmp_path)
    text = file.read_text().replace("…", "...").encode("ascii", "replace").decode()
    file.write_bytes(encode(text))
    outcome = run_check("gpu", file.parent, PLENTY, shared)
    assert outcome.state == SOLVED, outcome


def test_broken_encoding(tmp_path):
    file = script(tmp_path)
    file.write_bytes(file.read_bytes() + b"# caf\xe9\n")
    outcome = run_check("gpu", file.parent)
    assert outcome.state == CANNOT_CHECK and "not UTF-8 in line" in outcome.message


# ---------------------------------------------------------------------------------------------------------------- fences
def test_removed_fence(tmp_path, shared):
    """The code decides; the comments are for the other verbs."""
    file = script(tmp_path)
    kept = [line for line in file.read_text().splitlines(keepends=True) if "gpu.model" not in line]
    file.write_text("".join(kept))
    outcome = run_check("gpu", file.parent, PLENTY, shared)
    assert outcome.state == SOLVED and "Note: " in outcome.message and "gpu.model is gone" in outcome.message


def test_doubled_fence(tmp_path, shared):
    file = script(tmp_path)
    file.write_text(file.read_text().replace("    # >>> gpu.model", "    # >>> gpu.model: twice\n    # >>> gpu.model"))
    outcome = run_check("gpu", file.parent, PLENTY, shared)
    assert outcome.state == SOLVED and "there twice" in outcome.message


def test_one_fence_is_written(tmp_path, shared):
    """What is still as it came is said beside what is wrong."""
    file = script(tmp_path)
    lab = catalogue.lab("gpu")
    file.write_text(fences.replace(file.read_text(), {"gpu.batch": lab.stubs["gpu.batch"], "gpu.model": lab.stubs["gpu.model"]}))
    outcome = run_check("gpu", file.parent, PLENTY, shared)
    assert outcome.state == WRONG and "Not edited yet: gpu.model, gpu.batch." in outcome.message


def test_nothing_is_written_beside_the_file(tmp_path, shared):
    file = script(tmp_path)
    run_check("gpu", file.parent, PLENTY, shared)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [*SIBLINGS, "train.py"]


# ------------------------------------------------------------------------------------------------------------ processes
def test_hung_rank(tmp_path, shared):
    """One process ends, the other waits for it: it is not waited for long."""
    file = tmp_path / "ranks.py"
    file.write_text("import os, sys, time\nif os.environ['RANK'] == '1':\n    sys.exit(3)\ntime.sleep(1e6)\n")
    shared.begin(PLENTY)
    run = Probe(shared, tmp_path, file.name).run(ranks=2)
    assert run.ended.how == "alone" and run.ended.line == 4
    assert run.ranks[1].ended.how == "exit" and "exit code 3" in run.ranks[1].ended.message


JOIN = "import torch.distributed as dist; dist.init_process_group('gloo')"


@pytest.mark.parametrize("first, other, asleep", [(f"{JOIN}; dist.barrier()", f"{JOIN}; time.sleep(1e6)", True),
                                                  ("for _ in range(80): time.sleep(0.05)", "time.sleep(2)", False)])
def test_all_ranks_are_asleep(tmp_path, shared, monkeypatch, first, other, asleep):
    """Where nothing of a run wakes any more the limit is not waited for; one process that wakes now and then may wake others."""
    monkeypatch.setattr(session, "ASLEEP", 1.0)
    (tmp_path / "ranks.py").write_text(f"import os, time\nif os.environ['RANK'] == '0':\n    {first}\nelse:\n    {other}\n")
    shared.begin(PLENTY)
    run = Probe(shared, tmp_path, "ranks.py").run(ranks=2)
    assert ["waits in vain" in rank.ended.message for rank in run.ranks] == [asleep, asleep], run.ended


def test_a_switch_is_gone(tmp_path, shared):
    file = script(tmp_path)
    file.write_text(file.read_text().replace('add("--device"', 'add("--machine", dest="device"'))
    outcome = run_check("gpu", file.parent, PLENTY, shared)
    assert outcome.state == CANNOT_CHECK and "a wrong switch: unrecognized arguments: --device cpu" in outcome.message


def test_another_file_is_broken(tmp_path, shared):
    file = script(tmp_path)
    (tmp_path / "optimizers.py").write_text("NAMES = SCHEDULES = ['sgd']\n\n\ndef default_lr(*_):\n    return 1 / 0\n")
    outcome = run_check("gpu", file.parent, PLENTY, shared)
    assert outcome.state == CANNOT_CHECK and "line 5 of optimizers.py" in outcome.message, outcome
    assert "`dlojz reset optimizers --file` rewrites the file" in outcome.message


def test_another_file_lacks_something(tmp_path, shared):
    """Python finds the fault in train.py, which is as it came."""
    file = script(tmp_path)
    beside = tmp_path / "augment.py"
    beside.write_text(beside.read_text().replace("NAMES =", "NAMEZ ="))
    outcome = run_check("gpu", file.parent, PLENTY, shared)
    assert outcome.state == CANNOT_CHECK and "and augment.py was changed. Fix it" in outcome.message, outcome
    assert "`dlojz reset augmentation --file`" in outcome.message


def test_another_file_is_gone(tmp_path, shared):
    file = script(tmp_path)
    (tmp_path / "augment.py").rename(tmp_path / "mine.py")
    outcome = run_check("gpu", file.parent, PLENTY, shared)
    assert outcome.state == CANNOT_CHECK and "mv mine.py augment.py" in outcome.message, outcome


def test_the_check_itself_stops(tmp_path, shared, monkeypatch):
    monkeypatch.setattr(checking, "_check_of", lambda _: lambda probe: probe.runs[0])
    outcome = run_check("gpu", script(tmp_path).parent, PLENTY, shared)
    assert outcome.state == CANNOT_CHECK, outcome
    assert "The check itself stops with IndexError" in outcome.message and "a fault of the kit" in outcome.message


def test_random_numbers_begin_at_the_same_place_in_each_check(tmp_path):
    """torch's own generator has another seed in each process. The kit's facts may have been kept by an earlier check."""
    code = "import random, numpy, torch\nprint(torch.rand(1).item(), numpy.random.rand(), random.random())\n"
    (tmp_path / "draws.py").write_text(code)
    said = []
    for _ in range(2):
        with Session(Limits(seconds=60)) as session:
            run = Probe(session, tmp_path, "draws.py").run(script="draws.py", small=False, observe=["printing"])
            said.append(run.need("print").text)
    assert said[0] == said[1] and len(said[0].split()) == 3
