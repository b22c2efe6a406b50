"""Jobs on this machine: submit, follow, cancel, find again."""

import json
import os
import subprocess
import sys
import time

import pytest
from patience import LIMIT, patient

from dlojz import jobs, submit
from dlojz.jobs import Group, StillRunning
from dlojz.jobs.job import details, follow, table_html
from dlojz.jobs.states import Status, explained, read_json
from dlojz.system.errors import UsageError


def test_a_job_runs_in_the_workspace_and_leaves_its_folder(ws):
    ws.script("train.py", """
        import os, sys
        print("in", os.getcwd(), "with", sys.argv[1:], *(os.environ["DLOJZ_" + word] for word in ("RUN", "SITE", "SCALE")))
        print("to the other side", file=sys.stderr)
        """)
    job = submit("train.py --amp 'b f' '$(touch hacked)'", name="amp").wait(LIMIT)
    assert (job.state, job.exit_code, job.reason, job.run, job.name) == ("COMPLETED", 0, "", "amp-001", "amp")
    assert job.log == f"in {ws.folder} with ['--amp', 'b f', '$(touch hacked)'] {job.folder} laptop laptop\n"
    assert job.err == "to the other side\n"
    assert sorted(file.name for file in job.folder.iterdir()) == ["err.log", "exit_code", "job.json", "job.sh", "out.log"]
    assert (job.folder / "exit_code").read_text() == "0\n"
    assert not (ws.folder / "hacked").exists()
    assert 0 < job.elapsed < patient(10)


def test_the_script_runs_by_hand_too(ws):
    job = submit("quick.py", name="by-hand").wait(LIMIT)
    (job.folder / "exit_code").unlink()
    done = subprocess.run(["bash", job.folder / "job.sh"], cwd="/", capture_output=True, text=True, timeout=LIMIT)
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert (job.folder / "exit_code").read_text() == "0\n"


def test_submitting_the_same_again_finds_the_job(ws, capsys):
    first = submit("quick.py", name="a")
    second = submit("quick.py", name="a")
    assert (first.found, second.found, second.run) == (False, True, first.run)
    assert "a-001 already exists" in capsys.readouterr().out
    assert submit("quick.py --other", name="a").run == "a-002"
    assert submit("quick.py", name="b").run == "b-001"
    assert submit("quick.py", name="a", time=5).run == "a-003"
    assert submit("quick.py", name="a", again=True).run == "a-004"
    assert submit("quick.py", name="a").run == "a-004"  # the latest of the same
    (ws.folder / "quick.py").write_text("print('changed')")
    assert submit("quick.py", name="a").run == "a-005"


def test_a_changed_file_that_the_script_imports_makes_a_new_job(ws):
    ws.script("augment.py", "value = 1")
    ws.script("train.py", "from augment import value\nprint(value)")
    assert submit("train.py", name="a").run == "a-001"
    assert submit("train.py", name="a").run == "a-001"
    ws.script("augment.py", "value = 2")
    changed = submit("train.py", name="a")
    assert changed.run == "a-002"
    assert changed.wait(LIMIT).log == "2\n"


def test_what_was_edited_while_the_job_waited_is_named_in_its_log(ws, wait_until):
    ws.script("slow.py", "import time; time.sleep(2)")
    ws.script("augment.py", "value = 1")
    ws.script("train.py", "from augment import value\nprint(value)")
    submit("slow.py", name="first")
    waiting, other = submit("train.py", name="a"), submit("quick.py", name="b")
    ws.script("augment.py", "value = 2")
    assert waiting.wait(LIMIT).log == "Note: augment.py has changed since this job was submitted, and runs as it is now.\n2\n"
    assert other.wait(LIMIT).log == "hello\n"


def test_a_list_is_a_sweep_in_order(ws):
    ws.script("lr.py", "import sys; print(sys.argv[1])")
    group = submit([f"lr.py {value}" for value in (3, 1, 2)], name="lr")
    assert isinstance(group, Group) and [job.run for job in group] == ["lr-001", "lr-002", "lr-003"]
    group.wait(LIMIT)
    assert [job.log for job in group] == ["3\n", "1\n", "2\n"]
    assert group.states == ["COMPLETED"] * 3
    assert [job.run for job in jobs["lr"]] == ["lr-001", "lr-002", "lr-003"]
    assert jobs["lr-002"].run == "lr-002"
    assert all(job.found for job in submit([f"lr.py {value}" for value in (3, 1, 2)], name="lr"))
    assert "lr-003" in repr(group) and group[1:].name == "lr"


def test_handles_survive_the_kernel(ws):
    kernel = ws.python("""
        from dlojz import submit
        print(submit("quick.py", name="kept").id)
        """)
    identifier = kernel.communicate(timeout=LIMIT)[0].strip()
    assert jobs["kept"].id == identifier
    assert jobs["kept"].wait(LIMIT).log == "hello\n"
    assert "kept" in jobs and "other" not in jobs and len(jobs) == 1


def test_jobs_is_the_collection_whatever_was_imported_before(ws):
    code = "import dlojz.jobs.local, dlojz.jobs; from dlojz import submit, jobs; print(repr(jobs), len(jobs), jobs.watch)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ws.folder, timeout=LIMIT)
    assert said.stdout.startswith("no jobs yet") and "bound method" in said.stdout, said.stderr


def test_jobs_by_name(ws):
    submit(["quick.py 1", "quick.py 2"], name="sweep")
    first = submit("quick.py", name="one")
    second = submit("quick.py", name="one", again=True)
    assert jobs["one"].run == second.run == "one-002"
    assert jobs[first.run].run == "one-001" and jobs[second.id].run == "one-002"
    assert [job.run for job in jobs] == ["sweep-001", "sweep-002", "one-001", "one-002"]
    for wrong in ("on", "", "..", "../runs/one-001", "one-003", "a\nb"):
        with pytest.raises(UsageError, match="no run"):
            jobs[wrong]
    with pytest.raises(UsageError, match="give the name"):
        jobs[0]


def test_one_at_a_time_on_a_machine_without_gpus(ws):
    ws.script("alone.py", """
        import os, time
        os.mkdir("busy")
        time.sleep(0.15)
        os.rmdir("busy")
        """)
    group = submit([f"alone.py {number}" for number in range(4)], name="turn").wait(LIMIT)
    assert group.states == ["COMPLETED"] * 4
    starts = [job.status.started for job in group]
    assert starts == sorted(starts)


def test_place_in_the_queue(ws, wait_until):
    running = submit("slow.py", name="first")
    wait_until(lambda: running.state == "RUNNING")
    waiting = submit(["quick.py 1", "quick.py 2"], name="later")
    assert [job.refresh().status.position for job in waiting] == [1, 2]
    assert "PENDING (2)" in repr(jobs) and "PENDING, number 2 in the queue" in repr(waiting[1])
    waiting[0].cancel()
    wait_until(lambda: waiting[0].state == "CANCELLED")
    assert waiting[1].refresh().status.position == 1
    running.cancel()
    assert waiting[1].wait(LIMIT).state == "COMPLETED"
    assert waiting[0].log == ""


def test_gpus_are_given_out(ws, eight_gpus, wait_until):
    ws.script("which.py", """
        import os, sys, time
        print(os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
        while not os.path.exists("go"): time.sleep(0.02)
        """)
    group = [submit(f"which.py {count}", name="g", gpus=count) for count in (3, 4, 2, 1)]
    cpu = submit("which.py", name="cpu", gpus=0)
    wait_until(lambda: group[0].log and group[1].log and cpu.log)
    # the third asks for two and only one is left: the fourth, which would fit, waits for its turn
    assert [job.log.strip() for job in group] == ["0,1,2", "3,4,5,6", "", ""]
    assert cpu.log == "\n" and [job.state for job in group] == ["RUNNING", "RUNNING", "PENDING", "PENDING"]
    (ws.folder / "go").touch()
    for job in group:
        assert job.wait(LIMIT).state == "COMPLETED"
    assert [len(job.log.strip().split(",")) for job in group] == [3, 4, 2, 1]
    with pytest.raises(UsageError, match="this machine has 8"):
        submit("which.py", gpus=9)


def test_only_the_visible_gpus_are_given_out(ws, eight_gpus, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    ws.script("which.py", "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])")
    assert submit("which.py", gpus=2).wait(LIMIT).log == "5,7\n"
    with pytest.raises(UsageError, match="this machine has 2"):
        submit("which.py", gpus=3)


def test_cancel_a_running_job(ws, wait_until):
    job = submit("slow.py")
    wait_until(lambda: job.log)
    before = time.monotonic()
    job.cancel()
    assert time.monotonic() - before < patient(4)
    job.wait(LIMIT)
    assert (job.state, job.reason, job.exit_code) == ("CANCELLED", "cancelled", 143)
    job.cancel()  # again does no harm
    assert job.state == "CANCELLED"


def test_what_was_cancelled_before_it_ran_runs_when_it_is_submitted_again(ws, wait_until):
    first = submit("slow.py", name="first")
    wait_until(lambda: first.state == "RUNNING" and "begun" in first.log)
    waits, sweep = submit("quick.py", name="q"), submit(["quick.py 1", "quick.py 2"], name="s")
    for job in (waits, *sweep):
        job.cancel()
    assert waits.wait(LIMIT).state == "CANCELLED" and waits.never_ran
    assert [job.wait(LIMIT).state for job in sweep] == ["CANCELLED", "CANCELLED"]
    first.cancel()
    assert first.wait(LIMIT).state == "CANCELLED" and not first.never_ran
    again = submit("quick.py", name="q")
    assert not again.found and again.run == "q-002" and again.wait(LIMIT).state == "COMPLETED"
    assert [job.run for job in submit(["quick.py 1", "quick.py 2"], name="s").wait(LIMIT)] == ["s-003", "s-004"]
    assert submit("slow.py", name="first").found, "it ran: what it has done may be worth something"


def test_time_limit(ws):
    job = submit("slow.py", time="0:01").wait(LIMIT)
    assert (job.state, job.reason) == ("TIMEOUT", "time limit of 1 s reached")
    assert 1 <= job.elapsed < patient(8)


def test_a_script_may_save_when_it_is_told_to_end(ws):
    ws.script("saves.py", """
        import signal, sys, time
        def save(number, frame):
            print("saved", flush=True)
            sys.exit(75)
        signal.signal(signal.SIGTERM, save)
        time.sleep(60)
        """)
    job = submit("saves.py", time="0:01").wait(LIMIT)
    assert (job.state, job.exit_code, job.log) == ("TIMEOUT", 75, "saved\n")
    assert job.reason == "time limit of 1 s reached, after saving a checkpoint"


def test_failures_say_why(ws):
    ws.script("breaks.py", "raise ValueError('the batch is empty')")
    ws.script("leaves.py", "import sys; sys.exit(3)")
    ws.script("memory.py", """
        import os
        from dlojz import records
        records.Writer(os.path.join(os.environ["DLOJZ_RUN"], "record.jsonl")).write(
            "error", kind="out_of_memory", message="12 GB asked for, 3 GB free", advice="a smaller batch")
        raise SystemExit(1)
        """)
    broken, left, memory = (submit(name).wait(LIMIT) for name in ("breaks.py", "leaves.py", "memory.py"))
    assert (broken.state, broken.exit_code, broken.reason) == ("FAILED", 1, "ValueError: the batch is empty")
    assert (left.state, left.exit_code, left.reason) == ("FAILED", 3, "exit code 3")
    assert (memory.state, memory.exit_code, memory.reason) == ("OUT_OF_MEMORY", 1, "12 GB asked for, 3 GB free")
    assert read_json(memory.folder)["status"]["state"] == "OUT_OF_MEMORY"


def test_failures_of_one_of_several_processes_say_why(ws):
    """torchrun's own traceback and its table of failures come last in the log, and say less than the process did."""
    ws.script("leaves.py", """
        import os, sys, time, warnings
        if os.environ["RANK"] == "0":
            time.sleep(60)
        if sys.argv[1] != "silent":
            print(f"leaves.py: unrecognized arguments: {sys.argv[1]}", file=sys.stderr)
        warnings.warn("this is deprecated")
        os.kill(os.getpid(), 9) if sys.argv[1] == "silent" else sys.exit(2)
        """)
    wrong, killed = (submit(f"leaves.py {argument}", processes=2).wait(LIMIT) for argument in ("--nosuch", "silent"))
    assert "ChildFailedError" in wrong.err and "UserWarning" in wrong.err
    assert (wrong.state, wrong.exit_code, wrong.reason) == ("FAILED", 1, "leaves.py: unrecognized arguments: --nosuch")
    assert killed.reason == "rank 1: killed by SIGKILL: did the machine run out of memory?", killed.err


def test_several_processes_share_the_cores(ws):
    ws.script("ranks.py", """
        import os
        print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}, {os.environ['OMP_NUM_THREADS']}\\n", end="", flush=True)
        """)
    job = submit("ranks.py", gpus=2).wait(LIMIT)  # no GPU here: two processes on the CPU
    threads = max(1, len(os.sched_getaffinity(0)) // 2)
    assert sorted(job.log.splitlines()) == [f"rank {rank} of 2, {threads}" for rank in (0, 1)], job.err


def test_the_servers_own_job_does_not_leak_in(ws, monkeypatch):
    for name in ("SLURM_JOB_ID", "SLURM_PROCID", "SBATCH_ACCOUNT", "SRUN_DEBUG", "PMIX_RANK", "RANK", "WORLD_SIZE",
                 "MASTER_ADDR"):
        monkeypatch.setenv(name, "7")
    monkeypatch.setenv("SLURM_CONF", "/etc/here")
    monkeypatch.setenv("MY_TOKEN", "kept")
    ws.script("env.py", """
        import json, os
        print(json.dumps({k: v for k, v in os.environ.items()}))
        """)
    seen = json.loads(submit("env.py").wait(LIMIT).log)
    assert seen["SLURM_CONF"] == "/etc/here" and seen["MY_TOKEN"] == "kept"
    assert not {name for name in seen if name.startswith(("SLURM_", "SBATCH_", "SRUN_", "PMIX_", "MASTER_"))} - {"SLURM_CONF"}
    assert "RANK" not in seen and "WORLD_SIZE" not in seen


def test_rerun(ws):
    ws.script("count.py", "open('count', 'a').write('x')")
    job = submit("count.py 'a b'", name="c").wait(LIMIT)
    again = job.rerun()
    assert again.run == "c-002" and again.command == job.command and not again.found
    again.wait(LIMIT)
    assert (ws.folder / "count").read_text() == "xx"


def test_wait_gives_up_in_time(ws):
    job = submit("slow.py", name="long")
    before = time.monotonic()
    with pytest.raises(StillRunning, match=r"still running after 0.3 s: long-001"):
        job.wait(0.3)
    assert time.monotonic() - before < patient(4)


def test_what_users_see(ws):
    assert repr(jobs).startswith("no jobs yet") and "no jobs yet" in jobs._repr_html_()
    ws.script("<b>.py", "print(1)")
    job = submit("'<b>.py' '\n'", name="x").wait(LIMIT)
    text = repr(job)
    assert text.splitlines()[0] == "x-001: COMPLETED, 0:00:00 of 1:00:00" and str(job.folder) in text
    assert "\\n" in repr(jobs) and len(repr(jobs).splitlines()) == 2
    assert "&lt;b&gt;" in jobs._repr_html_() and "<b>" not in table_html([job]) and "&lt;b&gt;" in job._repr_html_()
    assert details(job) == text
    assert repr(job.log) == "1\n"  # shown as it stands


def test_only_the_latest_are_shown(ws, wait_until):
    for number in range(25):
        folder = ws.folder / "runs" / f"old-{number:03}"
        folder.mkdir(parents=True)
        content = {"id": str(number), "launcher": "local", "submitted": number,
                   "request": {"name": "old", "command": ["a.py"], "site": ""}, "status": {"state": "COMPLETED"}}
        (folder / "job.json").write_text(json.dumps(content))
    shown = repr(jobs).splitlines()
    assert shown[0] == "(5 earlier runs are not shown)" and len(shown) == 22 and shown[-1].startswith("old-024")
    assert len(jobs.text(most=None).splitlines()) == 26
    assert "5 earlier runs" in jobs._repr_html_()


def test_follow_gives_all_of_it(ws):
    ws.script("talks.py", """
        import sys, time
        for number in range(3):
            print("é" * 5, number, flush=True)
            time.sleep(0.15)
        sys.stdout.buffer.write(b"\\xff end")
        """)
    assert "".join(follow(submit("talks.py"))) == "ééééé 0\nééééé 1\nééééé 2\n\ufffd end"


def test_dry_run_queues_nothing(ws, capsys):
    assert submit("quick.py", name="dry", dry_run=True) is None
    text = capsys.readouterr().out
    assert "runs/dry-NNN" in text and "^ the time limit" in text
    assert not (ws.folder / "runs").exists() and not ws.queue_folder.exists()


@pytest.mark.parametrize("arguments, says", [
    ({"command": ""}, "empty"),
    ({"command": []}, "empty"),
    ({"command": "nothere.py"}, "no script 'nothere.py'.*quick.py"),
    ({"command": "rm -rf /"}, "is not a Python script"),
    ({"command": "quick.py 'open"}, "quote"),
    ({"command": "quick.py a\0b"}, "NUL"),
    ({"command": "-c 'print(1)'"}, "starts with '-c'"),
    ({"command": "-m"}, "needs the name"),
    ({"command": "-m no.such.module"}, "no module"),
    ({"command": ["quick.py", "nothere.py"]}, "no script"),
    ({"command": 3}, "."),
    ({"command": "quick.py", "gpus": -1}, "0 or more"),
    ({"command": "quick.py", "gpus": 1.5}, "whole number"),
    ({"command": "quick.py", "gpus": True}, "whole number"),
    ({"command": "quick.py", "nodes": 0}, "1 or more"),
    ({"command": "quick.py", "nodes": 2}, "is one machine"),
    ({"command": "quick.py", "time": "abc"}, "is not a time limit"),
    ({"command": "quick.py", "time": 0}, "must be above 0"),
    ({"command": "quick.py", "time": -5}, "is not a time limit"),
    ({"command": "quick.py", "account": "a b"}, "account='a b'"),
    ({"command": "quick.py", "partition": "x\n#SBATCH --y"}, "partition="),
    ({"command": "quick.py", "site": "nosuch"}, "no site"),
    *[({"command": "quick.py", "name": name}, "is not a valid run name") for name in
      ("a b", "a;b", "$(touch x)", "a\nb", "../up", "/tmp/x", "..", ".", "", "-a", "a" * 300, "a/b", "'", '"', "\0")],
])
def test_bad_requests_are_refused_in_one_line(ws, arguments, says):
    with pytest.raises(UsageError, match=says) as caught:
        submit(**arguments)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
    assert not list(ws.folder.glob("runs/*")) and not (ws.folder.parent / "up-001").exists()


@pytest.mark.parametrize("name", ["précision", "lr=1e-3", "v2.1_x", "批量", "batch-128"])
def test_good_names(ws, name):
    job = submit("quick.py", name=name).wait(LIMIT)
    assert job.state == "COMPLETED" and job.run == f"{name}-001" and jobs[name].run == job.run


def test_names_do_not_mix(ws):
    submit("quick.py", name="batch-128").wait(LIMIT)
    assert submit("quick.py", name="batch").run == "batch-001"
    assert jobs["batch"].run == "batch-001" and jobs["batch-128"].run == "batch-128-001"


def test_python_in_front_and_modules(ws):
    (ws.folder / "mine").mkdir()
    ws.script("mine/tool.py", "import sys; print('tool', sys.argv[1:])")
    assert submit("python quick.py").wait(LIMIT).log == "hello\n"
    assert submit("-m mine.tool 1").wait(LIMIT).log == "tool ['1']\n"
    assert submit("-m timeit -n1 -r1 pass").wait(LIMIT).state == "COMPLETED"
    other = ws.folder.parent / "else where.py"
    other.write_text("print('outside')")
    assert submit(f"'{other}'").wait(LIMIT).log == "outside\n"


def test_a_workspace_that_cannot_be_written(ws):
    (ws.folder / "runs").write_text("a file in the way")
    with pytest.raises(UsageError, match=r"cannot write to .*runs"):
        submit("quick.py")


def test_a_strange_workspace(ws, tmp_path, monkeypatch):
    folder = tmp_path / "it's $HOME; a \"b\" 100%"
    folder.mkdir()
    (folder / "workspace.toml").write_text("")
    (folder / "here.py").write_text("import os; print(os.getcwd())")
    monkeypatch.chdir(folder)
    job = submit("here.py").wait(LIMIT)
    assert (job.state, job.log) == ("COMPLETED", f"{folder}\n")


def test_no_slower_than_by_hand(ws):
    before = time.monotonic()
    subprocess.run([sys.executable, "quick.py"], check=True, stdout=subprocess.DEVNULL)
    by_hand = time.monotonic() - before
    before = time.monotonic()
    job = submit("quick.py")
    while not job.log:
        time.sleep(0.005)
        assert time.monotonic() - before < patient(20)
    assert time.monotonic() - before - by_hand < patient(3)  # 0.1 s on a quiet machine


def test_a_thousand_past_runs(ws):
    runs = ws.folder / "runs"
    finished = submit("quick.py", name="one").wait(LIMIT)
    content = read_json(finished.folder)
    for number in range(1000):
        folder = runs / f"past-{number + 1:03}"
        folder.mkdir()
        (folder / "job.json").write_text(json.dumps(content | {"id": str(number + 10)}))
    times = []
    for _ in range(3):
        before = time.process_time()
        assert len(repr(jobs).splitlines()) == 22
        times.append(time.process_time() - before)
    assert min(times) < 0.3


def test_what_a_run_went_on_after_is_not_why_it_failed(tmp_path):
    went_on = {"event": "error", "kind": "disk", "message": "no checkpoint at step 5", "fatal": False}
    (tmp_path / "record.jsonl").write_text('{"event": "start"}\n' + json.dumps(went_on) + "\n")
    (tmp_path / "err.log").write_text("train.py: checkpoint.pt was written with accumulate 1, not 2\n")
    status = Status("FAILED", "exit code 2", 2)
    assert explained(tmp_path, status).reason == "train.py: checkpoint.pt was written with accumulate 1, not 2"
