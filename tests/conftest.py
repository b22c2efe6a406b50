"""What all tests share: their order, failures said as they come, and a server that has imported torch for runs of the script."""

import os
import sys

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """What takes longest goes first, what is spread last, so that all workers end together."""
    items.sort(key=lambda item: next((place for place, name in enumerate(("slurm", "slow", "", "spread"))
                                      if item.get_closest_marker(name)), 2))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """The tests of a file go to one worker, which makes what they share once; those of a file marked `spread` to any. One cluster
    serves all files in tests/cluster."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file = nodeid.partition("::")[0]
            return nodeid if file in spread else "slurm" if "/cluster/" in file else file

    files = (config.rootpath / "tests").rglob("test_*.py")
    spread = {file.relative_to(config.rootpath).as_posix() for file in files if "mark.spread" in file.read_text(encoding="utf-8")}
    return ByFile(config, log)


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    config.pluginmanager.register(Failures(config), "failures as they come")


class Failures:
    """Says what failed when it fails: the whole report comes at the end of many minutes."""

    def __init__(self, config):
        self.config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report):
        terminal = self.config.pluginmanager.getplugin("terminalreporter")
        if report.failed and terminal and not hasattr(self.config, "workerinput"):
            crash = getattr(report.longrepr, "reprcrash", None)
            what = (crash.message if crash else str(report.longrepr)).strip().split("\n")[0][:200]
            terminal.write_line(f"\nFAILED {report.nodeid} after {report.duration:.0f} s: {what}", red=True)


@pytest.fixture(scope="session", autouse=True)
def no_controller(tmp_path_factory):
    """Slurm may be installed here, or come and go with tests/cluster: all others find that no controller answers, and at once.
    Where Slurm is installed and not set up, sinfo would look for a controller for a quarter of a minute."""
    folder = tmp_path_factory.mktemp("no-controller")
    (folder / "sinfo").write_text("#!/bin/sh\necho 'sinfo: error: no controller in the tests' >&2\nexit 1\n")
    (folder / "sinfo").chmod(0o755)
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return folder


@pytest.fixture(autouse=True)
def asked_anew():
    """What the kit asks a machine once (its site, Slurm's partitions, its GPUs): each test has a machine of its own."""
    def forget():
        if sites := sys.modules.get("dlojz.system.sites"):
            for answer in (sites._current, sites.discovered, sites._devices):
                answer.cache_clear()

    forget()
    yield
    forget()


@pytest.fixture(scope="session")
def training_server():
    from training import Server

    server = Server()
    yield server
    server.close()


@pytest.fixture(scope="session")
def training_images(tmp_path_factory):
    from training import make_images

    return make_images(tmp_path_factory.mktemp("images") / "set", train=24, val=10)


@pytest.fixture
def language_training(training_server, tmp_path):
    from training import LanguageTraining, make_tokens

    training = LanguageTraining(training_server, tmp_path, make_tokens(tmp_path / "tokens"))
    yield training
    training.close()


@pytest.fixture
def training(training_server, training_images, tmp_path):
    from training import Training

    training = Training(training_server, tmp_path, training_images)
    yield training
    training.close()
