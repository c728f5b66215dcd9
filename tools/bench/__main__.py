"""A cluster to try GFS on: a real control plane on loopback with simulated GPU nodes, until Ctrl-C or SIGTERM.

`make live-bench` runs it, and `python -m bench` where the folder `tools` is on PYTHONPATH.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
import time
from pathlib import Path

from bench import binaries, manifests
from bench.bench import Bench
from bench.cluster import Cluster
from bench.command import run, within
from gfs.cli.console import say
from gfs.cli.start import Ended

NAMESPACE = "lab"
EVERY = 0.5
"""Seconds between two looks at whether all programs still run."""


def main() -> None:
    """Run the bench with the nodes that the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    add = parser.add_argument
    add("--nodes", type=within(int, 1, 1000), default=4, metavar="N", help="how many nodes (%(default)s)")
    add("--gpus", type=within(int, 1, 64), default=8, metavar="N", help="GPUs of each (%(default)s)")
    add("--model", default="A100", metavar="NAME", help="their model (%(default)s)")
    given = parser.parse_args()
    run(lambda: serve(given.nodes, given.gpus, given.model))


def serve(nodes: int, gpus: int, model: str) -> None:
    """Start the bench with its nodes, say what to do with it, wait for a signal, stop the bench."""
    with Bench(say) as bench:
        names = [f"node-{number}" for number in range(1, nodes + 1)]
        Cluster(bench.client, NAMESPACE).add_nodes([manifests.node(name, gpus, model) for name in names])
        job = bench.folder / "job.json"
        job.write_text(json.dumps(manifests.job("train", NAMESPACE, gpus=1, run_for=60), indent=1), encoding="utf-8")
        try:
            _tell(bench.kubeconfig, names, f"{gpus} x {model}", job)
            while True:
                bench.processes.check()
                time.sleep(EVERY)
        except (KeyboardInterrupt, Ended):
            say("stopping the bench")
    say("Nothing is left running.")


def _tell(kubeconfig: Path, nodes: list[str], each: str, job: Path) -> None:
    """Say where the cluster is, what it has, and what to do next."""
    say()
    say(f"kubeconfig: {kubeconfig}")
    say(f"nodes: {', '.join(nodes)} ({each} each)")
    say()
    say("Try in another terminal:")
    for line in _next(kubeconfig, job):
        say(f"  {line}")
    say()
    say("Ctrl-C stops the bench and removes everything in it.")


def _next(kubeconfig: Path, job: Path) -> list[str]:
    """The commands to go on with; each can be copied as it stands."""
    gfs = "gfs" if shutil.which("gfs") else str(Path(sys.executable).with_name("gfs"))
    kubectl = binaries.find(["kubectl"])[0].get("kubectl", Path("kubectl"))
    by_name = shutil.which("kubectl") == str(kubectl)
    flag = f"--kubeconfig {shlex.quote(str(kubeconfig))}"
    ask = f"{'kubectl' if by_name else shlex.quote(str(kubectl))} {flag}"
    return [
        f"{shlex.quote(gfs)} live check {flag}",
        f"{shlex.quote(gfs)} live run {flag}",
        f"{ask} create -f {shlex.quote(str(job))}   # a Job of one GPU for a minute, for gfs live run to place",
        f"{ask} get pods -n {NAMESPACE} -o wide",
    ]


if __name__ == "__main__":
    main()
