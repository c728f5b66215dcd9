"""Records the watch of a race: lines as the API server sends them, with the second at which they were received.

    python benchmarks/live_recorder.py HOST PORT CA_FILE TOKEN_FILE OUT

A process of its own that reads no JSON, so that the times are those of the wire. It prints `ready` when it follows,
and ends when it is told to (SIGTERM), with a line that says when that was.
"""

from __future__ import annotations

import http.client
import json
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import BinaryIO

from bench.client import ApiError, Client

VERSION = re.compile(rb'"resourceVersion":"(\d+)"')
KINDS = ("nodes", "podgroups", "pods")


def follow(client: Client, kind: str, version: str, file: BinaryIO, lock: threading.Lock) -> None:
    """Write down what a watch tells, until the process ends."""
    while True:
        try:
            for line in client.watch_lines(kind, version, seconds=280.0):
                if line.startswith(b'{"type":"ERROR"'):
                    sys.exit(f"the watch of {kind} cannot be followed: {line.decode()}")
                if (found := VERSION.search(line)) is not None:  # if the server cuts it off, it goes on from here
                    version = found[1].decode()
                if line.startswith(b'{"type":"BOOKMARK"'):
                    continue
                stamped = b'{"received":%.4f,%s\n' % (time.time(), line.strip()[1:])
                with lock:
                    file.write(stamped)
        except (OSError, ApiError, http.client.HTTPException):
            time.sleep(0.05)


def main() -> None:
    host, port, authority, token, out = sys.argv[1:]
    client = Client(host, int(port), Path(authority), Path(token).read_text(encoding="utf-8").strip())
    lock = threading.Lock()
    with Path(out).open("wb", buffering=0) as file:
        for kind in KINDS:
            items, version = client.list_with_version(kind)
            for item in items:
                file.write(json.dumps({"type": "ADDED", "received": time.time(), "object": item}).encode() + b"\n")
            threading.Thread(target=follow, args=(client, kind, version, file, lock), daemon=True).start()
        time.sleep(0.5)  # the watches are being opened
        print("ready", flush=True)
        over = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: over.set())
        while not over.wait(0.2):
            pass  # Python handles signals between two waits
        last = {"kind": "End", "metadata": {"name": "", "uid": ""}}
        with lock:
            file.write(json.dumps({"type": "END", "received": time.time(), "object": last}).encode() + b"\n")


if __name__ == "__main__":
    main()
