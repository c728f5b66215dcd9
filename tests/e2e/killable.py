"""`gfs` as a process that can be killed at every step of its writing.

Each line of its input is a JSON object: a folder, the words of a command, how many steps to let pass (null: all), how
many bytes a file may have (null: any). A fork of this process, so that nothing is imported again, runs the command in
the folder and kills itself (SIGKILL) right before the next step: opening a file in the folder to write, renaming,
removing, changing its mode, making a folder. The answer is a line: exit status, negative for a signal; steps taken;
what it said. Clocks that measure stand still, so that results are the same to the last byte.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from typing import Any

time.process_time = time.perf_counter = lambda: 0.0

import gfs.cli.main  # noqa: E402

STEPS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod"}


def is_step(folder: str, event: str, words: tuple[Any, ...]) -> bool:
    """Whether something in the folder is about to change."""
    if event not in STEPS and not (event == "open" and isinstance(words[2], int)):
        return False
    if event == "open" and not words[2] & (os.O_WRONLY | os.O_RDWR):
        return False
    return isinstance(words[0], str | bytes) and os.path.abspath(os.fsdecode(words[0])).startswith(folder)


def run(order: dict[str, Any], said: int) -> None:
    """In the fork: the command, up to the step before which it is killed."""
    taken, folder, allowed, limit = 0, order["folder"], order["steps"], order["limit"]

    def step(event: str, about: tuple[Any, ...]) -> None:
        nonlocal taken
        if is_step(folder, event, about):
            if taken == allowed:
                os.kill(os.getpid(), signal.SIGKILL)
            taken += 1
            os.write(said, b"\0")

    os.chdir(folder)
    os.dup2(said, 1)
    os.dup2(said, 2)
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    sys.addaudithook(step)
    command(order["words"])


def command(words: list[str]) -> None:
    """Run a command in this process."""
    sys.argv = ["gfs", *words]
    gfs.cli.main.main()


def warm_up(order: dict[str, Any]) -> None:
    """Run a command in this process: what it imports and keeps in memory, its forks will have."""
    streams, screen, errors = (sys.stdout, sys.stderr), os.dup(1), os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.chdir(order["folder"])
    try:
        command(order["words"])
    except SystemExit as done:
        status = done.code
    os.chdir("/")
    os.dup2(screen, 1)
    os.dup2(errors, 2)
    sys.stdout, sys.stderr = streams
    print(json.dumps([status, 0, ""]), flush=True)


def main() -> None:
    """Answer line by line."""
    for line in sys.stdin:
        order = json.loads(line)
        if order["warm_up"]:
            warm_up(order)
            continue
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            run(order, writing)
            return
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            said = pipe.read()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        text = said.replace(b"\0", b"").decode(errors="replace")
        print(json.dumps([status, said.count(b"\0"), text]), flush=True)


if __name__ == "__main__":
    main()
