"""`gfs live`: run GFS on a Kubernetes cluster, check that it can, and ask a running one."""

from __future__ import annotations

import asyncio
import json as json_text
import logging
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Coroutine
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from gfs.cli.command import WARNINGS
from gfs.cli.console import note, say, show
from gfs.cli.options import Json, examples, file_option, option
from gfs.cli.outputs import JSON, STDOUT, Outputs
from gfs.domain.errors import GfsError, InputError
from gfs.domain.text import printable
from gfs.gc_paused import collect_seldom

if TYPE_CHECKING:
    from gfs.live.service import LiveOptions

CLUSTER, DECIDING, OUTPUT = "Cluster", "Deciding", "What it keeps and tells"
DEFAULT_HTTP = "127.0.0.1:8080"

Kubeconfig = Annotated[
    Path | None,
    file_option("--kubeconfig", "How to reach the cluster; by default as kubectl does, or from inside it.", CLUSTER),
]
Insecure = Annotated[
    bool,
    option("--insecure-skip-tls-verify", "Trust whoever answers as API server, as a kubeconfig asks for.", CLUSTER),
]
Context = Annotated[str | None, option("--context", "Context of the kubeconfig.", CLUSTER, metavar="NAME")]
Config = Annotated[Path | None, file_option("--config", "TOML file with the tables [live] and [parameters].", DECIDING)]
Http = Annotated[str, option("--http", "Where a running controller serves.", CLUSTER, metavar="ADDR")]

RUN_EPILOG = examples(
    "gfs live check && gfs live run --state /var/lib/gfs --record /var/lib/gfs/log",
    "gfs live run --shadow --config gfs.toml   (binds nothing)",
)
CHECK_EPILOG = examples("gfs live check --kubeconfig ~/.kube/config")
STATUS_EPILOG = examples("gfs live status", "gfs live status --http 127.0.0.1:9000 --json -")
EXPLAIN_EPILOG = examples("gfs live explain research/train-7", "gfs live explain research/train-7 --json -")


def need_live() -> None:
    """The Kubernetes packages are an extra."""
    try:
        import aiohttp  # noqa: F401
        import kubernetes_asyncio  # noqa: F401
        import prometheus_client  # noqa: F401
    except ImportError as error:
        raise InputError(f"gfs live needs more packages: pip install 'gfs-scheduler[live]' ({error})") from error


def run(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: Config = None,
    settings: Annotated[
        list[str] | None,
        option("--set", "Change a parameter; may be repeated.", DECIDING, metavar="KEY=VALUE"),
    ] = None,
    shadow: Annotated[
        bool, option("--shadow", "Decide and tell, but bind and evict nothing: beside another scheduler.", DECIDING)
    ] = False,
    state: Annotated[
        Path | None,
        file_option(
            "--state", "Folder for what a restart goes on from: evictions, demand, model.", OUTPUT, metavar="DIR"
        ),
    ] = None,
    record: Annotated[
        Path | None, file_option("--record", "Folder for the event log and the trace.", OUTPUT, metavar="DIR")
    ] = None,
    prometheus: Annotated[
        str | None,
        option(
            "--prometheus", "Read the demand of the last weeks there (kube-state-metrics).", DECIDING, metavar="URL"
        ),
    ] = None,
    http: Annotated[
        str,
        option("--http", "Serve the page, /metrics and the probes here; 'off': nowhere.", OUTPUT, metavar="ADDR"),
    ] = DEFAULT_HTTP,
    elect: Annotated[bool, option("--elect/--no-elect", "Take part in the election of a leader.", CLUSTER)] = True,
    speed: Annotated[
        float, option("--speed", "Let time run faster, for demonstrations.", DECIDING, metavar="N", min=1.0, max=1e5)
    ] = 1.0,
    insecure: Insecure = False,
) -> None:
    """Schedule the pods of a cluster that name gfs-scheduler, until Ctrl-C or SIGTERM.

    Pods with the priority class gfs-hp are never evicted; those with gfs-spot run inside the spot quota and make room
    for them. What runs is never touched when GFS stops. gfs live check says first whether the cluster is ready.
    """
    need_live()
    from gfs.assembly.parameters import parse_settings
    from gfs.live.prometheus import check_url
    from gfs.live.service import LiveOptions
    from gfs.live.settings import read_config

    live, parameters = read_config(config, dict(parse_settings(settings or [])))
    if prometheus is not None:
        live = msgspec.structs.replace(live, prometheus=prometheus)
    if live.prometheus:
        check_url(live.prometheus)
    options = LiveOptions(live, parameters, kubeconfig, context, shadow, state, record, speed, elect, insecure)
    _log()
    _run(_serve(options, http))


def _log() -> None:
    """Tell on standard error what is done; control characters in names and answers are written out."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Plain("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("gfs").removeHandler(WARNINGS)  # the log has them, with their time


class _Plain(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (its name)
        return printable(super().formatMessage(record), keep="")


async def _serve(options: LiveOptions, http: str) -> None:
    """Run a replica until it is told to stop."""
    from gfs.dashboard.live_site import LiveDashboard
    from gfs.live.serve import HttpServer
    from gfs.live.service import Service

    collect_seldom()
    service = Service(options)
    server = None
    if http != "off":
        page = LiveDashboard(service)
        server = HttpServer(service, http, os.environ.get("GFS_HTTP_TOKEN", ""), page.routes())
    work = asyncio.create_task(service.run())
    loop = asyncio.get_running_loop()
    for stop in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(stop, work.cancel)
    try:
        if server is not None:
            await server.start()
            note(f"serves on port {server.port}")
        await work
    except asyncio.CancelledError:
        note("stopped; what runs goes on")
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        if server is not None:
            await server.stop()


def check(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: Config = None,
    shadow: Annotated[
        bool, option("--shadow", "Check only what --shadow needs: no rights to bind or evict.", DECIDING)
    ] = False,
    insecure: Insecure = False,
    json: Json = None,
) -> None:
    """Say whether a cluster is ready: rights, nodes and GPU models, priority classes, what would be taken over.

    Exit code 0 for yes, 1 for no.
    """
    need_live()
    from gfs.live.settings import read_config

    live, _ = read_config(config)
    with Outputs(config) as outputs:
        outputs.plan(json, JSON)
        findings, refused = _run(_check(kubeconfig, context, live, shadow, insecure))
        ready = all(finding.fine for finding in findings)
        if json != STDOUT:
            _show_findings(findings, refused)
            say("Yes: gfs live run can begin." if ready else "No: see what is marked above.")
        outputs.save_json(json, {"ready": ready, "findings": findings, "refused": refused})
    if not ready:
        raise typer.Exit(1)


async def _check(kubeconfig: Path | None, context: str | None, settings: Any, shadow: bool, insecure: bool) -> Any:
    from gfs.live.api import Api
    from gfs.live.check import check_cluster

    async with await Api.connect(kubeconfig, context=context, insecure=insecure) as api:
        namespace = os.environ.get("POD_NAMESPACE") or settings.lease_namespace
        return await check_cluster(api, settings, namespace, shadow=shadow)


def _show_findings(findings: Any, refused: Any) -> None:
    from gfs.report.table import Column, DataTable

    rows = [[finding.what, "yes" if finding.fine else "NO", finding.says] for finding in findings]
    show(DataTable([Column("what", left=True), Column("fine", left=True), Column("found", wrap=True)], rows, names=0))
    for pod, why in refused[:20]:
        say(f"  {pod}: {why}")


def status(http: Http = DEFAULT_HTTP, json: Json = None) -> None:
    """Ask a running controller for its pools: GPUs, tasks that run and wait, the spot quota and why."""
    from gfs.report.table import Column, DataTable

    with Outputs() as outputs:
        outputs.plan(json, JSON)
        told = _ask(http, "api/v1/status")
        if json != STDOUT:
            rows = []
            for pool in told["pools"]:
                gpus, tasks = pool["gpus"], pool["tasks"]
                quota = " ".join(f"{row['quota']:g}/{row['guarantee_hours']:g}h" for row in pool["quota"])
                counts = [f"{tasks[label]['running']}+{tasks[label]['waiting']}" for label in ("HP", "Spot")]
                rows.append(
                    [pool["pool"], f"{pool['nodes']}", f"{gpus['total']}", f"{gpus['idle']}", *counts, quota or "none"]
                )
            names = ("pool", "nodes", "GPUs", "idle", "HP run+wait", "spot run+wait", "spot quota")
            show(DataTable([Column(name, left=name == "pool") for name in names], rows, names=0))
            for pool in told["pools"]:
                if pool["caution"]:
                    say(f"pool {pool['pool']}: {pool['caution']}.")
            if told["history"]:
                say(f"{told['history']}.")
            say(f"{told['leader'] or 'nobody'} leads; {told['refused']} pods are refused.")
        outputs.save_json(json, told)


def explain(
    pod: Annotated[str, typer.Argument(metavar="NAMESPACE/POD", help="A pod as kubectl names it.")],
    http: Http = DEFAULT_HTTP,
    json: Json = None,
) -> None:
    """Tell the life of a pod's task: when it waited, ran, was evicted or lost and why, and how the pod stands now.

    The past comes from the event log of gfs live run --record, the present from the running controller.
    """
    namespace, slash, name = pod.partition("/")
    if not slash or not namespace or not name or "/" in name:
        raise InputError(f"{pod}: give namespace and pod, such as research/train-7")
    with Outputs() as outputs:
        outputs.plan(json, JSON)
        told = _ask(http, f"api/v1/pods/{namespace}/{name}")
        if json != STDOUT:
            for key, value in told.items():
                if key != "life" and value not in ("", None, False):
                    say(f"{key}: {_moment(value) if key == 'submitted' else value}")
            _show_life(told)
        outputs.save_json(json, told)


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _show_life(told: dict[str, Any]) -> None:
    import msgspec

    from gfs.cli.explain import life_in_short, life_table
    from gfs.telemetry.metrics_life import TaskStep

    steps = msgspec.convert(told.get("life", ()), list[TaskStep])  # a newer controller may tell more of a step
    if steps:
        say()
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        show(life_table(steps, f"{told['task']} (times are UTC)", epoch, seconds=False, ongoing="until now"))
        say()
        say(life_in_short(steps, "has not finished"))


def _ask(address: str, what: str) -> Any:
    """An answer of a running controller."""
    from urllib.parse import quote

    headers = {"Authorization": f"Bearer {token}"} if (token := os.environ.get("GFS_HTTP_TOKEN")) else {}
    url = f"http://{address}/{quote(what)}"
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
            return json_text.loads(answer.read())
    except urllib.error.HTTPError as error:
        said = error.read().decode(errors="replace").strip()
        with suppress(ValueError, TypeError, KeyError):
            said = json_text.loads(said)["error"]
        raise InputError(f"{url}: {said or error.reason}") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{url}: no controller answers there ({error}); name it by --http") from error


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run to the end; what the API server refuses is a plain error."""
    try:
        return asyncio.run(work)
    except* GfsError as group:
        raise group.exceptions[0] from None
