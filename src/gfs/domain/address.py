"""Where a server listens."""

from __future__ import annotations

from gfs.domain.errors import InputError


def parse_address(address: str) -> tuple[str, int]:
    """Host and port of '127.0.0.1:8080', ':8080' (loopback) or '[::1]:8080'."""
    host, _, port = address.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise InputError(f"--http {address}: give host and port, such as 127.0.0.1:8080")
    return host.strip("[]") or "127.0.0.1", int(port)
