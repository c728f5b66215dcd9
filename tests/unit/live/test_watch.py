"""A mirror against a server of our own on loopback: what is repeated, lost or broken off is made up for."""

import asyncio
import json
from functools import partial

import aiohttp
from aiohttp import web

from gfs.live import watch
from gfs.live.api import Api
from gfs.live.watch import Reflector, known_path
from waiting import LONGEST

PODS = partial(known_path, "/api/v1/pods")
SILENT = "a watch that the server does not accept, nor refuse"


def thing(name, version, **more):
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version), **more}}


class Cluster:
    """Objects, and what each watch tells of them: a list of lines, or a status."""

    def __init__(self, *lists, watches):
        self.lists, self.watches, self.asked = list(lists), list(watches), []

    async def handle(self, request):
        if "watch" not in request.query:
            version, objects = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
            return web.json_response({"metadata": {"resourceVersion": str(version)}, "items": objects})
        self.asked.append(request.query["resourceVersion"])
        told = self.watches.pop(0) if self.watches else None
        if told == SILENT:
            await asyncio.Event().wait()
        if isinstance(told, int):
            return web.json_response({"message": "no"}, status=told)
        answer = web.StreamResponse()
        await answer.prepare(request)
        for kind, item in told or ():
            await answer.write(json.dumps({"type": kind, "object": item}).encode() + b"\n")
        if told is None:
            await asyncio.Event().wait()  # for ever
        return answer


def mirror(cluster, until, find=PODS, woken=lambda: None, **options):
    """Mirror until it is so; the names it has then, and what it told."""
    told = []

    async def whole():
        runner = web.ServerRunner(web.Server(cluster.handle), shutdown_timeout=0.01)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        async with Api(f"http://127.0.0.1:{runner.addresses[0][1]}", aiohttp.ClientSession()) as api:

            def changed(before, after):
                name, version = ((after or before)["metadata"][key] for key in ("name", "resourceVersion"))
                told.append((name, version if after else "gone"))

            reflector = Reflector(api, find, changed, woken, **options)
            following = asyncio.create_task(reflector.run())
            async with asyncio.timeout(LONGEST):
                while not until(reflector):
                    await asyncio.sleep(0.01)
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await runner.cleanup()
            return sorted(name for _, name in reflector.objects)

    return asyncio.run(whole()), told


def test_events_of_the_past_are_passed_over():
    past, present = thing("a", 11), thing("a", 12)
    cluster = Cluster(
        (10, []),
        watches=[
            [("ADDED", past), ("MODIFIED", present), ("ADDED", past), ("MODIFIED", present)],
            [("DELETED", thing("a", 13)), ("MODIFIED", present), ("ADDED", thing("b", 14))],
        ],
    )
    names, told = mirror(cluster, lambda reflector: ("", "b") in reflector.objects)
    assert told == [("a", "11"), ("a", "12"), ("a", "gone"), ("b", "14")]
    assert names == ["b"]
    assert cluster.asked[:2] == ["10", "12"], "it is taken up where it ended"


def test_what_was_lost_on_the_way_is_made_up_for_when_the_list_is_read_again():
    """Nobody told that a has gone and b has come: after the resync it is known."""
    clock = iter(range(1000))
    cluster = Cluster((10, [thing("a", 5)]), (20, [thing("b", 15)]), watches=[[], None])
    names, told = mirror(
        cluster, lambda reflector: ("", "b") in reflector.objects, resync=3.0, monotonic=lambda: float(next(clock))
    )
    assert told == [("a", "5"), ("a", "gone"), ("b", "15")]
    assert names == ["b"]


def test_it_is_current_only_while_a_watch_is_open():
    woken, seen = [], []

    def until(reflector):
        seen.append((len(woken), reflector.current.is_set()))
        return len(woken) == 2

    cluster = Cluster((10, []), watches=[[("ADDED", thing("a", 11))], 500, 503, None])
    mirror(cluster, until, woken=lambda: woken.append(len(cluster.asked)))
    assert woken == [1, 4], "told when it follows, and when it follows again after two refusals"
    assert (1, False) in seen


def test_a_watch_that_the_server_ends_in_a_burst_goes_on_at_once():
    """It told something: nothing is wrong, and decisions go on."""
    woken = []
    watches = [[("ADDED", thing(name, 11 + i))] for i, name in enumerate("abc")]
    cluster = Cluster((10, []), watches=[*watches, None])
    names, _ = mirror(
        cluster, lambda reflector: len(cluster.asked) == 4, woken=lambda: woken.append(len(cluster.asked))
    )
    assert names == ["a", "b", "c"]
    assert woken == [1], "it was current all the time"


def test_it_is_not_current_while_the_server_does_not_answer_to_the_next_watch():
    """A load balancer takes the connection, and nothing is behind it: decisions would go by what was long ago."""
    cluster = Cluster((10, []), watches=[[("ADDED", thing("a", 11))], SILENT])
    mirror(cluster, lambda reflector: len(cluster.asked) == 2 and not reflector.current.is_set())


def test_decisions_go_on_while_a_kind_that_is_absent_is_looked_for_again(monkeypatch):
    """Most clusters have no PodGroups of scheduler-plugins. They are looked for every minute."""
    monkeypatch.setattr(watch, "ABSENT", 0.0)
    looks, woken, clock = [], [], iter(range(1000))

    async def find():
        looks.append("")
        return "" if len(looks) < 5 else await PODS()

    mirror(
        Cluster((10, [thing("a", 5)]), watches=[None]),
        lambda reflector: reflector.objects and reflector.current.is_set(),
        find=find,
        woken=lambda: woken.append(len(looks)),
        monotonic=lambda: float(next(clock)),
    )
    assert woken == [1, 5], "it was current from the first look on, until the kind was there and had to be read"


def test_an_unexpected_error_does_not_end_it():
    """A credential program fails once, for example. The list is read again, for nobody knows what was missed."""
    failures = [ZeroDivisionError("by accident")]

    def woken():
        if failures:
            raise failures.pop()

    cluster = Cluster((10, []), (20, [thing("b", 15)]), watches=[None, None])
    names, _ = mirror(cluster, lambda reflector: reflector.current.is_set() and reflector.objects, woken=woken)
    assert names == ["b"]


def test_a_kind_that_the_server_offers_in_another_version_is_found_again():
    """After an upgrade of the control plane the old path is gone; then the kind itself."""
    paths = ["/old", "/new", ""]

    async def find():
        return paths.pop(0)

    cluster = Cluster((10, [thing("a", 5)]), (20, [thing("b", 15)]), watches=[404, 404])
    names, told = mirror(cluster, lambda reflector: reflector.current.is_set() and not reflector.objects, find=find)
    assert told == [("a", "5"), ("a", "gone"), ("b", "15"), ("b", "gone")]
    assert names == []
