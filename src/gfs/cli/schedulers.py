"""`gfs schedulers`: what there is to choose from."""

from __future__ import annotations

from gfs.cli.console import show

EPILOG = """Example:

gfs schedulers"""


def schedulers() -> None:
    """List the schedulers, a line each: ours and those that installed packages add."""
    from rich.text import Text

    from gfs.assembly.schedulers import list_schedulers
    from gfs.cli.tables import bare_table

    table = bare_table(caption="quota: what limits spot tasks unless --set quota=... is given")
    table.add_column("scheduler", style="bold", no_wrap=True)
    table.add_column("quota", no_wrap=True)
    table.add_column("from", overflow="fold")
    table.add_column("what it does", overflow="fold", ratio=1)
    for entry in list_schedulers():
        recipe = entry.recipe
        quota, words = (recipe.quota, recipe.summary) if recipe else ("-", f"unusable: {entry.problem}")
        table.add_row(Text(entry.name), Text(quota), Text(entry.source), Text(words))
    show(table)
