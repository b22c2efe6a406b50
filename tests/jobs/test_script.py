"""The text of job.sh, from parameters; what bash makes of it; the linter."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from patience import LIMIT

from dlojz.jobs import script
from dlojz.jobs.script import checked_command, directives, environment, explain, fingerprint, lint, render, request, sources
from dlojz.jobs.states import Request
from dlojz.system import paths, sites
from dlojz.system.errors import UsageError

FOLDER = Path("/home/me/course/runs/amp-001")


def asked(**changes) -> Request:
    return Request(**{"name": "amp", "command": ("train.py", "--amp", "bf16"), "site": "laptop"} | changes)


def text(folder: Path = FOLDER, resumes: bool = False, **changes) -> str:
    return render(asked(**changes), folder, site="laptop", scale="laptop", python="/opt/python", resumes=resumes)


def test_the_header_of_a_job_on_a_cluster():
    jean_zay = sites.load("jean-zay")
    command = script.Command(("train.py",), None)
    wanted = request(jean_zay, command, name="ddp", gpus=8, partition="h100", account="xyz", time="1:00:00", qos="dev")
    header = directives(render(wanted, FOLDER, site="jean-zay", scale="cluster"))
    assert header == [
        "--job-name=ddp", "--output=/home/me/course/runs/amp-001/out.log", "--error=/home/me/course/runs/amp-001/err.log",
        "--open-mode=append", "--nodes=2", "--ntasks-per-node=4", "--gres=gpu:4", "--cpus-per-task=24", "--time=1:00:00",
        "--signal=USR1@60", "--requeue", "--account=xyz@h100", "--qos=qos_gpu_h100-dev", "--constraint=h100",
        "--hint=nomultithread"]


def test_modules_come_before_the_run_and_bring_their_python():
    body = render(asked(modules=("arch/h100", "pytorch-gpu/py3/2.8.0")), FOLDER, site="jean-zay", scale="cluster")
    places = [body.index(words) for words in ("module purge", "module load arch/h100", "module load pytorch", "srun ")]
    assert places == sorted(places)
    assert re.search(r'srun .* python "\$\{script\[@\]\}"', body)
    assert "module" not in text()


def test_one_process_or_several():
    assert '"${start[@]}" /opt/python "${script[@]}"' in text()
    assert "torch.distributed.run" not in text()
    several = text(processes=4, gpus=4)
    assert "/opt/python -m torch.distributed.run --standalone --nproc-per-node=4" in several and "--ntasks-per-node=4" in several
    assert "--ntasks-per-node=2" in text(processes=4, gpus=4, nodes=2)


def test_short_jobs_are_not_warned():
    assert "signal" not in "".join(directives(text(seconds=299))) and "--signal=USR1@60" in directives(text(seconds=300))


def test_only_a_script_that_knows_resume_is_told_to():
    assert "--resume" not in text() and 'SLURM_RESTART_COUNT:-0}" -gt 0' in text(resumes=True)


def test_the_script_is_pleasant_to_read():
    body = text()
    assert max(map(len, body.splitlines())) <= 130 and body.startswith("#!/bin/bash\n#SBATCH ") and body.endswith("\n")
    assert not re.search(r"@\w+@|#:|[ \t]$", body, re.MULTILINE)
    assert lint(body) == []


def test_every_line_is_explained():
    shown = explain(asked(modules=("a/1",), processes=2, cores=4, gpus=2, account="a", partition="p", qos="q", constraint="c",
                          directives=("--hint=nomultithread", "--mem=8G")),
                    FOLDER, site="laptop", scale="laptop", resumes=True, files=[FOLDER.parents[1] / "train.py"]).splitlines()
    for line, after in zip(shown, [*shown[1:], ""]):
        code = line.strip()
        if code and not code.startswith("^") and not (code.startswith("#") and not code.startswith(("#!", "#SBATCH"))):
            previous = shown[shown.index(line) - 1].strip()
            goes_on = previous.startswith("^") and line.startswith("          ")  # an explanation of two lines
            assert after.strip().startswith("^") or goes_on, line


NASTY = ["a b", "a;b", "$(touch hacked)", "`touch hacked`", "a\nb", "\n#SBATCH --account=evil", "é批", "'", '"', "'\"'", "\\",
         "!x", "@run@", "@python@", "#: x", "*", "~", "-n", "${HOME}", "&& touch hacked",
         "x" * 3000, "%j", "\t", "a\nb'c\\d", "\x7f\x01", "", "\udcff"]


def run(body: str, cwd: Path, **extra) -> subprocess.CompletedProcess:
    return subprocess.run(["bash", "-c", body], cwd=cwd, capture_output=True, text=True, timeout=LIMIT,
                          env={**environment(os.environ), **extra})


@pytest.mark.parametrize("nasty", NASTY)
def test_arguments_arrive_as_they_are(tmp_path, nasty):
    """What stands in a command is given to the script, letter by letter; bash never acts on it."""
    folder = tmp_path / "it's a %j $(x)" / "runs" / "amp-001"
    folder.mkdir(parents=True)
    workspace = folder.parent.parent
    (workspace / "show.py").write_text("import sys; print(sys.argv[1:])")
    command = checked_command(shlex.join(["show.py", nasty, "last"]), workspace)
    assert command.argv == ("show.py", nasty, "last")
    body = render(asked(command=command.argv), folder, site="lap top", scale="laptop")
    done = run(body, tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{[nasty, 'last']!r}\n"), done.stderr
    assert not list(tmp_path.rglob("hacked")) and lint(body) == []
    assert directives(body) == directives(render(asked(command=("show.py",)), folder, site="x", scale="laptop"))


@pytest.mark.parametrize("path, written", [
    ("/a/b-c_d.e", "/a/b-c_d.e"), ("/a b", '"/a b"'), ('/a"b', '"/a\\"b"'), ("/100%", '"/100%%"'), ("/it's", '"/it\'s"')])
def test_paths_in_directives(path, written):
    assert script._slurm_path(Path(path)).strip('"') == written.strip('"')
    assert f"--output={script._slurm_path(Path(path) / 'runs/a-001/out.log')}" in directives(text(Path(path) / "runs/a-001"))


def slurm_pretended(tmp_path: Path, code: int) -> Path:
    """Commands that say what they were called with, for what job.sh does inside an allocation."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, body in {
        "srun": f'echo "srun $*"; env | grep -E "^(MASTER_|SRUN_)" | sort; exit {code}',
        "scontrol": 'if [ "$1" = show ]; then echo node7; echo node8; else echo "scontrol $*"; fi',
    }.items():
        (programs / name).write_text(f"#!/bin/bash\n{body}\n")
        (programs / name).chmod(0o755)
    return programs


def in_a_job(tmp_path: Path, code: int = 0, resumes: bool = True, **variables) -> tuple[subprocess.CompletedProcess, Path]:
    folder = tmp_path / "ws" / "runs" / "amp-001"
    folder.mkdir(parents=True)
    programs = slurm_pretended(tmp_path, code)
    body = render(asked(gpus=4, processes=4, nodes=2, cores=5), folder, site="slurm", scale="cluster", python="python",
                  resumes=resumes)
    variables = {"SLURM_JOB_ID": "123456", "SLURM_JOB_NODELIST": "node[7-8]", "SLURM_CPUS_PER_TASK": "5",
                 "PATH": f"{programs}:{os.environ['PATH']}"} | variables
    return run(body, tmp_path, **variables), folder


def test_inside_an_allocation(tmp_path):
    done, folder = in_a_job(tmp_path, RANK="3", MASTER_PORT="29500", PMIX_RANK="1", SLURM_CPU_BIND_TYPE="mask")
    assert done.stdout.splitlines() == [
        'srun --kill-on-bad-exit=0 --wait=60 bash -c trap "" USR1; exec "$@" start python train.py --amp bf16',
        "MASTER_ADDR=node7", f"MASTER_PORT={10000 + 123456 % 20000}", "SRUN_CPUS_PER_TASK=5"]
    assert (done.returncode, (folder / "exit_code").read_text()) == (0, "0\n")


def test_two_jobs_do_not_share_a_port(tmp_path):
    ports = {10000 + number % 20000 for number in (41, 42, 43)}
    assert len(ports) == 3 and all(10000 <= port < 32768 for port in ports)
    assert "MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))" in text()


def test_a_second_run_goes_on_from_its_checkpoint(tmp_path):
    done, _ = in_a_job(tmp_path, SLURM_RESTART_COUNT="1")
    assert done.stdout.splitlines()[0].endswith("train.py --amp bf16 --resume")


@pytest.mark.parametrize("variables, task", [
    ({}, "123456"), ({"SLURM_ARRAY_JOB_ID": "123450", "SLURM_ARRAY_TASK_ID": "0"}, "123450_0")])
def test_a_saved_run_is_queued_again(tmp_path, variables, task):
    done, folder = in_a_job(tmp_path, code=75, **variables)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (75, f"scontrol requeue {task}")
    assert not (folder / "exit_code").exists()  # it has not ended


@pytest.mark.parametrize("code", [1, 75, 137])
def test_other_exit_codes_are_left_and_passed_on(tmp_path, code):
    folder = tmp_path / "runs" / "a-001"
    folder.mkdir(parents=True)
    (tmp_path / "leave.py").write_text(f"raise SystemExit({code})")
    done = run(render(asked(command=("leave.py",)), folder, site="laptop", scale="laptop"), tmp_path)
    assert (done.returncode, (folder / "exit_code").read_text()) == (code, f"{code}\n")


def test_a_job_that_slurm_ends_is_not_queued_again_by_itself(tmp_path):
    folder = tmp_path / "ws" / "runs" / "amp-001"
    folder.mkdir(parents=True)
    programs = slurm_pretended(tmp_path, 0)
    (programs / "srun").write_text("#!/bin/bash\nkill -TERM $PPID\nexit 75\n")  # scancel, time limit or preemption
    body = render(asked(), folder, site="slurm", scale="cluster", python="python")
    done = run(body, tmp_path, SLURM_JOB_ID="1", SLURM_JOB_NODELIST="n", PATH=f"{programs}:{os.environ['PATH']}")
    assert done.returncode == 75 and "requeue" not in done.stdout and (folder / "exit_code").read_text() == "75\n"


def test_environment_is_cleaned():
    left = environment({"SLURM_JOB_ID": "1", "SLURM_CONF": "/etc/slurm.conf", "SBATCH_QOS": "x", "SRUN_CPUS_PER_TASK": "3",
                        "PMIX_RANK": "0", "PMI_RANK": "0", "RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "n", "LOCAL_RANK": "0",
                        "TORCHELASTIC_RUN_ID": "x", "DLOJZ_RUN": "/r", "DLOJZ_SITE": "s", "PATH": "/bin", "SLURMISH": "kept",
                        "RANKING": "kept"})
    assert left == {"SLURM_CONF": "/etc/slurm.conf", "DLOJZ_SITE": "s", "PATH": "/bin", "SLURMISH": "kept", "RANKING": "kept"}


@pytest.mark.parametrize("wrong, line, says", [
    ("#!/bin/bash\n# SBATCH --time=1\n", 2, "ignores '# SBATCH --time=1'"),
    ("#!/bin/bash\n #SBATCH --time=1\n", 2, "must start with #SBATCH"),
    ("#!/bin/bash\n#sbatch --time=1\n", 2, "capitals"),
    ("#!/bin/bash\n#SBATCH--time=1\n", 2, "must start"),
    ("#!/bin/bash\necho\n#SBATCH --time=1\n", 3, "after the first command (line 2)"),
    ("#!/bin/bash\n<<<<<<< HEAD\n", 2, "conflict marker"),
    ("#!/bin/bash\n=======\n", 2, "conflict marker"),
    ("#!/bin/bash\n>>>>>>> other\n", 2, "conflict marker"),
    ("#!/bin/bash\nsrun python nothere.py --x\n", 2, "nothere.py is not in"),
    ("#SBATCH --time=1\n", 1, "#!/bin/bash"),
    ("#!/bin/bash\r\n#SBATCH --time=1\r\n", 1, "Windows"),
])
def test_lint_finds_what_slurm_ignores(tmp_path, wrong, line, says):
    found = lint(wrong, tmp_path)
    assert len(found) == 1 and found[0].startswith(f"line {line}: ") and says in found[0]


def test_lint_accepts_good_scripts(tmp_path):
    (tmp_path / "train.py").touch()
    good = ["#!/bin/bash", "# a comment", "#SBATCH --time=1", "##SBATCH --off", "", "#SBATCH --qos=x", "", "echo '#SBATCH'",
            "# python gone.py", "python train.py", ""]
    assert lint("\n".join(good), tmp_path) == []


def test_our_own_template_is_clean():
    assert "#SBATCH" not in paths.share("slurm", "job.sh").read_text()


def test_commands(tmp_path):
    (tmp_path / "train.py").write_text("print()\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "other.py").write_text("print()\n")
    assert checked_command("python3.11 train.py --a", tmp_path).argv == ("train.py", "--a")
    assert checked_command("sub/../train.py", tmp_path).argv == ("train.py",)
    assert checked_command("other.py", tmp_path, tmp_path / "sub").argv == ("sub/other.py",)
    assert checked_command("-m sub.other 1", tmp_path).script == tmp_path / "sub" / "other.py"
    assert checked_command("-m somewhere.else", tmp_path, find_modules=False).argv == ("-m", "somewhere.else")
    with pytest.raises(UsageError, match="is not a Python script"):
        checked_command("./sub", tmp_path)


def test_sources_follow_imports_beside_the_script(tmp_path):
    for name, content in {"train": "import os, augment\nfrom losses import a", "augment": "import deep", "deep": "import train",
                          "losses": "(", "unused": ""}.items():
        (tmp_path / f"{name}.py").write_text(content)
    assert {file.stem for file in sources(tmp_path / "train.py")} == {"train", "augment", "deep", "losses"}
    before = fingerprint(asked(), tmp_path / "train.py")
    (tmp_path / "unused.py").write_text("x")
    assert fingerprint(asked(), tmp_path / "train.py") == before
    (tmp_path / "deep.py").write_text("x = 1")
    assert fingerprint(asked(), tmp_path / "train.py") != before
    assert fingerprint(asked(gpus=2), tmp_path / "train.py") != fingerprint(asked(), tmp_path / "train.py")


def test_fences_that_the_command_does_not_use_do_not_make_another_job(tmp_path):
    file = tmp_path / "train.py"

    def key(fence, *switches, body="pass", **resources):
        file.write_text(f"import torch\nif True:\n    # >>> {fence}: what it is\n    {body}\n    # <<< {fence}\n")
        return fingerprint(asked(command=("train.py", *switches), **resources), file)

    for fence, switch in (("amp.update", "--amp"), ("amp.update", "--clip-grad=1"), ("channels_last.model", "--channels-last")):
        assert key(fence) == key(fence, body="todo()"), fence
        assert key(fence, switch) != key(fence, switch, body="todo()"), fence
    assert key("ddp.wrap", processes=2) != key("ddp.wrap", processes=2, body="todo()")
    assert key("ddp.wrap") == key("ddp.wrap", body="todo()")
    assert key("gpu.model") != key("gpu.model", body="todo()")  # each run uses it
    assert key("of_ones_own") != key("of_ones_own", body="todo()")


COMMAND = script.Command(("train.py",), None)


@pytest.mark.parametrize("site, options, expected", [
    ("jean-zay", {}, {"gpus": 1, "nodes": 1, "cores": 10, "constraint": "", "account": "", "seconds": 1200}),
    ("jean-zay", {"gpus": 8}, {"nodes": 2, "processes": 8}),
    ("jean-zay", {"gpus": 16, "partition": "a100", "account": "abc"},
     {"nodes": 2, "cores": 8, "account": "abc@a100", "constraint": "a100"}),
    ("jean-zay", {"constraint": "h100", "account": "abc@h100"}, {"cores": 24, "account": "abc@h100", "constraint": "h100"}),
    ("jean-zay", {"constraint": "v100-32g"}, {"cores": 10, "constraint": "v100-32g"}),
    ("jean-zay", {"partition": "gpu_p2", "gpus": 8}, {"partition": "gpu_p2", "nodes": 1, "cores": 0}),
    ("jean-zay", {"partition": "h100", "qos": "t4", "time": "100:00:00", "gpus": 16},
     {"qos": "qos_gpu_h100-t4", "seconds": 360000}),
    ("jean-zay", {"partition": "h100", "qos": "qos_gpu_h100-dev"}, {"qos": "qos_gpu_h100-dev"}),
    ("jean-zay", {"cores": 3, "gpus": 2, "nodes": 2}, {"cores": 3, "nodes": 2, "processes": 2}),
    ("snellius", {"partition": "gpu_h100", "gpus": 4}, {"partition": "gpu_h100", "cores": 16, "nodes": 1}),
    ("test-cluster", {"gpus": 4, "nodes": 2}, {"account": "research", "partition": "gpu", "processes": 4, "nodes": 2}),
    ("test-cluster", {"partition": "cpu"}, {"gpus": 0, "processes": 1, "cores": 0}),
    ("test-cluster", {"gpus": 0, "processes": 4, "nodes": 2}, {"gpus": 0, "processes": 4, "cores": 0}),
    ("test-cluster", {"partition": "debug"}, {"seconds": 300}),
])
def test_the_sites_defaults_are_filled_in(monkeypatch, site, options, expected):
    monkeypatch.delenv("IDRPROJ", raising=False)
    wanted = request(sites.load(site), COMMAND, **options)
    assert {key: getattr(wanted, key) for key in expected} == expected


def test_the_account_from_the_environment(monkeypatch):
    monkeypatch.setenv("IDRPROJ", "abc")
    assert request(sites.load("jean-zay"), COMMAND, partition="h100").account == "abc@h100"
    assert request(sites.load("jean-zay"), COMMAND, account="xyz").account == "xyz@v100"


@pytest.mark.parametrize("site, options, says", [
    ("jean-zay", {"gpus": 5, "nodes": 2}, "same number of GPUs; ask for 6"),
    ("jean-zay", {"gpus": 5}, "gpus=5, nodes=2: .*ask for 6"),
    ("jean-zay", {"gpus": 8, "nodes": 1}, "has 4 GPUs; ask for nodes=2"),
    ("jean-zay", {"partition": "a100", "time": "30:00:00"}, "a100 allows at most 20:00:00"),
    ("jean-zay", {"partition": "h100", "time": "30:00:00"}, "t3 of h100 allows at most 20:00:00 and 512 GPUs.*qos='t4'"),
    ("jean-zay", {"partition": "h100", "qos": "dev", "time": "3:00:00"}, "dev of h100 allows at most 2:00:00.*qos='t3'"),
    ("jean-zay", {"partition": "h100", "qos": "dev", "gpus": 64}, "and 32 GPUs"),
    ("jean-zay", {"partition": "h100", "qos": "t4", "gpus": 32, "time": "50:00:00"}, "no other qos"),
    ("jean-zay", {"partition": "h100", "qos": "t9"}, "h100 has dev, t3, t4"),
    ("test-cluster", {"partition": "cpu", "gpus": 1}, "cpu has no GPUs; gpu, debug, spot has"),
    ("test-cluster", {"gpus": 2, "processes": 4}, "one process drives one GPU"),
    ("test-cluster", {"gpus": 0, "processes": 3, "nodes": 2}, "same number of processes"),
    ("test-cluster", {"gpus": -1}, "0 or more"),
])
def test_what_a_site_cannot_give_is_refused(site, options, says):
    with pytest.raises(UsageError, match=says) as caught:
        request(sites.load(site), COMMAND, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("devices, options, expected", [
    (0, {}, (0, 1)), (0, {"gpus": 2}, (0, 2)), (0, {"gpus": 0}, (0, 1)), (0, {"gpus": 0, "processes": 3}, (0, 3)),
    (4, {}, (1, 1)), (4, {"gpus": 4}, (4, 4)), (4, {"gpus": 0}, (0, 1)), (4, {"gpus": 0, "processes": 2}, (0, 2))])
def test_gpus_and_processes_on_this_machine(devices, options, expected):
    wanted = request(sites.load("laptop"), COMMAND, devices=devices, **options)
    assert (wanted.gpus, wanted.processes) == expected
