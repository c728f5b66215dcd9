"""`gfs schedulers` and `gfs parameters`: what there is to choose from."""

from __future__ import annotations

from gfs.cli.console import show

SCHEDULERS_EPILOG = "Example: gfs schedulers"
PARAMETERS_EPILOG = """Examples:

gfs parameters

gfs simulate --jobs jobs.csv --nodes nodes.csv --set quota=fixed --set quota_share=0.3"""


def schedulers() -> None:
    """List the schedulers, built in or added by installed packages, and how each limits spot tasks."""
    from rich.text import Text

    from gfs.assembly.schedulers import list_schedulers
    from gfs.cli.tables import bare_table

    table = bare_table(caption="quota: what limits spot tasks unless --set quota=... is given")
    table.add_column("scheduler", style="bold", no_wrap=True)
    table.add_column("quota", overflow="fold")
    table.add_column("from", overflow="fold")
    table.add_column("what it does", overflow="fold", ratio=1)
    for entry in list_schedulers():
        definition = entry.definition
        quota, words = (definition.quota, definition.summary) if definition else ("-", f"unusable: {entry.problem}")
        table.add_row(Text(entry.name), Text(quota), Text(entry.source), Text(words))
    show(table)


def parameters() -> None:
    """List the parameters of a simulation: name, default, meaning and what is allowed.

    Give them with --set name=value, or in a TOML file (lines of name = value)
    with --config. H is the guarantee: the hours that a spot task is promised to
    run undisturbed. p is the probability that forecasts of HP demand are made
    for. eta is the factor by which eviction feedback corrects the spot quota.
    """
    from rich.text import Text

    from gfs.assembly.parameters import Parameters
    from gfs.cli.tables import bare_table

    table = bare_table(caption="change one with --set name=value, several with --config file.toml")
    table.add_column("parameter", style="bold", no_wrap=True)
    table.add_column("default", justify="right", no_wrap=True)
    table.add_column("meaning [allowed]", overflow="fold")
    for item in Parameters.describe():
        default = f"{item.default:g}" if isinstance(item.default, float) else str(item.default).lower() or "-"
        allowed = f" [{item.allowed}]" if item.allowed else ""
        table.add_row(Text(item.name), Text(default), Text(item.meaning + allowed))
    show(table)
