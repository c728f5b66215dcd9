"""`gfs quota export`: the forecast spot quota for those who keep their own scheduler."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gfs.cli import forecast_options
from gfs.cli.console import note, say
from gfs.cli.forecast_options import DEMAND, FORECAST
from gfs.cli.options import RESULTS, Json, SkipBadRows, examples, file_option, option
from gfs.cli.outputs import JSON, STDOUT, Outputs
from gfs.cli.prometheus_options import PROMETHEUS, Days, Header, Server, TokenFile
from gfs.cli.quota_sources import DemandFiles, DemandServer, DemandSource
from gfs.domain.errors import GfsError, InputError
from gfs.domain.units import format_seconds

if TYPE_CHECKING:
    from gfs.assembly.outside import OutsideQuota, QuotaForecaster
    from gfs.report.quota_export import ExportNames

EPILOG = examples(
    "gfs quota export --as kueue --series demand.csv --nodes nodes.csv --out spot-queue.yaml",
    "gfs quota export --as slurm --jobs jobs.csv --nodes nodes.csv --first-day 2026-05-04 --name scavenger",
    "gfs quota export --as resourcequota --prometheus http://localhost:9090 --namespace batch --out quota.yaml"
    " --watch --apply 'kubectl apply -f quota.yaml'",
)
QUOTA, OTHERS, WATCH = "Quota", "The other scheduler", "Keeping it current"
APPLY_TIMEOUT = 60.0
"""Seconds that a command given by --apply may take."""
OLD = 2 * 3600.0
"""Seconds after which demand of a file counts as old."""


def export(
    format: Annotated[
        str,
        option("--as", "kueue (ClusterQueue), resourcequota (Kubernetes) or slurm (QOS).", OTHERS, metavar="FORMAT"),
    ],
    series: forecast_options.Series = None,
    jobs: forecast_options.TraceJobs = None,
    nodes: Annotated[
        Path | None, file_option("--nodes", "Nodes of the cluster (nodes.csv): how many GPUs there are.", DEMAND)
    ] = None,
    prometheus: Annotated[
        str | None,
        option("--prometheus", "Or: demand and nodes from this Prometheus (kube-state-metrics).", DEMAND, "URL"),
    ] = None,
    first_day: forecast_options.FirstDay = None,
    skip_bad_rows: SkipBadRows = False,
    p: Annotated[
        float,
        option("--p", "Probability that HP demand stays within its forecast.", QUOTA, metavar="P", min=0.5, max=0.999),
    ] = 0.9,
    guarantee: Annotated[
        float,
        option("--guarantee", "Hours for which spot jobs should run undisturbed.", QUOTA, "HOURS", min=0.01, max=168.0),
    ] = 1.0,
    aggregate: Annotated[
        str, option("--aggregate", "How organizations add up: sum-of-peaks, independent or total.", QUOTA, "RULE")
    ] = "sum-of-peaks",
    model: Annotated[
        str, option("--model", "The forecaster; gfs forecast evaluate compares them.", FORECAST, metavar="NAME")
    ] = "orgquantile",
    country: forecast_options.Country = "",
    name: Annotated[
        str, option("--name", "Of the ClusterQueue, the ResourceQuota or the QOS.", OTHERS, metavar="NAME")
    ] = "gfs-spot",
    gpu_model: Annotated[
        list[str] | None, option("--gpu-model", "Only this GPU model; may be repeated.", OTHERS, metavar="MODEL")
    ] = None,
    flavor: Annotated[
        list[str] | None,
        option(
            "--flavor",
            "What a GPU model is called there: ResourceFlavor (by default in lower case) or gres type.",
            OTHERS,
            metavar="MODEL=NAME",
        ),
    ] = None,
    namespace: Annotated[
        str, option("--namespace", "Namespace of the ResourceQuota.", OTHERS, metavar="NAME")
    ] = "default",
    priority_class: Annotated[
        str,
        option(
            "--priority-class", "Whose pods the ResourceQuota counts; '': all of the namespace.", OTHERS, metavar="NAME"
        ),
    ] = "gfs-spot",
    template: Annotated[
        Path | None,
        file_option("--template", "Your own ClusterQueue or ResourceQuota (YAML): only its numbers change.", OTHERS),
    ] = None,
    out: Annotated[Path, file_option("--out", "Where it is written; - prints it.", RESULTS)] = STDOUT,
    json: Json = None,
    watch: Annotated[bool, option("--watch", "Work it out again and again, until Ctrl-C.", WATCH)] = False,
    interval: Annotated[
        float, option("--interval", "Seconds between two times.", WATCH, metavar="SECONDS", min=1.0, max=86400.0)
    ] = 300.0,
    apply: Annotated[
        str | None,
        option("--apply", "Run this shell command whenever the quota has changed.", WATCH, metavar="COMMAND"),
    ] = None,
    spot: Annotated[
        list[str] | None,
        option(
            "--spot",
            "Priority class of spot pods, such as 'batch*'; may be repeated; else guessed by their names.",
            PROMETHEUS,
            metavar="PATTERN",
        ),
    ] = None,
    days: Days = None,
    token_file: TokenFile = None,
    header: Header = None,
    config: Annotated[
        Path | None,
        file_option("--config", "TOML file whose table [live] names classes, labels and GPU resource.", PROMETHEUS),
    ] = None,
) -> None:
    """Write today's forecast spot quota for Kueue, Kubernetes or Slurm.

    HP demand of the coming hours is forecast as gfs does it; what its bound leaves of the GPUs is for spot jobs. Demand
    comes from a file (--series), a trace (--jobs) or a Prometheus. A sentence says where each number comes from.
    """
    from gfs.assembly.outside import QuotaForecaster
    from gfs.assembly.parameters import Parameters
    from gfs.forecasting.history import check_country
    from gfs.forecasting.registry import find_model
    from gfs.live.settings import read_config
    from gfs.report.quota_export import FORMATS, ExportNames

    if format not in FORMATS:
        raise InputError(f"--as {format}: there are {', '.join(FORMATS)}")
    if format == "slurm" and template is not None:
        raise InputError("--template: sacctmgr takes lines, not a manifest; leave it out")
    if watch and jobs is not None:
        raise InputError("--watch: a trace does not grow; give --series with a file that does, or --prometheus")
    if days is not None and prometheus is None:
        raise InputError("--days: only with --prometheus")
    find_model(model)
    check_country(country)
    settings = read_config(config)[0]
    names = ExportNames(name, namespace, priority_class, settings.resource, _flavors(flavor))
    names.check(format)
    parameters = Parameters().changed({"p": p, "aggregate": aggregate, "forecaster": model, "country": country})
    with Outputs(series, jobs, nodes, template, config) as outputs:
        if out != STDOUT:
            outputs.plan(out)
        outputs.plan(json, JSON)
        if json == STDOUT == out:
            raise InputError("--out and --json cannot both be printed: name a file for one of them")
        if prometheus is not None:
            server = Server(prometheus, token_file, tuple(header or ()))
            source: DemandSource = DemandServer(server, days, settings, nodes, tuple(spot or ()))
        else:
            source = DemandFiles(series, jobs, nodes, first_day, skip_bad_rows)
        source.check()
        work = _Export(
            format, names, QuotaForecaster(parameters, guarantee), source, tuple(gpu_model or ()), template, out, json
        )
        if not watch:
            work.once(outputs)
            _apply(apply, out)
            return
    _watch(work, interval, apply)


def _flavors(given: Sequence[str] | None) -> dict[str, str]:
    found = {}
    for text in given or ():
        model, equals, name = text.partition("=")
        if not equals or not model or not name:
            raise InputError(f"--flavor {text}: write MODEL=NAME, such as A100=a100-80gb")
        found[model] = name
    return found


@dataclass(slots=True)
class _Export:
    """One way to work the quota out and write it."""

    format: str
    names: ExportNames
    forecaster: QuotaForecaster
    source: DemandSource
    models: tuple[str, ...]
    template: Path | None
    out: Path
    json: Path | None
    written: tuple[tuple[str, int], ...] | None = None
    """What stands in the file: GPU models and their GPUs."""

    def once(self, outputs: Outputs) -> bool:
        """Work it out and write it; whether the numbers are others than the last time."""
        nodes, past, dated = self.source.read()
        quotas = self._chosen(self.forecaster.quota(nodes, past, dated=dated))
        numbers = tuple((quota.gpu_model, quota.gpus) for quota in quotas)
        if numbers == self.written:
            return False
        text = self._text(quotas)
        tell = note if STDOUT in (self.out, self.json) else say
        for quota in quotas:
            tell(quota.text())
        if self.format == "resourcequota" and len(quotas) > 1:
            tell(f"a ResourceQuota knows no GPU models: it has the sum of {len(quotas)}; --gpu-model chooses one")
        if dated and (age := time.time() - quotas[0].now) > OLD:
            note(f"demand ends {_clock(quotas[0].now)}, {format_seconds(age)} ago: the quota is of then")
        if self.out == STDOUT:
            say(text.rstrip("\n"))
        else:
            from gfs.files import write_text

            outputs.save(self.out, lambda path: write_text(path, text))
        outputs.save_json(self.json, {"quotas": [self._figures(quota) for quota in quotas], "as": self.format})
        self.written = numbers
        return True

    def _chosen(self, quotas: list[OutsideQuota]) -> list[OutsideQuota]:
        known = [quota.gpu_model for quota in quotas]
        if unknown := [model for model in self.models if model not in known]:
            raise InputError(f"--gpu-model {', '.join(unknown)}: there are {', '.join(known)}")
        return [quota for quota in quotas if not self.models or quota.gpu_model in self.models]

    def _text(self, quotas: list[OutsideQuota]) -> str:
        from gfs.report.quota_export import export_text, fill_template

        if self.template is None:
            return export_text(self.format, quotas, self.names)
        try:
            content = self.template.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{self.template}: cannot be read ({error})") from None
        return fill_template(self.format, content, str(self.template), quotas, self.names)

    def _figures(self, quota: OutsideQuota) -> dict[str, object]:
        row = quota.row
        return {
            "gpu_model": quota.gpu_model,
            "gpus": quota.gpus,
            "capacity": quota.capacity,
            "demand_bound": row.demand,
            "demand_expected": row.expected_demand,
            "peak_hour": row.peak_hour,
            "organization": row.organization,
            "p": quota.p,
            "guarantee_hours": row.guarantee_hours,
            "forecaster": row.forecaster,
            "text": quota.text(),
        }


def _watch(work: _Export, interval: float, apply: str | None) -> None:
    """Again and again; what fails is told, the file keeps the last quota, and the next time may do."""
    pending = False
    _say_when(f"works the quota out every {interval:g} s; Ctrl-C ends it")
    try:
        while True:
            began = time.monotonic()
            try:
                pending = work.once(Outputs()) or pending
                if pending:
                    _apply(apply, work.out)
                    pending = False
            except GfsError as error:
                _say_when(f"no new quota: {str(error).splitlines()[0]}; the last one stands")
            time.sleep(max(0.0, interval - (time.monotonic() - began)))
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; the last quota stands") from None


def _apply(command: str | None, out: Path) -> None:
    """Run what the user gave; the file is named in its environment."""
    if command is None:
        return
    environment = {**os.environ, "GFS_QUOTA_FILE": "" if out == STDOUT else str(out.absolute())}
    try:
        done = subprocess.run(command, shell=True, env=environment, timeout=APPLY_TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        raise InputError(f"--apply: {command!r} took longer than {APPLY_TIMEOUT:.0f} s") from None
    if done.returncode:
        raise InputError(f"--apply: {command!r} ended with exit code {done.returncode}")


def _say_when(text: str) -> None:
    note(f"{_clock(time.time())}: {text}")


def _clock(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
