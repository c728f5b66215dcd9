"""How soon after each fault a pod is bound again: the figures of docs/concepts/service-levels.md."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count

from world import Begin, World, wait_for

from bench import manifests
from bench.client import path
from bench.cluster import Cluster

LEASE = 15.0
"""Seconds, the default."""
AWAY = 4.0
"""Seconds that a server is away: less than the lease, so the leader stays."""
SLACK = 20.0
"""Seconds beyond what is promised: room for busy cores, and none for a time-out of a minute that nobody thought of."""
START = 5.0
"""Seconds in which a process starts and has read all lists."""
BROKEN = ("watch cut", "watch 410", "watch 429")
PAUSE = 3.0
"""Seconds until a watch that broke is taken up again, at most."""


class Recovery:
    """Strikes, submits a pod, and takes the time until it is bound."""

    def __init__(self, world: World, lab: Cluster) -> None:
        self.world, self.lab, self.bench = world, lab, world.bench
        self.numbers = count(1)

    def bound_after(self, since: float) -> float:
        """Submit a pod now; the seconds from a moment until it is bound."""
        name = f"p{next(self.numbers)}"
        self.world.create(manifests.pod(name, self.lab.namespace, priority_class="gfs-hp", gpus=1, run_for=1.0))
        where = path("pods", self.lab.namespace, name)
        wait_for(lambda: self.world.client.get(where)["spec"].get("nodeName"), 120, f"{name} is not bound")
        return time.monotonic() - since

    def server_killed(self) -> float:
        self.bench.processes.stop("kube-apiserver")
        time.sleep(AWAY)
        self.bench.processes.start_again("kube-apiserver")
        self.world.insist(lambda: self.world.client.get("/readyz"))
        return self.bound_after(time.monotonic())

    def etcd_paused(self) -> float:
        self.bench.processes.pause("etcd")
        time.sleep(AWAY)
        self.bench.processes.resume("etcd")
        return self.bound_after(time.monotonic())

    def watches_broken(self) -> float:
        self.world.proxy.rates = dict.fromkeys(BROKEN, 0.2)
        with suppress(TimeoutError):
            self.bound_after(time.monotonic())
        self.world.proxy.calm()
        return self.bound_after(time.monotonic())

    def leader_killed(self) -> float:
        since, leader = time.monotonic(), self.world.leader()
        self.world.replicas.stop(leader)
        took = self.bound_after(since)
        self.world.replicas.start_again(leader)
        return took

    def leader_stopped(self) -> float:
        since, leader = time.monotonic(), self.world.leader()
        assert self.world.replicas.end(leader, 30) == 0
        took = self.bound_after(since)
        self.world.replicas.start_again(leader)
        return took

    def leader_paused(self) -> float:
        since, leader = time.monotonic(), self.world.leader()
        self.world.replicas.pause(leader)
        took = self.bound_after(since)
        self.world.replicas.resume(leader)
        return took

    def all_killed(self) -> float:
        """No replica is left, and the lease is that of a dead one."""
        since, names = time.monotonic(), self.world.replicas.names()
        self.world.replicas.stop()
        for name in names:
            self.world.replicas.start_again(name)
        return self.bound_after(since)

    def cases(self) -> Iterator[tuple[str, Callable[[], float], float]]:
        """What strikes, and what is promised."""
        takeover = LEASE + LEASE / 7.5
        yield "API server killed", self.server_killed, PAUSE
        yield "etcd paused", self.etcd_paused, PAUSE
        yield "watches broken", self.watches_broken, PAUSE
        yield "leader stopped", self.leader_stopped, LEASE / 7.5
        yield "leader killed", self.leader_killed, takeover
        yield "leader paused", self.leader_paused, takeover
        yield "leader killed, and the other replica", self.all_killed, takeover + START


def test_how_soon_pods_are_bound_again(begin: Begin) -> None:
    """Measured from when the server is back, or from when the leader is gone."""
    with begin() as world:
        world.lease = LEASE
        lab = world.cluster("lab")
        lab.add_nodes([manifests.node(f"{world.name}-n{i}", gpus=8) for i in range(2)])
        for name in ("one", "two"):
            world.run_replica(name)
        world.wait_leader("one", "two")
        recovery = Recovery(world, lab)
        print(f"\nundisturbed: bound after {recovery.bound_after(time.monotonic()):.1f} s")
        late = {}
        for fault, strike, promised in recovery.cases():
            world.injections.note(fault)
            took = strike()
            time.sleep(2.0)  # whoever came back stands by again
            print(f"{fault}: bound after {took:.1f} s; promised {promised:g} s")
            if took > promised + SLACK:
                late[fault] = took
        assert not late
        world.drain(30)
