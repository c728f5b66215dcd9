"""Who may read the pages, whom we trust as API server, and that no secret is ever told."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from gfs.cli.command import WARNINGS
from gfs.cli.live import _log, _Plain
from gfs.cli.prometheus_options import Server
from gfs.dashboard.live_site import LiveDashboard
from gfs.domain.errors import InputError
from gfs.live.api import Api
from gfs.live.connection import is_loopback, read_connection
from gfs.live.prometheus import Prometheus, PrometheusError, check_url
from gfs.live.serve import HttpServer
from gfs.live.service import LiveOptions, Service

TOKEN = "s3cret-t0ken-of-the-reader"
PAGES = ("/", "/metrics", "/api/v1/status", "/api/v1/queue", "/api/v1/pods/lab/p")
PROBES = ("/healthz", "/readyz")


@pytest.fixture
def service() -> Service:
    return Service(LiveOptions())


def ask(service: Service, token: str, *requests: tuple[str, str, dict[str, str]]) -> list[tuple[int, str]]:
    """Statuses and texts of a server with this token."""

    async def main() -> list[tuple[int, str]]:
        server = HttpServer(service, "127.0.0.1:0", token, LiveDashboard(service).routes())
        await server.start()
        told = []
        try:
            async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:
                for method, path, headers in requests:
                    async with session.request(method, path, headers=headers) as answer:
                        told.append((answer.status, await answer.text() + str(dict(answer.headers))))
        finally:
            await server.stop()
        return told

    return asyncio.run(main())


# -- pages ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_nothing_can_be_changed_by_http(service: Service, method: str) -> None:
    told = ask(service, "", *((method, path, {}) for path in (*PAGES, *PROBES)))
    assert [status for status, _ in told] == [405] * len(told)


@pytest.mark.parametrize(
    "shown",
    ["", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN, "Bearer \udcff\xfc"],
)  # fmt: skip
def test_who_shows_no_token_or_another_reads_nothing_but_the_probes(service: Service, shown: str) -> None:
    headers = {"Authorization": shown} if shown else {}
    told = ask(service, TOKEN, *(("GET", path, headers) for path in (*PAGES, "/nowhere", *PROBES)))
    assert [status for status, _ in told] == [401] * 6 + [200, 503], "a replica that does not decide is not ready"
    assert not any(TOKEN in text for _, text in told)


@pytest.mark.parametrize("shown", [f"Bearer {TOKEN}", f"Basic {base64.b64encode(f'me:{TOKEN}'.encode()).decode()}"])
def test_who_shows_the_token_reads(service: Service, shown: str) -> None:
    told = ask(service, TOKEN, *(("GET", path, {"Authorization": shown}) for path in PAGES))
    assert [status for status, _ in told] == [200, 200, 200, 200, 503], "only who decides can explain"
    assert not any(TOKEN in text for _, text in told)


@pytest.mark.parametrize("address", ["0.0.0.0:8080", "[::]:8080", "10.1.2.3:8080", "gfs.example.com:8080"])
def test_beyond_loopback_a_token_is_needed(service: Service, address: str) -> None:
    with pytest.raises(InputError, match="GFS_HTTP_TOKEN"):
        HttpServer(service, address)
    HttpServer(service, address, TOKEN)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback(host: str) -> None:
    assert is_loopback(host)


# -- the API server ------------------------------------------------------------------------------------------


def kubeconfig(folder: Path, server: str, **cluster: Any) -> Path:
    file = folder / "kubeconfig"
    told = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file.write_text(json.dumps(told))
    return file


def connect(file: Path, **options: Any) -> None:
    async def main() -> None:
        async with await Api.connect(file, **options):
            pass

    asyncio.run(main())


@pytest.mark.parametrize(
    ("server", "cluster", "said"),
    [
        ("https://127.0.0.1:1", {"insecure-skip-tls-verify": True}, "the server could be anybody"),
        ("http://kube.example.com:8080", {}, "without TLS"),
    ],
)
def test_a_server_that_could_be_anybody_is_refused_unless_that_is_wanted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, server: str, cluster: Any, said: str
) -> None:
    file = kubeconfig(tmp_path, server, **cluster)
    with pytest.raises(InputError, match=f"{said}.*--insecure-skip-tls-verify"):
        connect(file)
    connect(file, insecure=True)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert said in caplog.text
    assert TOKEN not in caplog.text


@pytest.mark.parametrize("server", ["https://kube.example.com", "http://127.0.0.1:8001", "http://localhost:8001"])
def test_a_server_that_is_verified_or_this_machine_is_trusted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, server: str
) -> None:
    connect(kubeconfig(tmp_path, server))
    assert not caplog.records


def test_a_token_is_not_carried_to_where_a_server_sends_us(tmp_path: Path) -> None:
    shown: list[str] = []

    async def main() -> None:
        async def thief(request: web.Request) -> web.Response:
            shown.append(request.headers.get("Authorization", ""))
            return web.json_response({})

        async def fence(request: web.Request) -> web.Response:
            raise web.HTTPTemporaryRedirect(f"http://127.0.0.1:{ports[1]}/")

        runners, ports = [], []
        for handler in (fence, thief):
            app = web.Application()
            app.router.add_route("*", "/{tail:.*}", handler)
            runners.append(web.AppRunner(app, shutdown_timeout=0.01))
            await runners[-1].setup()
            await web.TCPSite(runners[-1], "127.0.0.1", 0).start()
            ports.append(runners[-1].addresses[0][1])
        async with await Api.connect(kubeconfig(tmp_path, f"http://127.0.0.1:{ports[0]}")) as api:
            with pytest.raises(Exception, match="Temporary Redirect"):
                await api.get("/api/v1/pods")
        for runner in runners:
            await runner.cleanup()

    asyncio.run(main())
    assert not shown


# -- what is told --------------------------------------------------------------------------------------------

SECRET = base64.b64encode(TOKEN.encode()).decode()


@pytest.mark.parametrize(
    "content",
    [
        f"users:\n- user: {{token: {TOKEN}\n",
        f"current-context: {{[\n  token: {TOKEN}",
        f"- {TOKEN}",
        json.dumps({"users": [{"name": "u", "user": {"token": TOKEN}}], "current-context": "x", "contexts": []}),
        json.dumps({"current-context": "x", "contexts": [{"name": "x", "context": TOKEN}], "clusters": []}),
        json.dumps({
            "current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "https://h"}}], "users": [{"name": "u", "token": TOKEN}],
        }),
        json.dumps({
            "current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "https://h", "certificate-authority-data": f"{TOKEN}!"}}],
            "users": [{"name": "u", "user": {"token": TOKEN, "client-certificate-data": TOKEN}}],
        }),
    ],
    ids=["open brace", "no YAML", "a list", "no context", "context of a text", "user without its level", "no base64"],
)  # fmt: skip
def test_what_is_wrong_with_a_kubeconfig_is_said_without_its_secrets(tmp_path: Path, content: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(content)
    with pytest.raises(InputError, match="kubeconfig") as told:
        asyncio.run(read_connection(file))
    assert TOKEN not in str(told.value)
    assert told.value.__suppress_context__ or TOKEN not in str(told.value.__cause__)


def test_a_password_in_the_address_of_prometheus_is_not_told() -> None:
    async def main() -> str:
        async with Prometheus(f"http://reader:{TOKEN}@127.0.0.1:1", "and a token") as server:
            with pytest.raises(PrometheusError) as told:
                await server.query_range("up", 0, 1, 1)
        return str(told.value)

    told = asyncio.run(main())
    assert "http://127.0.0.1:1" in told
    assert TOKEN not in told
    assert TOKEN not in repr(Server(f"http://reader:{TOKEN}@prometheus", None, (f"X-Key: {TOKEN}",)))
    with pytest.raises(InputError) as refused:
        check_url(f"ftp://reader:{TOKEN}@prometheus")
    assert TOKEN not in str(refused.value)


def test_control_characters_in_the_log_are_written_out_and_forge_no_line() -> None:
    record = logging.LogRecord("gfs.live", logging.WARNING, "", 0, "a\x1b[2J\u202eb\n2026-01-01 INFO forged", (), None)
    told = _Plain("%(levelname)s %(message)s").format(record)
    assert "\n" not in told
    assert told.isprintable()


def test_a_warning_of_the_controller_is_printed_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The handler of the other commands prints warnings, too; the log of `gfs live run` takes its place."""
    root, ours = logging.getLogger(), logging.getLogger("gfs")
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(ours, "handlers", [WARNINGS])
    level = root.level
    try:
        _log()
        logging.getLogger("gfs.live").warning("the lease was not renewed")
    finally:
        root.setLevel(level)
    assert capsys.readouterr().err.count("the lease was not renewed") == 1
