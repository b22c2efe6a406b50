"""A port that processes meet at stays theirs, whatever else on the node asks for a free one."""

import errno
import socket
import sys
from contextlib import contextmanager

import pytest
from torch.distributed import TCPStore

from dlojz.labs.probe import reserved_port

IP_LOCAL_PORT_RANGE = 51  # linux/in.h


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


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", ""])
def test_it_is_not_given_to_who_asks_for_any_port_of_another_address(address):
    """As gloo does on the address of the node's network: with SO_REUSEADDR, here from a range of that one port."""
    with reserved_port() as port, socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, (port << 16 | port).to_bytes(4, sys.byteorder))
        except OSError:
            pytest.skip("needs Linux 6.3")
        with pytest.raises(OSError) as refused:
            one.bind((address, 0))
        assert refused.value.errno == errno.EADDRINUSE


def test_it_is_free_again_afterwards():
    with reserved_port() as port:
        pass
    with other(port):
        pass
