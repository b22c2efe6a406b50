"""What a notebook's page may ask of the kernel while a cell waits.

A kernel deals with one message after the other in its main thread, so a cell that sleeps there makes buttons dead, and a page
that was closed and opened again finds neither the kernel nor its widgets. `Sleeper` serves these messages while it sleeps;
other cells stay in the queue, in their order. What it needs of ipykernel (6, and 7.2 to 7.4) is private there: where a part is
missing it sleeps like `time.sleep`.

Callbacks of widgets may then run in the main thread, in the middle of the wait: hold no lock while you sleep.
"""

from __future__ import annotations

import inspect
import threading
import time
from types import SimpleNamespace

from . import notebook

SERVED = ("comm_open", "comm_msg", "comm_close", "comm_info_request", "kernel_info_request")
NEEDED = {"kernel": ("session", "shell_handlers", "_publish_status"),
          "stream": ("_recv_callback", "_run_callback", "_rebuild_io_state")}


class Sleeper:
    """A `time.sleep` that serves the page. ``opened``: whether a page has come (back) since: it asks what kernel this is."""

    def __init__(self) -> None:
        self.opened = False
        self._channel = _channel()

    def __call__(self, seconds: float) -> None:
        if self._channel is None:
            return time.sleep(seconds)
        until = time.monotonic() + seconds
        try:
            while (left := until - time.monotonic()) > 0:
                if self._channel.socket.poll(1000 * left):
                    self._serve()
        finally:
            self._channel.stream._rebuild_io_state()  # what is still in the socket signals no more: let the kernel look there

    def _serve(self) -> None:
        """Take one message: deal with it now, or leave it to the kernel, which takes it up when this cell has ended."""
        import zmq

        of, kernel = self._channel, self._channel.kernel
        try:
            raw = of.socket.recv_multipart(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return
        try:
            idents, rest = kernel.session.feed_identities(raw, copy=False)
            kind = kernel.session.deserialize(rest, content=False, copy=False)["header"]["msg_type"]
        except Exception:  # the kernel says what is wrong with it
            kind = ""
        if kind not in SERVED:
            of.stream._run_callback(of.stream._recv_callback, raw)  # as if it had come just after the cell
            return
        self.opened = self.opened or kind == "kernel_info_request"
        kernel.set_parent(idents, kernel.session.deserialize(rest, copy=False))
        try:
            kernel._publish_status("busy", "shell")
            _run(kernel.shell_handlers[kind](of.reply, idents, kernel.get_parent("shell")))
            if of.stream is of.reply:
                of.stream.flush(zmq.POLLOUT)
            kernel._publish_status("idle", "shell")
        except Exception:
            kernel.log.error("A message could not be served while a cell waited", exc_info=True)
        finally:
            kernel.set_parent(*of.cell)
            kernel._publish_status("busy", "shell")  # the page shows the last that it hears


def _run(answer) -> None:
    """What a handler gives back may be a coroutine; those of `SERVED` never wait for anything."""
    if inspect.iscoroutine(answer):
        try:
            answer.send(None)
        except StopIteration:
            return
        answer.close()


def _channel() -> SimpleNamespace | None:
    """Where the main thread hears, and what it does with a message; None in another thread, or where there is no such kernel."""
    kernel = notebook.kernel()
    if kernel is None or threading.current_thread() is not threading.main_thread():
        return None
    try:
        if beside := getattr(kernel, "shell_channel_thread", None):  # ipykernel 7: a thread hands messages on
            stream = beside.manager.get_shell_channel_to_subshell_pair(None).to_stream
            reply = beside.manager.get_subshell_to_shell_channel_socket(None)
        else:
            stream = reply = kernel.shell_stream
        cell = kernel._parent_ident["shell"], kernel.get_parent("shell")
        for part, names in NEEDED.items():
            for name in names:
                getattr(kernel if part == "kernel" else stream, name)
        return SimpleNamespace(kernel=kernel, stream=stream, socket=stream.socket, reply=reply, cell=cell)
    except (AttributeError, KeyError, TypeError):
        return None


def mend_comms() -> None:
    """ipykernel 7.4.0 sends what a page tells a widget to the thread that last changed that widget, which is the busy main one,
    and not to the one that the page has chosen. Where it does, let the page's choice count. Costs nothing a second time."""
    try:
        from ipykernel.comm.comm import BaseComm, _request_id

        told = SimpleNamespace(_reply_subshell_lock=threading.Lock(), _reply_subshell_ids={}, _reply_subshell_id=None)
        if BaseComm._reply_subshell_for(told, {"method": "update"}, "the page's") == "the page's":
            return
    except (ImportError, AttributeError, TypeError):  # a version that has nothing of that
        return

    def reply_subshell_for(self, data, default):
        with self._reply_subshell_lock:
            return self._reply_subshell_ids.pop(_request_id(data), default)

    BaseComm._reply_subshell_for = reply_subshell_for
