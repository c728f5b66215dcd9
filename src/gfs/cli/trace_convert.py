"""`gfs trace convert`: records of other systems into a trace of ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gfs.cli.console import fail, say, show
from gfs.cli.options import Force, Seed, SkipBadRows, TraceFolder, examples, file_option, option
from gfs.cli.outputs import save_trace
from gfs.domain.errors import BadRows, InputError

if TYPE_CHECKING:
    from gfs.workloads.records import Conversion

EPILOG = examples(
    "gfs trace convert --from slurm sacct.txt --nodes scontrol.txt --spot 'preempt*' --out my-trace",
    "gfs trace convert --from kubernetes pods.json --nodes nodes.json --out my-trace",
    "gfs trace convert --from csv jobs.csv --nodes nodes.csv --map columns.toml --out my-trace",
    "gfs trace convert --from msr elasticflow/cluster05.csv --spot-share 0.3 --out msr",
)
FORMATS = ("slurm", "kubernetes", "csv", "msr")
SLURM, OWN, MSR = "--from slurm", "Your own table (--from csv)", "Microsoft's trace (--from msr)"


def convert(
    out: TraceFolder,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The records.", readable=False, show_default=False)
    ] = None,
    format: Annotated[
        str | None,
        option(
            "--from", "slurm (sacct), kubernetes (pods as JSON, or a watch), csv (any table), msr.", metavar="FORMAT"
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
    """Turn records of Slurm, Kubernetes, any table or Microsoft's trace into jobs.csv and nodes.csv.

    Says what the records left open and was guessed, and what was left out and why. Nothing is written if a row
    cannot be read, unless --skip-bad-rows says so.
    """
    from gfs.cli.trace_input import rows_text, workload_text
    from gfs.report.trace_tables import bad_rows_table

    if msr is not None:
        if file is not None or format not in (None, "msr"):
            raise InputError("--msr PATH stands for --from msr PATH: give one of them")
        file, format = msr, "msr"
    if format not in FORMATS:
        given = "say which records these are" if format is None else f"--from {format}: unknown"
        raise InputError(f"{given}: --from {', '.join(FORMATS)}")
    if file is None:
        raise InputError(f"--from {format}: name the file with the records")
    try:
        found = _read(
            format, file, nodes, tuple(spot or ()), timezone, columns, skip_bad_rows, (seed, spot_share, load)
        )
    except BadRows as error:
        show(bad_rows_table(error.rows))
        fail(
            f"{rows_text(error.rows)} cannot be used; nothing was written."
            " Correct these rows, or leave them out with --skip-bad-rows."
        )
    save_trace(found.workload, out, ("jobs.csv", "nodes.csv"), force)
    say(f"{file.name}: {workload_text(found.workload)}")
    for guess in found.guesses:
        say(f"guessed: {guess}")
    for reason, count in found.left_out:
        say(f"left out: {count:,} ({reason})")
    if found.first_day is not None:
        say(f"second 0 is {found.first_day} 00:00 UTC: --set first_day={found.first_day} gives weekdays and holidays")
    say(f"wrote {out / 'jobs.csv'} and {out / 'nodes.csv'}")


def _read(
    format: str,
    file: Path,
    nodes: Path | None,
    spot: tuple[str, ...],
    timezone: str,
    columns: Path | None,
    skip_bad_rows: bool,
    msr: tuple[int, float, float],
) -> Conversion:
    from gfs.workloads.records import Conversion

    if format == "msr":
        from gfs.workloads import read_msr

        seed, share, load = msr
        return Conversion(read_msr(file, seed=seed, spot_share=share, load=load), None)
    if format == "kubernetes":
        from gfs.live.pod_records import read_pods

        return read_pods(file, nodes, spot=spot)
    if nodes is None:
        raise InputError(f"--from {format}: give the nodes with --nodes")
    if format == "slurm":
        from gfs.workloads.records.conversion import time_zone
        from gfs.workloads.records.slurm import read_slurm

        return read_slurm(file, nodes, spot=spot, zone=time_zone(timezone, "--timezone"), skip_bad_rows=skip_bad_rows)
    from gfs.workloads.records.mapped import read_mapped

    if columns is None:
        raise InputError("--from csv: say which of your columns are which of ours with --map FILE")
    if spot:
        raise InputError("--from csv: the map says what is spot, under [job_type]; leave --spot out")
    return read_mapped(file, nodes, columns, skip_bad_rows=skip_bad_rows)
