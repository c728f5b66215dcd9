"""`gfs live demo`: a real control plane without machines, a synthetic day, and GFS deciding."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from gfs.cli.console import say
from gfs.cli.options import Force, Seed, examples, file_option, option
from gfs.cli.outputs import check_folder, make_folder

EPILOG = examples("gfs live demo --out live-demo-output", "gfs live demo --force --set quota=none   (more evictions)")

FILES = ("events.csv", "jobs.csv", "nodes.csv", "watch.jsonl", "gfs.toml")


def live_demo(
    out: Annotated[
        Path, file_option("--out", "Folder for the logs and the trace; created if need be.", metavar="DIR")
    ] = Path("live-demo-output"),
    nodes: Annotated[int, option("--nodes", "Nodes of 8 GPUs.", metavar="N", min=4, max=500)] = 24,
    seconds: Annotated[
        float, option("--seconds", "How long work is submitted.", metavar="S", min=10, max=3600)
    ] = 120.0,
    hours: Annotated[
        float, option("--hours", "The hours of the trace that are played in this time.", metavar="H", min=1, max=72)
    ] = 18.0,
    settings: Annotated[
        list[str] | None,
        option("--set", "Change a parameter, such as quota=none; may be repeated.", metavar="KEY=VALUE"),
    ] = None,
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """Run GFS on a real Kubernetes control plane on this machine, with simulated nodes.

    Gets etcd, kube-apiserver, kube-controller-manager and KWOK (found, fetched or built: minutes, once), starts them
    on loopback, submits Jobs, gangs and bare pods of several organizations, lets gfs live run decide, and stops
    everything it started. Writes the event log, the trace and a recorded watch.
    """
    from gfs.cli.live import need_live

    need_live()
    from gfs.assembly.parameters import parse_settings
    from gfs.files import record_ours
    from gfs.live.bench.demo import Demo, run_demo
    from gfs.live.settings import read_config

    read_config(None, dict(parse_settings(settings or [])))  # what is wrong is said before anything is started
    check_folder(out, FILES, force)
    make_folder(out)
    for name in FILES:  # logs are appended to
        (out / name).unlink(missing_ok=True)
    began = time.monotonic()
    tally = run_demo(Demo(out, nodes, hours, seconds, seed, settings or ()), say)
    record_ours(out, FILES)
    say()
    done = f"{tally.submitted} tasks submitted, {tally.bound} pods bound, {tally.finished} finished"
    say(f"{done}, {tally.evicted} evicted. Nothing is left running. It took {time.monotonic() - began:.0f} s.")
    if tally.withdrawn:
        why = "bare pods that were evicted, and what had not finished by the end"
        say(f"{tally.withdrawn} of the tasks count as withdrawn: {why}.")
    say(f"In {out}: events.csv (what was decided), jobs.csv and nodes.csv (the trace),")
    say("watch.jsonl (what the API server said) and a log of each program.")
