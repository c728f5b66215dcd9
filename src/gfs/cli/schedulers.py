"""`gfs schedulers`: what there is to choose from."""

from __future__ import annotations

from gfs.cli.console import show

EPILOG = """Example:

gfs schedulers"""


def schedulers() -> None:
    """List the schedulers, a line each."""
    from rich.text import Text

    from gfs.assembly.schedulers import SCHEDULERS
    from gfs.cli.tables import bare_table

    table = bare_table(caption="quota: what limits spot tasks unless --set quota=none or quota=fixed is given")
    table.add_column("scheduler", style="bold", no_wrap=True)
    table.add_column("quota", no_wrap=True)
    table.add_column("what it does", overflow="fold")
    for name, composition in SCHEDULERS.items():
        table.add_row(Text(name), Text(composition.quota), Text(composition.summary))
    show(table)
