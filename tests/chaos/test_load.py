"""GFS under load: a flood of pods, an hour of churn made faster, and a storm in which HP asks for the whole pool.

`GFS_LOAD=full` is 1,000 nodes and 20,000 pods; without it a tenth, which shows the same in a few minutes. Bounds are
counts. CPU seconds are printed beside those of the API server; `benchmarks/live.py` compares them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from loading import Loaded, Usage, Watcher, memory_of, nodes, quantile

import needs
from bench import manifests
from bench.bench import Bench
from bench.client import Manifest
from bench.recorder import Recorder
from gfs.policies.gfs.scoring import KEPT_EMPTY

AUDIT = needs.SHARED / "tools" / "audit_cluster.py"
FULL = os.environ.get("GFS_LOAD") == "full"
NODES, PODS = (1000, 20_000) if FULL else (100, 2_000)
GPUS = 8 * NODES
SPOT = GPUS - 8 * int(KEPT_EMPTY * NODES)
"""GPUs that spot pods may have: the last empty nodes are for HP."""
CHURN = PODS // 2
"""Pods that come and go in the hour, which passes in a minute."""
SPACE = "load"
PATIENCE = 3600.0 if FULL else 900.0
"""Seconds for everything to come to an end: no bound, but where a hang is seen."""
MIB = 2**20


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    needs.bench_programs()
    folder = tmp_path_factory.mktemp("load")
    watcher, watch = Watcher(), folder / "watch.jsonl"
    with Bench() as bench:
        with Recorder(bench.client, watch, listener=watcher):
            bench.client.create("namespaces", manifests.namespace(SPACE))
            loaded = Loaded(bench, folder, watcher)
            loaded.create(nodes(NODES))
            with loaded.controller():
                yield loaded
        if AUDIT.exists():
            words = [sys.executable, str(AUDIT), "--watch", str(watch), "--gang-seconds", "120"]
            audited = subprocess.run(words, capture_output=True, text=True, check=False)
            print(f"judged from outside: {audited.stdout.splitlines()[-1]}")
            assert audited.returncode == 0, audited.stdout[-4000:] + audited.stderr


def pods(name: str, count: int, **pod: object) -> list[Manifest]:
    return [manifests.pod(f"{name}-{i}", SPACE, grace=1, **pod) for i in range(count)]  # type: ignore[arg-type]


def check_spent(before: Usage, after: Usage, requests: float) -> None:
    """What the controller spent on the pods that it bound.

    One instant decides at most 500 tasks; it must not take so long that a lease of 15 s could not be renewed, which is
    to happen every 5 s.
    """
    cpu, bound = after.since(before), after.counted(before, "gfs_pods_bound_total")
    asked = after.counted(before, "gfs_api_requests_total") / bound
    decided, seconds = (after.counted(before, f"gfs_{name}_total") for name in ("decisions", "decision_seconds"))
    print(
        f"bound {bound:.0f} pods with {asked:.2f} requests and {1000 * cpu['gfs'] / bound:.1f} ms of CPU each;", end=" "
    )
    print(f"CPU seconds: {', '.join(f'{name} {value:.1f}' for name, value in cpu.items())}")
    print(
        f"{decided:.0f} instants decided, {1000 * seconds / decided:.1f} ms each, the longest {after.longest:.2f} s;",
        end=" ",
    )
    print(f"memory {after.memory / MIB:.0f} MiB")
    assert asked <= requests
    assert after.longest < 5.0


def test_a_flood(loaded: Loaded) -> None:
    """Two and a half pods for every GPU, as fast as the API server takes them: bare pods of both classes, gangs of
    four, and one Job of many pods. Each runs for a few seconds. All are bound, none twice, and end.

    Requests: its binding and the event of it; while it waits a condition and an event of a first and perhaps of a
    second reason; a victim is marked, deleted, and both sides get an event, its taker a nominated node: 2 + 4 + 5 at
    most, and as many victims as pods there cannot be.
    """
    watcher, bare, gangs, jobs = loaded.watcher, PODS * 7 // 10, PODS // 20, PODS // 10
    flood = pods("flood-spot", bare // 2, run_for=5)
    flood += pods("flood-hp", bare - bare // 2, run_for=5, priority_class="gfs-hp")
    for i in range(gangs):
        flood += pods(f"flood-gang-{i}", 4, group=f"flood-gang-{i}", run_for=5)
    loaded.create([manifests.pod_group(f"flood-gang-{i}", SPACE, 4) for i in range(gangs)])
    before, began = loaded.usage(), time.monotonic()
    loaded.create([manifests.job("flood-job", SPACE, pods=jobs, indexed=True, run_for=5, grace=1)])
    took = loaded.create(flood)
    print(f"\n{len(flood)} pods were created in {took:.0f} s, {len(flood) / took:.0f} a second;", end=" ")
    watcher.wait(lambda: len(watcher.named("flood-")) >= PODS and not watcher.alive(), PATIENCE)
    done = loaded.bench.client.wait(
        "jobs", lambda all: all["flood-job"]["status"].get("succeeded") == jobs, SPACE, PATIENCE
    )
    assert done, "those of its pods that were evicted came again"
    after, flooded = loaded.usage(), watcher.named("flood-")
    print(f"all {len(flooded)} had ended after {time.monotonic() - began:.0f} s")
    never = {name: watcher.pods[uid] for name, uid in watcher.uids.items() if not watcher.pods[uid].node}
    for name in [name for name, seen in never.items() if name.startswith("flood-gang-") and seen.marks]:
        del never[name]  # a gang goes whole: a victim before all of it was bound
    assert not never, f"each was bound: {never}"
    check_spent(before, after, 11)
    loaded.remove_done()


def test_an_hour_of_churn(loaded: Loaded) -> None:
    """Pods come and go at a steady pace in a pool with room for all: the last are bound as soon as the first, and
    memory does not grow once it is warm.

    Memory: what is kept of a task that is over is its name's hash in the event log and its part in the histories, some
    hundred bytes; Python's own fragments may be some MiB. So 1 KiB a pod and 4 MiB in all bound what could be a leak: a
    pod as the API server sends it takes more than 10 KiB.
    """
    watcher, batch, rounds = loaded.watcher, max(CHURN // 60, 1), 60
    before, start, memory = loaded.usage(), time.monotonic(), list[int]()
    for i in range(rounds):
        began = time.monotonic()
        loaded.create(pods(f"churn-{i}", batch, run_for=2))
        loaded.remove_done()
        memory.append(memory_of(loaded.process.pid))
        time.sleep(max(0.0, began + 1.0 - time.monotonic()))
    watcher.wait(lambda: not watcher.alive(), PATIENCE)
    loaded.remove_done()
    after = loaded.usage()
    waits = [[seen.bound - seen.came for i in some for seen in watcher.named(f"churn-{i}-")] for some in thirds(rounds)]
    print(f"\n{batch * rounds} pods in {time.monotonic() - start:.0f} s; seconds until bound, median and p99:", end=" ")
    print("; ".join(f"{quantile(some, 0.5):.2f}, {quantile(some, 0.99):.2f}" for some in waits))
    warm, last = (
        min(memory[i] for i in some) for some in thirds(rounds)[1:]
    )  # least: a list read again comes and goes
    grown, later = last - warm, batch * rounds // 3
    print(f"memory: {warm / MIB:.1f} MiB in the second third, {last / MIB:.1f} in the last", end=" ")
    print(f"({grown / later:.0f} bytes for each of {later} pods)")
    assert quantile(waits[2], 0.5) <= 3 * quantile(waits[0], 0.5) + 1.0, "the watch does not lag behind"
    assert grown <= 4 * MIB + 1024 * later
    check_spent(before, after, 11)  # what was still to be said of the flood counts here


def thirds(rounds: int) -> list[range]:
    return [range(i * rounds // 3, (i + 1) * rounds // 3) for i in range(3)]


def test_a_storm(loaded: Loaded) -> None:
    """All that spot may have is full of spot pods of one GPU; HP pods ask for the whole pool at once. Each victim is
    evicted once, each HP pod bound once, nobody else goes, and then there is quiet.

    Requests for an HP pod and its victim: the binding and its event, two sentences with their events, a nominated node;
    mark, deletion and an event on either side: 2 + 4 + 1 + 4.
    """
    watcher = loaded.watcher
    loaded.create(pods("calm", SPOT))
    watcher.wait(lambda: sum(bool(seen.node) for seen in watcher.named("calm-")) == SPOT, PATIENCE)
    before, began = loaded.usage(), time.monotonic()
    loaded.create(pods("storm", GPUS, priority_class="gfs-hp"))
    watcher.wait(lambda: sum(bool(seen.node) for seen in watcher.named("storm-")) == GPUS, PATIENCE)
    print(f"\n{GPUS} HP pods had the place of {SPOT} spot pods after {time.monotonic() - began:.0f} s")
    calm = loaded.until_quiet(PATIENCE)  # all answers have come, and all is said that was still to be said
    victims = watcher.named("calm-")
    assert all(seen.marks == 1 and (seen.over or seen.gone) for seen in victims)
    assert calm.counted(before, "gfs_pods_evicted_total") == SPOT, "each is deleted once"
    assert calm.counted(before, "gfs_pods_bound_total") == GPUS
    assert calm.counted(before, "gfs_bindings_refused_total") == 0
    check_spent(before, calm, 11)
    assert not [seen for seen in watcher.named("storm-") if seen.gone or seen.marks]


def test_back_after_being_killed(loaded: Loaded) -> None:
    """The pool is full of HP pods when the controller is killed. Then some of them end: when it is back, pods that had
    waited take their places, and nothing else happens to anybody.

    CPU until it decides: some 2 s for a start of Python, then a list of all pods, of which each is read in well under a
    millisecond: 5 s and a millisecond a pod.
    """
    watcher, few = loaded.watcher, 20
    loaded.create(pods("late", few, priority_class="gfs-hp"))  # spot pods would leave empty nodes alone
    watcher.wait(lambda: len(watcher.named("late-")) == few, PATIENCE)
    loaded.kill()
    freed = [{"metadata": {"namespace": SPACE, "name": f"storm-{i}"}} for i in range(few)]
    loaded.delete(freed)
    began = time.monotonic()
    loaded.start()
    ready, spent = time.monotonic() - began, loaded.usage().cpu["gfs"]
    watcher.wait(lambda: all(seen.node for seen in watcher.named("late-")), PATIENCE)
    took, calm = time.monotonic() - began, loaded.until_quiet(PATIENCE)
    print(f"\nkilled with {GPUS} pods running: decided again after {ready:.1f} s ({spent:.1f} CPU seconds),", end=" ")
    print(f"the pods that waited were bound after {took:.1f} s")
    assert spent <= 5.0 + 0.001 * GPUS
    assert calm.metrics["gfs_pods_bound_total"] == few
    assert sum(bool(seen.gone) for seen in watcher.named("storm-")) == few
    assert not any(seen.marks for seen in (*watcher.named("storm-"), *watcher.named("late-")))
