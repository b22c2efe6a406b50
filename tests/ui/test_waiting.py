"""While a cell waits: the page is served, other cells keep their turn, and an interrupt ends the wait and what would follow."""

import queue
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from patience import LIMIT

from dlojz.ui import notebook, waiting


def test_without_a_kernel_or_in_another_thread_it_only_sleeps(monkeypatch):
    slept = []
    monkeypatch.setattr(waiting.time, "sleep", slept.append)
    waiting.Sleeper()(3)
    monkeypatch.setattr(notebook, "kernel", lambda: SimpleNamespace())  # one that has nothing of what is needed
    waiting.Sleeper()(4)
    thread = threading.Thread(target=lambda: waiting.Sleeper()(5))
    thread.start()
    thread.join()
    assert slept == [3, 4, 5]


# ---------------------------------------------------------------- what ipykernel 7.4.0 does to comms


@pytest.fixture
def comms(monkeypatch):
    """ipykernel's comms, with the fault of 7.4.0 or without: ``comms(faulty)``."""
    module = pytest.importorskip("ipykernel.comm.comm")
    monkeypatch.setattr(module, "_request_id", lambda data: data.get("id"), raising=False)

    def latest(self, data, default):
        return self._reply_subshell_ids.pop(data.get("id"), getattr(self, "_reply_subshell_id", default))

    def asked(self, data, default):
        return self._reply_subshell_ids.pop(data.get("id"), default)

    def choose(faulty):
        monkeypatch.setattr(module.BaseComm, "_reply_subshell_for", latest if faulty else asked, raising=False)
        return module.BaseComm

    return choose


def test_a_press_goes_where_the_page_sends_it_and_an_answer_where_it_was_asked_for(comms):
    kind = comms(faulty=True)
    waiting.mend_comms()
    told = SimpleNamespace(_reply_subshell_lock=threading.Lock(), _reply_subshell_ids={"7": "asker"}, _reply_subshell_id=None)
    assert kind._reply_subshell_for(told, {"method": "update"}, "beside") == "beside"
    assert kind._reply_subshell_for(told, {"id": "7"}, "beside") == "asker"
    assert kind._reply_subshell_for(told, {"id": "7"}, "beside") == "beside"


def test_a_version_without_the_fault_stays_as_it_is(comms, monkeypatch):
    kind = comms(faulty=False)
    before = kind._reply_subshell_for
    waiting.mend_comms()
    assert kind._reply_subshell_for is before
    monkeypatch.delattr(kind, "_reply_subshell_for")  # and one that knows nothing of that
    waiting.mend_comms()
    assert not hasattr(kind, "_reply_subshell_for")


# ---------------------------------------------------------------- for real

SETUP = """
import time
from comm import get_comm_manager
from dlojz.ui.waiting import Sleeper
pressed = []
def opened(comm, message):
    comm.on_msg(lambda message: pressed.append(message["content"]["data"]))
get_comm_manager().register_target("button", opened)
def wait(seconds):
    sleep, until = Sleeper(), time.monotonic() + seconds
    print("waits", flush=True)
    while not pressed and time.monotonic() < until:
        sleep(0.1)
    return sleep
"""


@pytest.fixture
def client(tmp_path, monkeypatch):
    manager = pytest.importorskip("jupyter_client.manager")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    kernel = manager.KernelManager()
    kernel.kernel_spec.argv[0] = sys.executable
    kernel.start_kernel(cwd=str(tmp_path))
    one = kernel.client()
    one.start_channels()
    one.wait_for_ready(LIMIT)
    one.interrupt = kernel.interrupt_kernel
    yield one
    one.stop_channels()
    kernel.shutdown_kernel(now=True)


def printed(client, text):
    """Wait until a cell has printed this."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        try:
            message = client.get_iopub_msg(timeout=1)
        except queue.Empty:
            continue
        if message["msg_type"] == "stream" and text in message["content"]["text"]:
            return
    raise AssertionError(f"{text!r} was not printed")


def test_a_waiting_cell_serves_the_page_and_nothing_else(client):
    client.execute(SETUP, reply=True, timeout=LIMIT)
    cells = {"wait": client.execute(f"waited = wait({LIMIT})"), "next": client.execute("after = list(pressed)")}
    printed(client, "waits")
    cells["last"] = client.execute("pressed.clear()", user_expressions={"after": "after", "opened": "waited.opened"})
    cells["kernel"] = client.kernel_info()
    for kind, content in (("comm_open", {"comm_id": "c1", "target_name": "button", "data": {}}),
                          ("comm_msg", {"comm_id": "c1", "data": "press"})):
        client.shell_channel.send(client.session.msg(kind, content))
    names = {identifier: name for name, identifier in cells.items()}
    replies = [client.get_shell_msg(timeout=LIMIT) for _ in cells]
    assert [names[reply["parent_header"]["msg_id"]] for reply in replies] == ["kernel", "wait", "next", "last"]
    said = replies[-1]["content"]["user_expressions"]
    assert said["after"]["data"]["text/plain"] == "['press']"
    assert said["opened"]["data"]["text/plain"] == "True"

    cells = [client.execute("print('busy', flush=True); time.sleep(1); Sleeper()(1e-4)")]
    printed(client, "busy")
    cells += [client.execute("pass") for _ in range(4)]  # several are there when it begins to listen, and it takes one
    assert [client.get_shell_msg(timeout=LIMIT)["parent_header"]["msg_id"] for _ in cells] == cells

    cells = [client.execute(code) for code in (f"wait({LIMIT})", "pressed.append(1)", "pressed.append(2)")]
    printed(client, "waits")
    cells.append(client.execute("pressed.append(3)"))
    client.kernel_info(reply=True, timeout=LIMIT)  # answered in its turn: what came before it has arrived
    client.interrupt()
    replies = [client.get_shell_msg(timeout=LIMIT)["content"] for _ in cells]
    assert [reply["status"] for reply in replies] == ["error", "aborted", "aborted", "aborted"]
    assert replies[0]["ename"] == "KeyboardInterrupt"
