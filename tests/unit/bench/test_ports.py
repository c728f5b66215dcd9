"""Ports of the bench: a server can listen there, again and again, and nobody else gets them by chance."""

from __future__ import annotations

import socket
import sys

import pytest

from bench.bench import HOST, free_ports


def test_a_server_can_listen_there_more_than_once() -> None:
    ports = free_ports(3)
    assert len(set(ports)) == 3
    for port in (*ports, *ports):
        with socket.create_server((HOST, port)), socket.create_connection((HOST, port)):
            pass


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps a port for one that listens later")
def test_while_nobody_listens_the_kernel_gives_them_to_nobody_else() -> None:
    (port,) = free_ports(1)
    with socket.socket() as other, pytest.raises(OSError, match="already in use"):
        other.bind((HOST, port))
