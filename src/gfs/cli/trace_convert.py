"""`gfs trace convert`: traces of other formats into ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from gfs.cli.console import fail, say, show
from gfs.cli.options import Force, Seed, TraceFolder, examples, file_option, option
from gfs.cli.outputs import save_trace
from gfs.domain.errors import BadRows

EPILOG = examples("gfs trace convert --msr elasticflow/cluster05.csv --spot-share 0.3 --out msr")


def convert(
    msr: Annotated[
        Path,
        file_option(
            "--msr",
            "Microsoft's trace as published with ElasticFlow: repository, raw-traces.tar.gz or cluster file.",
            metavar="PATH",
        ),
    ],
    out: TraceFolder,
    seed: Seed = 0,
    spot_share: Annotated[
        float, option("--spot-share", "Share of the jobs that become spot tasks, 0 to 1.", metavar="X")
    ] = 0.2,
    load: Annotated[
        float, option("--load", "Mean demand / capacity: decides how many nodes there are.", metavar="X")
    ] = 0.7,
    force: Force = False,
) -> None:
    """Turn Microsoft's trace (ElasticFlow format) into jobs.csv and nodes.csv.

    The format knows neither spot tasks nor nodes. A hash of the seed and the job decides whether it is spot, so other
    jobs do not matter. There are as many nodes of 8 GPUs as --load asks for.
    """
    from gfs.cli.trace_input import rows_text, workload_text
    from gfs.report.trace_tables import bad_rows_table
    from gfs.workloads import read_msr

    try:
        workload = read_msr(msr, seed=seed, spot_share=spot_share, load=load)
    except BadRows as error:
        show(bad_rows_table(error.rows))
        fail(f"{rows_text(error.rows)} cannot be used; nothing was written. Correct these rows.")
    save_trace(workload, out, ("jobs.csv", "nodes.csv"), force)
    say(f"{msr.name}: {workload_text(workload)}")
    say(f"wrote {out / 'jobs.csv'} and {out / 'nodes.csv'}")
