"""`gfs schedulers` and `gfs parameters`: what there is to choose from."""

from __future__ import annotations

from gfs.cli.console import show
from gfs.cli.options import examples

SCHEDULERS_EPILOG = examples("gfs schedulers")
PARAMETERS_EPILOG = examples(
    "gfs parameters", "gfs simulate --jobs jobs.csv --nodes nodes.csv --set quota=fixed --set quota_share=0.3"
)


def schedulers() -> None:
    """List the schedulers, built in or added by installed packages, and how each limits spot tasks."""
    from gfs.assembly.schedulers import list_schedulers
    from gfs.report.table import Column, DataTable

    rows = []
    for entry in list_schedulers():
        definition = entry.definition
        quota, words = (definition.quota, definition.summary) if definition else ("-", f"unusable: {entry.problem}")
        rows.append([entry.name, quota, entry.source, words])
    columns = [Column(name, left=True) for name in ("scheduler", "quota", "from")]
    note = "quota: what limits spot tasks unless --set quota=... is given"
    show(DataTable([*columns, Column("what it does", wrap=True)], rows, note=note))


def parameters() -> None:
    """List the parameters of a simulation: name, default, meaning and what is allowed.

    Give them with --set name=value, or in a TOML file (lines of name = value) with --config. H is the guarantee: the
    hours that a spot task is promised to run undisturbed. p is the probability that forecasts of HP demand are made
    for. eta is the factor by which eviction feedback corrects the spot quota.
    """
    from gfs.assembly.parameters import Parameters
    from gfs.report.table import Column, DataTable

    rows = []
    for item in Parameters.describe():
        default = f"{item.default:g}" if isinstance(item.default, float) else str(item.default).lower() or "-"
        allowed = f" [{item.allowed}]" if item.allowed else ""
        rows.append([item.name, default, item.meaning + allowed])
    columns: list[Column | str] = ["parameter", Column("default"), Column("meaning [allowed]", wrap=True)]
    show(DataTable(columns, rows, note="change one with --set name=value, several with --config file.toml"))
