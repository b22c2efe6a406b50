"""A hub for tests: loopback only, any user name, no password; what a site's own configuration is before `dlojz hub` adds to it.

Every server runs under the account that started the hub, in a control group of its own where there is one to be had, so that
cpu_limit and mem_limit hold as they do with SystemdSpawner. From the environment: HUB_FOLDER, HUB_PORT, HUB_PROXY.
"""

import contextlib
import os
from pathlib import Path

from jupyterhub.spawner import SimpleLocalProcessSpawner

folder, port = Path(os.environ["HUB_FOLDER"]), int(os.environ["HUB_PORT"])
CGROUPS = Path("/sys/fs/cgroup")  # version 1: a folder for each controller


class Limited(SimpleLocalProcessSpawner):
    def groups(self):
        name = f"dlojz-hub-{port}-{self.user.name}"
        limits = {"memory": self.mem_limit, "cpu": self.cpu_limit}
        return {kind: CGROUPS / kind / name for kind, limit in limits.items() if limit}

    def make_preexec_fn(self, name):
        joined, home = [], super().make_preexec_fn(name)
        for kind, group in self.groups().items():
            with contextlib.suppress(OSError):
                group.mkdir(exist_ok=True)
                if kind == "memory":
                    (group / "memory.limit_in_bytes").write_text(str(self.mem_limit))
                else:
                    period = int((group / "cpu.cfs_period_us").read_text())
                    (group / "cpu.shares").write_text("16384")  # beside others it would weigh as much as a single process
                    (group / "cpu.cfs_quota_us").write_text(str(int(self.cpu_limit * period)))
                joined.append(group / "cgroup.procs")

        def enter():
            for file in joined:
                file.write_text(str(os.getpid()))
            home()

        return enter


c = get_config()  # noqa: F821
c.JupyterHub.bind_url = f"http://127.0.0.1:{port}"
c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{port + 2}"
c.JupyterHub.db_url = f"sqlite:///{folder}/jupyterhub.sqlite"
c.JupyterHub.cookie_secret_file = str(folder / "cookie_secret")
c.ConfigurableHTTPProxy.command = [os.environ["HUB_PROXY"]]
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{port + 1}"
c.ConfigurableHTTPProxy.pid_file = str(folder / "proxy.pid")
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.spawner_class = Limited
c.SimpleLocalProcessSpawner.home_dir_template = str(folder / "home/{username}")
c.Spawner.ip = "127.0.0.1"
c.Spawner.default_url = "/lab"
c.Spawner.args = ["--LabApp.expose_app_in_browser=True", *["--allow-root"] * (os.getuid() == 0)]
c.Spawner.start_timeout = c.Spawner.http_timeout = 120
c.Spawner.environment = {name: value for name, value in os.environ.items() if name.startswith("DLOJZ_")}
