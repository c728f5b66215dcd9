"""`gfs trace convert`: records of other systems into a trace of ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gfs.cli.console import fail, say, show
from gfs.cli.options import Force, Seed, SkipBadRows, TraceFolder, examples, file_option, option
from gfs.cli.outputs import Outputs, check_folder, save_trace
from gfs.cli.prometheus_options import PROMETHEUS, Days, End, Header, Server, Start, Step, TokenFile, parse_range
from gfs.domain.errors import BadRows, InputError

if TYPE_CHECKING:
    from gfs.forecasting.history import DemandHistory
    from gfs.live.settings import LiveSettings
    from gfs.records import Conversion
    from gfs.records.kube_state_metrics import Range

EPILOG = examples(
    "gfs trace convert --from slurm sacct.txt --nodes scontrol.txt --spot 'preempt*' --out my-trace",
    "gfs trace convert --from kubernetes pods.json --nodes nodes.json --out my-trace",
    "gfs trace convert --from prometheus http://localhost:9090 --days 28 --demand demand.csv --out my-trace",
    "gfs trace convert --from csv jobs.csv --nodes nodes.csv --map columns.toml --out my-trace",
    "gfs trace convert --from msr elasticflow/cluster05.csv --spot-share 0.3 --out msr",
)
FORMATS = ("slurm", "kubernetes", "prometheus", "csv", "msr")
SLURM, KUBERNETES, OWN, MSR = (
    "--from slurm",
    "--from kubernetes, --from prometheus",
    "Your own table (--from csv)",
    "Microsoft's trace (--from msr)",
)


def convert(
    out: TraceFolder,
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE|URL", help="The records, or the address of a Prometheus.", show_default=False),
    ] = None,
    format: Annotated[
        str | None,
        option(
            "--from",
            "slurm (sacct), kubernetes (pods as JSON or a watch), prometheus (kube-state-metrics), csv, msr.",
            metavar="FORMAT",
        ),
    ] = None,
    nodes: Annotated[
        Path | None,
        file_option("--nodes", "Nodes: of scontrol show nodes, kubectl get nodes -o json, or a table."),
    ] = None,
    spot: Annotated[
        list[str] | None,
        option(
            "--spot",
            "QOS, partition or priority class of spot jobs, such as 'preempt*'; may be repeated; else guessed.",
            metavar="PATTERN",
        ),
    ] = None,
    skip_bad_rows: SkipBadRows = False,
    timezone: Annotated[
        str, option("--timezone", "Clock of the machine on which sacct ran.", SLURM, metavar="ZONE")
    ] = "UTC",
    start: Start = None,
    end: End = None,
    days: Days = None,
    step: Step = 60.0,
    demand: Annotated[
        Path | None,
        file_option("--demand", "Also write hourly HP demand for gfs forecast --series (.csv).", PROMETHEUS),
    ] = None,
    token_file: TokenFile = None,
    header: Header = None,
    config: Annotated[
        Path | None,
        file_option("--config", "TOML file whose table [live] names classes, labels and GPU resource.", KUBERNETES),
    ] = None,
    columns: Annotated[
        Path | None, file_option("--map", "Which of your columns are which of ours (TOML).", OWN)
    ] = None,
    msr: Annotated[
        Path | None,
        file_option(
            "--msr", "The same as --from msr PATH: repository, raw-traces.tar.gz or cluster file.", MSR, "PATH"
        ),
    ] = None,
    seed: Seed = 0,
    spot_share: Annotated[
        float, option("--spot-share", "Share of the jobs that become spot tasks, 0 to 1.", MSR, metavar="X")
    ] = 0.2,
    load: Annotated[
        float, option("--load", "Mean demand / capacity: decides how many nodes there are.", MSR, metavar="X")
    ] = 0.7,
    force: Force = False,
) -> None:
    """Turn records of Slurm, Kubernetes, Prometheus, any table or Microsoft's trace into jobs.csv and nodes.csv.

    Says what the records left open and was guessed, and what was left out and why. Nothing is written if a row
    cannot be read, unless --skip-bad-rows says so.
    """
    from gfs.cli.trace_input import rows_text, workload_text
    from gfs.report.trace_tables import bad_rows_table

    if msr is not None:
        if file is not None or format not in (None, "msr"):
            raise InputError("--msr PATH stands for --from msr PATH: give one of them")
        file, format = str(msr), "msr"
    if format not in FORMATS:
        given = "say which records these are" if format is None else f"--from {format}: unknown"
        raise InputError(f"{given}: --from {', '.join(FORMATS)}")
    if file is None:
        what = "address of the server" if format == "prometheus" else "file with the records"
        raise InputError(f"--from {format}: name the {what}")
    if demand is not None and format != "prometheus":
        raise InputError(
            f"--demand: only --from prometheus knows more demand than its trace; from {format},"
            " give gfs forecast the trace: --jobs and --nodes"
        )
    if format != "prometheus" and (start or end or days or token_file or header):
        raise InputError(f"--start, --end, --days, --token-file, --header: only with --from prometheus, not {format}")
    if nodes is not None and format == "prometheus":
        raise InputError("--from prometheus: it knows the nodes, too; leave --nodes out")
    patterns, history = tuple(spot or ()), None
    outputs = Outputs(config)
    outputs.plan(demand, (".csv",))
    check_folder(out, ("jobs.csv", "nodes.csv"), force)
    try:
        if format == "prometheus":
            server = Server(file, token_file, tuple(header or ()))
            asked = parse_range(start, end, days, step)
            found, history = _ask(server, asked, patterns, _live_settings(config), demand is not None)
        else:
            msr_options = seed, spot_share, load
            found = _read(
                format,
                Path(file),
                nodes,
                patterns,
                timezone,
                columns,
                skip_bad_rows,
                _live_settings(config),
                msr_options,
            )
    except BadRows as error:
        show(bad_rows_table(error.rows))
        fail(
            f"{rows_text(error.rows)} cannot be used; nothing was written."
            " Correct these rows, or leave them out with --skip-bad-rows."
        )
    save_trace(found.workload, out, ("jobs.csv", "nodes.csv"), force)
    say(f"{found.workload.name}: {workload_text(found.workload)}")
    for guess in found.guesses:
        say(f"guessed: {guess}")
    for reason, count in found.left_out:
        say(f"left out: {count:,} ({reason})")
    if found.first_day is not None:
        say(f"second 0 is {found.first_day} 00:00 UTC: --set first_day={found.first_day} gives weekdays and holidays")
    say(f"wrote {out / 'jobs.csv'} and {out / 'nodes.csv'}")
    if demand is not None and history is not None:
        from gfs.workloads.writer import write_demand

        write_demand(history, demand)
        say(f"wrote {demand}: {len(history.keys)} series of HP demand, {history.hours:,} hours")


def _live_settings(config: Path | None) -> LiveSettings:
    from gfs.live.settings import read_config

    return read_config(config)[0]


def _ask(
    server: Server, asked: Range, spot: tuple[str, ...], settings: LiveSettings, demand: bool
) -> tuple[Conversion, DemandHistory | None]:
    """The trace that a Prometheus remembers, and the demand of the same time if it is wanted."""
    from gfs.cli.progress import bars
    from gfs.cli.prometheus_options import ask

    names = ["pods and nodes", *(["HP demand"] if demand else [])]

    async def read() -> tuple[Conversion, DemandHistory | None]:
        from gfs.records.prometheus import cluster_demand, read_series

        with bars(names, asked.days, unit="days") as running:
            async with server.connect() as prometheus:
                conversion, cluster = await read_series(
                    prometheus, settings, asked, spot, lambda days: running(names[0], days)
                )
                if not demand:
                    return conversion, None
                past = await cluster_demand(prometheus, settings, cluster, asked, lambda days: running(names[1], days))
        if not past.pools:
            raise InputError("--demand: no HP pod asked for GPUs in this time; leave --demand out, or say --spot")
        return conversion, past.history()

    return ask(read)


def _read(
    format: str,
    file: Path,
    nodes: Path | None,
    spot: tuple[str, ...],
    timezone: str,
    columns: Path | None,
    skip_bad_rows: bool,
    settings: LiveSettings,
    msr: tuple[int, float, float],
) -> Conversion:
    from gfs.records import Conversion

    if format == "msr":
        from gfs.workloads import read_msr

        seed, share, load = msr
        return Conversion(read_msr(file, seed=seed, spot_share=share, load=load), None)
    if format == "kubernetes":
        from gfs.records.kubernetes import read_pods

        return read_pods(file, nodes, spot=spot, settings=settings)
    if nodes is None:
        raise InputError(f"--from {format}: give the nodes with --nodes")
    if format == "slurm":
        from gfs.records.conversion import time_zone
        from gfs.records.slurm import read_slurm

        return read_slurm(file, nodes, spot=spot, zone=time_zone(timezone, "--timezone"), skip_bad_rows=skip_bad_rows)
    from gfs.records.mapped import read_mapped

    if columns is None:
        raise InputError("--from csv: say which of your columns are which of ours with --map FILE")
    if spot:
        raise InputError("--from csv: the map says what is spot, under [job_type]; leave --spot out")
    return read_mapped(file, nodes, columns, skip_bad_rows=skip_bad_rows)
