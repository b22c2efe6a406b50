"""A port that processes meet at stays theirs, whatever else on the node asks for a free one."""

import errno
import socket
from contextlib import contextmanager

import pytest
from torch.distributed import TCPStore

from dlojz.labs.probe import reserved_port


@contextmanager
def other(port: int, address: str = ""):
    with socket.socket() as one:
        one.bind((address, port))
        yield one


@pytest.mark.parametrize("libuv", [True, False])
def test_a_reserved_port_is_taken_but_for_torch_s_store(libuv):
    with reserved_port() as port:
        for address in ("", "127.0.0.1"):
            with pytest.raises(OSError) as refused, other(port, address):
                pass
            assert refused.value.errno == errno.EADDRINUSE
        store = TCPStore("127.0.0.1", port, world_size=1, is_master=True, use_libuv=libuv)
        store.set("who", "rank 0")
        assert store.get("who") == b"rank 0"


def test_it_is_free_again_afterwards():
    with reserved_port() as port:
        pass
    with other(port):
        pass
