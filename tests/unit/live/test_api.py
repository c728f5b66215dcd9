"""The client against a server of our own on loopback: what is tried again, what is not, and how watches end."""

import asyncio
import json
import socket
from types import SimpleNamespace

import aiohttp
import pytest
from aiohttp import web

from gfs.domain.errors import InputError
from gfs.live import api as api_module
from gfs.live.api import Api
from gfs.live.connection import read_connection
from gfs.live.problems import Conflict, Gone, NotFound, NotLeading, TooMany, Unavailable
from waiting import LONGEST


def status(code, **headers):
    return json_answer({"kind": "Status", "message": f"said {code}"}, status=code, headers=headers)


def json_answer(value, **options):
    async def answer(request):
        return web.json_response(value, **options)

    return answer


def text_answer(text):
    async def answer(request):
        return web.Response(text=text, content_type="application/json")

    return answer


class Server:
    """Gives the answers it was told to, in order, the last one for ever, and keeps what it was asked."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    async def handle(self, request):
        self.asked.append((request.method, request.path, dict(request.query), await request.text()))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return await answer(request)


def talk(server, conversation):
    """Run a conversation with a server on loopback; waiting takes no time."""
    waits = []

    async def whole():
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", server.handle)
        runner = web.AppRunner(app, shutdown_timeout=0.01)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]

        async def no_wait(seconds):
            waits.append(seconds)

        async with Api(f"http://127.0.0.1:{port}", aiohttp.ClientSession()) as api:
            api.sleep = no_wait
            try:
                return await conversation(api)
            finally:
                await runner.cleanup()

    return asyncio.run(whole()), waits


def test_a_list_is_read_page_by_page():
    server = Server(
        json_answer({"metadata": {"continue": "more"}, "items": [{"a": 1}]}),
        json_answer({"metadata": {"resourceVersion": "7"}, "items": [{"a": 2}]}),
    )
    (objects, version), _ = talk(server, lambda api: api.list_all("/api/v1/pods"))
    assert (objects, version) == ([{"a": 1}, {"a": 2}], "7")
    assert server.asked[1][2]["continue"] == "more"


def test_a_list_does_not_queue_behind_bindings():
    """All turns are taken by requests without an answer: the list is read all the same, a single read waits."""
    silence = asyncio.Event()

    async def answer(request):
        if request.method == "POST":
            await silence.wait()
        return web.json_response({"items": [], "metadata": {"resourceVersion": "7"}})

    async def conversation(api):
        bindings = [asyncio.create_task(api.create("/api/v1/pods", {})) for _ in range(40)]
        read = asyncio.create_task(api.get("/api/v1/pods/p"))
        while not server.asked:
            await asyncio.sleep(0.01)
        listed = await asyncio.wait_for(api.list_all("/api/v1/pods"), LONGEST)
        assert "/api/v1/pods/p" not in [path for _, path, *_ in server.asked]
        silence.set()
        await asyncio.gather(*bindings, read)
        return listed

    server = Server(answer)
    assert talk(server, conversation)[0] == ([], "7")


def test_reads_are_tried_again():
    server = Server(status(500), status(503), json_answer({"a": 1}))
    answer, waits = talk(server, lambda api: api.get("/x"))
    assert answer == {"a": 1}
    assert waits == [0.1, 0.4]


def test_too_many_requests_wait_as_long_as_the_server_says():
    server = Server(status(429, **{"Retry-After": "3"}), json_answer({}))
    _, waits = talk(server, lambda api: api.create("/api/v1/namespaces/a/events", {"reason": "Scheduled"}))
    assert waits == [3.0]
    assert json.loads(server.asked[1][3])["reason"] == "Scheduled"


@pytest.mark.parametrize(
    ("code", "kind"),
    [(404, NotFound), (409, Conflict), (410, Gone), (429, TooMany), (500, Unavailable)],
    ids=str,
)
def test_a_binding_is_not_tried_again(code, kind):
    server = Server(status(code))
    with pytest.raises(kind, match=f"said {code}"):
        talk(server, lambda api: api.bind("a", "p", "u", "n1", {}))
    assert len(server.asked) == 1


def test_an_overloaded_server_is_not_asked_for_ever():
    server = Server(status(429))
    with pytest.raises(TooMany):
        talk(server, lambda api: api.get("/x"))
    assert len(server.asked) == api_module.TRIES


def test_who_does_not_lead_writes_nothing():
    server = Server(json_answer({"a": 1}))

    async def conversation(api):
        api.may_write = lambda: False
        await api.get("/x")
        with pytest.raises(NotLeading):
            await api.delete("/x", uid="u")

    talk(server, conversation)
    assert [asked[0] for asked in server.asked] == ["GET"]


def lines(*events):
    async def answer(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"".join(json.dumps(event).encode() + b"\n" for event in events))
        return response

    return answer


async def seen(api):
    return [event async for event in api.watch("/api/v1/pods", "5")]


def test_a_watch_gives_events_until_the_server_ends_it():
    server = Server(lines({"type": "ADDED", "object": {"big": "x" * 300_000}}, {"type": "BOOKMARK", "object": {}}))
    events, _ = talk(server, seen)
    assert [kind for kind, _ in events] == ["ADDED", "BOOKMARK"]
    assert server.asked[0][2]["resourceVersion"] == "5"


def test_a_watch_from_too_old_a_version_is_gone():
    server = Server(lines({"type": "ERROR", "object": {"code": 410, "message": "too old"}}))
    with pytest.raises(Gone, match="too old"):
        talk(server, seen)


def test_a_silent_watch_is_given_up(monkeypatch):
    async def silent(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.Event().wait()

    async def quiet(api):
        return [event async for event in api.watch("/api/v1/pods", "1", seconds=0.05)]

    monkeypatch.setattr(api_module, "OVERDUE", 0.05)
    with pytest.raises(Unavailable, match="no answer"):
        talk(Server(silent), quiet)


def test_a_quiet_connection_is_probed():
    with api_module._probed_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 1))) as made:
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 20


def test_it_is_closed_when_its_connections_are():
    """Those of cancelled requests close by themselves, which takes TLS a moment."""

    class Closing:
        def __init__(self, looks):
            self.looks = looks

        def fileno(self):
            self.looks -= 1
            return 5 if self.looks > 0 else -1

    async def story():
        sockets = [Closing(2), Closing(4)]
        async with Api("http://127.0.0.1:1", aiohttp.ClientSession(), sockets=sockets):
            pass
        return [each.looks for each in sockets]

    assert max(asyncio.run(story())) <= 0


def test_the_sockets_of_a_connection_are_known(tmp_path):
    kubeconfig = tmp_path / "config"

    async def ask(api):
        cluster = {"name": "c", "cluster": {"server": api._host}}
        context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
        user = {"name": "u", "user": {"token": "t"}}
        config = {"current-context": "x", "contexts": [context], "clusters": [cluster], "users": [user]}
        kubeconfig.write_text(json.dumps(config))
        async with await Api.connect(kubeconfig) as connected:
            await connected.get("/api")
            sockets = list(connected._sockets)
        return [each.fileno() for each in sockets]

    assert talk(Server(json_answer({})), ask)[0] == [-1]


@pytest.mark.parametrize("text", ["no: [yaml", "", "clusters: 5", "[]"], ids=["broken", "empty", "wrong", "list"])
def test_a_bad_kubeconfig_is_named(tmp_path, text):
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(InputError, match="cannot be used as a kubeconfig"):
        asyncio.run(read_connection(path))


def test_no_cluster_at_all(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(InputError, match="--kubeconfig FILE"):
        asyncio.run(read_connection())


@pytest.mark.parametrize(
    "answer",
    [json_answer({"kind": "Status"}), json_answer("half"), text_answer('{"items": [{"a"')],
    ids=["status", "text", "half"],
)
def test_an_answer_that_is_no_list_does_not_mean_that_there_is_nothing(answer):
    with pytest.raises(Unavailable):
        talk(Server(answer), lambda api: api.list_all("/api/v1/pods"))


def test_whoever_asks_again_by_himself_hears_at_once_that_it_was_too_much():
    """The lease: whoever waited for half a minute, as it is told here, would have lost it."""
    waits = []

    async def conversation(api):
        async def no_wait(seconds):
            waits.append(seconds)

        async with Api(api._host, api._session, tries=1) as lease:
            lease.sleep = no_wait
            with pytest.raises(TooMany):
                await lease.get("/lease")

    server = Server(status(429, **{"Retry-After": "30"}))
    talk(server, conversation)
    assert (waits, len(server.asked)) == ([], 1)


def test_the_time_of_day_is_that_of_the_api_server(monkeypatch):
    """Ours was set back by an hour: a mark of that time would count as stale at once."""
    ours = SimpleNamespace(time=lambda: 1_000_000_000.0, monotonic=lambda: 500.0)
    monkeypatch.setattr(api_module, "time", ours)
    seen = []

    async def conversation(api):
        seen.append(api.wall())
        await api.get("/x")
        ours.monotonic = lambda: 507.0
        seen.append(api.wall())

    talk(Server(json_answer({}, headers={"Date": "Sun, 09 Sep 2001 02:46:40 GMT"})), conversation)
    assert seen == [1_000_000_000.0, 1_000_003_607.0]
