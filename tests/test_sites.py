"""Site files, the site in use, time limits, default sizes."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from patience import LIMIT

from dlojz import cli
from dlojz.system import paths, sites
from dlojz.system.errors import UsageError
from dlojz.system.sites import Partition, Site, duration, parse, parse_sinfo, seconds, sizes


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A workspace, and nothing of the outside: no DLOJZ_*, no Slurm, no GPU."""
    for name in [name for name in os.environ if name.startswith("DLOJZ_")]:
        monkeypatch.delenv(name)
    (tmp_path / "bin").mkdir()
    (tmp_path / "workspace.toml").write_text('version = "1"\n')
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def program(folder: Path, name: str, body: str) -> None:
    (folder / "bin" / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / "bin" / name).chmod(0o755)


SHIPPED = sorted(file.stem for file in paths.share("slurm", "sites").glob("*.toml"))


@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_sites_are_right(name):
    site = sites.load(name)
    assert site.name == name and site.description and site.reference == name
    assert (site.launcher == "local") == (name == "laptop")


def test_all_sites_are_there():
    assert {"laptop", "slurm", "jean-zay", "snellius", "test-cluster"} <= set(SHIPPED)


def test_jean_zay():
    """The numbers that the course's jobs depend on."""
    site = sites.load("jean-zay")
    kinds = {name: (kind.cores_per_gpu, kind.gpus_per_node, kind.account_suffix) for name, kind in site.partitions.items()}
    assert kinds == {"v100": (10, 4, "@v100"), "a100": (8, 8, "@a100"), "h100": (24, 4, "@h100")}
    assert site.directives == ("--hint=nomultithread",) and site.modules[0].startswith("pytorch-gpu/py3/")
    limits = {name: (qos.slurm_name, qos.max_time // 3600, qos.max_gpus) for name, qos in site.partitions["h100"].qos.items()}
    assert limits == {"dev": ("qos_gpu_h100-dev", 2, 32), "t3": ("qos_gpu_h100-t3", 20, 512), "t4": ("qos_gpu_h100-t4", 100, 16)}


def test_folders(monkeypatch):
    monkeypatch.delenv("DSDIR", raising=False)
    assert sites.load("jean-zay").folder("data") is None and sites.load("laptop").folder("data") is None
    monkeypatch.setenv("DSDIR", "/data")
    assert sites.load("jean-zay").folder("data") == Path("/data")


GOOD = """# a cluster
description = "mine"
launcher = "slurm"
time = "1:00:00"

[partitions.big]
gpus_per_node = 8
cores_per_gpu = 12

[partitions.big.qos.fast]
max_time = 30
"""


def test_a_good_file():
    site = parse(GOOD, "mine")
    assert (site.name, site.time, site.partitions["big"].gpus_per_node) == ("mine", 3600, 8)
    assert site.partitions["big"].qos["fast"].max_time == 1800 and str(site) == "mine: mine"


@pytest.mark.parametrize("line, new, expected", [
    (2, 'descripton = "mine"', "line 2: unknown key 'descripton'; did you mean 'description'?"),
    (2, 'xyzzy = 1', "line 2: unknown key 'xyzzy'; known keys: description, launcher"),
    (3, 'launcher = "pbs"', "line 3: launcher = 'pbs' is not possible: expected one of \"local\", \"slurm\", \"replay\""),
    (3, 'launcher = "replay"', "line 3: launcher = \"replay\" needs recorded = \"FOLDER\""),
    (3, 'launcher = "local"', "line 6: partitions need launcher = \"slurm\""),
    (4, 'time = "soon"', "line 4: time = 'soon' is not possible: expected a time limit: 10 (minutes)"),
    (4, "time = -1", "line 4: time = -1 is not possible: expected a time limit"),
    (4, "time = true", "line 4: time = true is not possible: expected a time limit"),
    (4, 'gpus = "one"', "line 4: gpus = 'one' is not possible: expected a whole number from 0 to 1024"),
    (4, "gpus = -1", "line 4: gpus = -1 is not possible"),
    (4, "gpus = true", "line 4: gpus = true is not possible"),
    (4, 'discover = "yes"', "line 4: discover = 'yes' is not possible: expected true or false"),
    (4, 'modules = "a"', "line 4: modules = 'a' is not possible: expected a list of module names"),
    (4, 'modules = ["a; rm -rf /"]', "line 4: modules"),
    (4, 'directives = ["-x"]', "line 4: directives"),
    (4, 'directives = ["--a=b c"]', "line 4: directives"),
    (4, 'scale = "huge"', "line 4: scale = 'huge' is not possible: expected one of \"auto\""),
    (4, 'account = "a b"', "line 4: account = 'a b' is not possible: expected a name without blanks"),
    (4, 'account_variable = "$X"', "line 4: account_variable"),
    (4, 'partition = "small"', "line 4: partition = 'small' has no table [partitions.small]; there are big"),
    (4, "partitions = 3", "is not valid TOML: "),
    (7, "gpus_per_nodes = 8", "line 7: unknown key 'gpus_per_nodes'; did you mean 'gpus_per_node'?"),
    (7, "gpus_per_node = 8.5", "line 7: gpus_per_node = 8.5 is not possible: expected a whole number from 0 to 64"),
    (8, 'default_qos = "slow"', "line 8: default_qos = 'slow' is not among the qos of big"),
    (8, "qos = 3", "line 8: qos must be a table, one [partitions.big.qos.NAME] each"),
    (8, "qos = { slow = 3 }", "slow must be a table: [partitions.big.qos.slow]"),
    (8, "qos = { slow = { max_gpu = 3 } }", "line 8: unknown key 'max_gpu'; did you mean 'max_gpus'?"),
    (10, '[partitions.big.qos."a b"]', "line 10: 'a b' is not a name"),
    (11, "max_gpus = 0", "line 11: max_gpus = 0 is not possible: expected a whole number from 1"),
    (4, "time = ", "is not valid TOML: "),
    (4, 'time = "1', "at line 4"),
    (4, 'launcher = "slurm"', "is not valid TOML: Cannot overwrite a value (at line 4"),
])
def test_wrong_files_are_refused_with_the_line(line, new, expected):
    lines = GOOD.splitlines()
    lines[line - 1] = new
    if line == 8 and new.startswith("qos"):
        del lines[8:]
    with pytest.raises(UsageError) as caught:
        parse("\n".join(lines), "mine")
    assert expected in str(caught.value) and str(caught.value).startswith("mine.toml") and "\n" not in str(caught.value)


@pytest.mark.parametrize("terminal, answers", [(True, False), (True, True), (False, False)])
def test_a_terminal_is_told_that_slurm_has_not_answered_yet(here, monkeypatch, capsys, terminal, answers):
    """The command waits for a file that exists once the line is there, or (not in a terminal) for half a second."""
    class Stream(io.StringIO):
        def isatty(self):
            return terminal

        def write(self, text):
            (here / "told").touch()
            return super().write(text)

    wait = "while [ ! -e told ]; do /bin/sleep 0.01; done; " if terminal else "/bin/sleep 0.5; "
    program(here, "sinfo", f"{'' if answers else wait}echo 'gpu*|up|1:00:00|8|gpu:2'")
    monkeypatch.setattr(sites, "QUIET", 60 if answers else 0.1)
    monkeypatch.setattr(sys, "stderr", Stream())
    assert sites.discovered()["gpu"].gpus_per_node == 2
    line = "Waiting for sinfo, 30 s at most: Slurm's controller has not answered yet\n"
    assert sys.stderr.getvalue() == (line if terminal and not answers else "")


def test_the_site_in_use_and_why(here, monkeypatch):
    assert (sites.current().name, sites.choose()[1]) == ("laptop", "detected: there is no sbatch command here")
    program(here, "sbatch", "echo 'fatal: Could not establish a configuration source' >&2; exit 1")
    assert sites.choose() == ("laptop", "detected: there is an sbatch command here, but no cluster that it belongs to")
    program(here, "sbatch", "true")
    assert (sites.choose()) == ("slurm", "detected: there is an sbatch command here")
    monkeypatch.setenv("SLURM_CONF", str(here / "slurm.conf"))  # sbatch itself would try for a minute to read it
    assert sites.choose() == ("laptop", "detected: there is an sbatch command here, but SLURM_CONF names "
                                        f"{here / 'slurm.conf'}, which does not exist")
    monkeypatch.setenv("SLURM_CONF_SERVER", "controller")
    assert sites.choose()[0] == "slurm", "that may be asked in place of the file"
    monkeypatch.delenv("SLURM_CONF_SERVER")
    (here / "slurm.conf").touch()
    assert sites.choose()[0] == "slurm"
    monkeypatch.setattr(sites.socket, "gethostname", lambda: "jean-zay3")
    assert (sites.choose()) == ("jean-zay", "detected: this machine is called jean-zay3")
    (here / "workspace.toml").write_text('site = "snellius"\n')
    assert sites.choose() == ("snellius", f"{here}/workspace.toml says so") and sites.current().name == "snellius"
    monkeypatch.setenv("DLOJZ_SITE", "test-cluster")
    assert sites.choose() == ("test-cluster", "DLOJZ_SITE says so") and sites.current().name == "test-cluster"


def test_the_site_is_read_once_for_each_environment(here, monkeypatch):
    first = sites.current()
    assert sites.current() is first
    monkeypatch.setenv("DLOJZ_SITE", "jean-zay")
    assert sites.current().name == "jean-zay"
    monkeypatch.delenv("DLOJZ_SITE")
    assert sites.current() is first


def test_own_site_files(here, monkeypatch):
    (here / "sites").mkdir()
    (here / "sites" / "ours.toml").write_text(GOOD)
    (here / "elsewhere.toml").write_text(GOOD)
    assert sites.load("ours").reference == str(here / "sites" / "ours.toml")
    monkeypatch.setenv("DLOJZ_SITE", "ours")
    assert sites.current().name == "ours"
    monkeypatch.setenv("DLOJZ_SITE", str(here / "elsewhere.toml"))
    assert sites.current().name == "elsewhere"
    text = sites.table()
    assert "* elsewhere" in text and "  ours " in text and "In use: elsewhere (DLOJZ_SITE says so)" in text
    (here / "sites" / "broken.toml").write_text("nonsense = 1")
    assert "line 1: unknown key 'nonsense'" in sites.table()  # one broken file does not hide the others
    (here / "sites" / "laptop.toml").write_text('description = "another laptop"\n')
    assert sites.load("laptop").description == "another laptop"  # the workspace's own come first


@pytest.mark.parametrize("chosen, says", [
    ("jean-zai", "no site 'jean-zai': did you mean 'jean-zay'?"), ("", "no site ''"),
    ("nowhere.toml", "cannot be read: No such file"),
    ("./", "cannot be read"), ("../x", "cannot be read")])
def test_a_site_that_is_not_there(chosen, says):
    with pytest.raises(UsageError, match=says.replace("?", r"\?")):
        sites.load(chosen)


def test_a_site_file_that_is_no_text(here):
    (here / "x.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not UTF-8"):
        sites.load("./x.toml")


@pytest.mark.parametrize("content", ["site = 3", "site = ", "\xff", 'sit = "laptop"'])
def test_a_wrong_workspace_file(here, content):
    (here / "workspace.toml").write_bytes(content.encode("latin1"))
    with pytest.raises(UsageError, match=r"workspace.toml"):
        sites.current()


def test_table_marks_the_site_in_use():
    lines = sites.table().splitlines()
    assert [line for line in lines if line.startswith("*")] == [line for line in lines if " laptop " in line and "local" in line]
    assert lines[-1].startswith("In use: laptop (detected: there is no sbatch command here)")


SINFO = """gpu*|up|1-00:00:00|8|gpu:h100:4
debug|up|5:00|8|gpu:h100:4(S:0-1)
mixed|up|infinite|16+|(null)
mixed|up|infinite|64|gpu:a100:4,gpu:mig:2,shard:8
old|down|1:00:00|8|gpu:8
cpu|up|2-00:00:00|40|(null)
plain|up|1:00:00|32|gpu:8
"""


def test_sinfo():
    found = parse_sinfo(SINFO)
    assert list(found) == ["gpu", "debug", "mixed", "cpu", "plain"]
    assert found["gpu"] == Partition(name="gpu", partition="gpu", gpus_per_node=4, cores_per_gpu=2, max_time=86400)
    assert (found["debug"].gpus_per_node, found["debug"].max_time) == (4, 300)
    assert (found["mixed"].gpus_per_node, found["mixed"].cores_per_gpu, found["mixed"].max_time) == (6, 10, 0)
    assert (found["cpu"].gpus_per_node, found["cpu"].cores_per_gpu, found["plain"].gpus_per_node) == (0, 0, 8)
    assert parse_sinfo("") == {} and parse_sinfo("garbage\n||||\n") == {}


def test_the_default_partition_comes_first():
    assert list(parse_sinfo("a|up|1|8|(null)\nb*|up|1|8|(null)\n")) == ["b", "a"]


def test_a_generic_cluster(here, monkeypatch):
    program(here, "sinfo", f"cat <<'END'\n{SINFO}END")
    monkeypatch.setenv("PATH", f"{here / 'bin'}:/bin:/usr/bin")
    assert sites.load("slurm").known_partitions()["gpu"].cores_per_gpu == 2
    from dlojz.jobs.script import Command, request

    asked = request(sites.load("slurm"), Command(("a.py",), None), gpus=8)
    assert (asked.partition, asked.nodes, asked.cores) == ("gpu", 2, 2)
    assert request(sites.load("slurm"), Command(("a.py",), None), gpus=0, partition="cpu").gpus == 0


@pytest.mark.parametrize("body, says", [
    ("echo 'slurm_load_partitions: Unable to contact' >&2; exit 1", "Unable to contact"), (None, "no sinfo")])
def test_sinfo_fails(here, body, says):
    if body:
        program(here, "sinfo", body)
    with pytest.raises(UsageError, match=says):
        sites.load("slurm").known_partitions()


@pytest.mark.parametrize("text, expected", [
    (10, 600), ("10", 600), ("10:30", 630), ("0:10:00", 600), ("1-00:00:00", 86400), ("1-12", 129600), ("2-3:30", 185400),
    ("100:00:00", 360000), (" 5 ", 300), ("0:01", 1), ("90:00", 5400)])
def test_time_limits(text, expected):
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["abc", "", "1h", "10 min", -1, "-5", 0, "0:00:00", "1:2:3:4", "1-", "-", "1.5", 1.5, None, True,
                                  "٣", "99999-0", "1-1:1:1:1", "10\n", [], "$(x)", "400-0", 10**400])
def test_what_is_no_time_limit(text):
    if text == "10\n":
        assert seconds(text) == 600  # white space around it does no harm
        return
    with pytest.raises(UsageError, match=r"^.{0,60} is not a time limit"):
        seconds(text)


@pytest.mark.parametrize("total, text", [
    (0, "0:00:00"), (600, "0:10:00"), (86400, "1-00:00:00"), (360000, "4-04:00:00"), (59.9, "0:00:59")])
def test_durations(total, text):
    assert duration(total) == text and (total < 1 or seconds(text) == int(total))


@pytest.mark.parametrize("scale, expected", [
    ("ci", ("resnet18", 32, 8, 1)), ("laptop", ("resnet18", 64, 16, 1)), ("gpu", ("resnet50", 224, 256, 8)),
    ("cluster", ("resnet50", 224, 256, 8))])
def test_sizes(scale, expected):
    got = sizes(scale)
    assert (got.model, got.image_size, got.batch_size, got.photos_repeat) == expected
    assert 0 <= got.num_workers <= len(os.sched_getaffinity(0)) and (got.max_steps is not None) == (scale == "ci")


def test_sizes_follow_the_environment_then_the_site(here, monkeypatch):
    assert sizes().scale == "laptop"
    monkeypatch.setenv("DLOJZ_SITE", "jean-zay")
    assert sizes().scale == "laptop"  # a login node, a job without GPUs: nothing that would take hours here
    program(here, "nvidia-smi", "echo 'GPU 0: NVIDIA H100 (UUID: GPU-0)'")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    sites._devices.cache_clear()
    assert sizes().scale == "cluster"
    monkeypatch.setenv("DLOJZ_SCALE", "ci")
    assert sizes().scale == "ci" and sizes("gpu").scale == "gpu"
    monkeypatch.setenv("DLOJZ_SCALE", "enormous")
    with pytest.raises(UsageError, match="no scale 'enormous'"):
        sizes()


def test_workers_are_shared_among_the_processes_of_torchrun(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))
    assert sizes("gpu").num_workers == 16
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert sizes("gpu").num_workers == 16  # left over from somebody else: there is no torchrun
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    assert sizes("gpu").num_workers == 4 and sizes("ci").num_workers == 0


@pytest.mark.parametrize("visible, expected", [
    (None, ["0", "1", "2", "3"]), ("", []), ("-1", []), ("2", ["2"]), ("1,3", ["1", "3"]), ("0,9,1", ["0"]),
    ("GPU-aa,GPU-bb", ["GPU-aa", "GPU-bb"])])
def test_gpus(here, monkeypatch, visible, expected):
    program(here, "nvidia-smi", "for n in 0 1 2 3; do echo \"GPU $n: NVIDIA H100 (UUID: GPU-$n)\"; done")
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert sites.gpus() == expected and sites.has_gpu() == bool(expected)
    assert sizes("auto").scale == ("gpu" if expected else "laptop")


def test_a_driver_that_fails_is_no_gpu(here, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    program(here, "nvidia-smi", "echo 'NVIDIA-SMI has failed'; exit 9")
    monkeypatch.setattr(Path, "glob", lambda self, pattern: [])
    assert not sites.has_gpu()


def test_reading_a_site_imports_no_torch():
    code = "import sys; from dlojz import sites; sites.sizes(); print('torch' in sys.modules, 'numpy' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT,
                          env={**os.environ, "PYTHONPATH": str(paths.PACKAGE.parent)})
    assert said.stdout == "False False\n", said.stderr


def test_a_site_needs_no_file():
    assert Site(name="x").launcher == "local" and Site(name="x").reference == "x"


def test_the_list_is_shown_though_the_site_in_use_is_unknown(monkeypatch, capsys):
    monkeypatch.setenv("DLOJZ_SITE", "nope")
    assert cli.main(["sites"]) == 2
    shown = capsys.readouterr()
    assert "jean-zay" in shown.out and "there is no site 'nope'" in shown.err
