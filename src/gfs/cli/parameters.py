"""`gfs parameters`: what `--set` and a TOML file can change."""

from __future__ import annotations

from gfs.cli.console import show

EPILOG = """Example:

gfs simulate --jobs jobs.csv --nodes nodes.csv --set quota=fixed --set beta=1"""


def parameters() -> None:
    """List the parameters of a simulation: name, default, meaning.

    Give them with --set name=value, or in a TOML file (lines of name = value)
    with --config.
    """
    from rich.text import Text

    from gfs.assembly.parameters import Parameters
    from gfs.cli.tables import bare_table

    table = bare_table(caption="change one with --set name=value, several with --config file.toml")
    table.add_column("parameter", style="bold", no_wrap=True)
    table.add_column("default", justify="right", no_wrap=True)
    table.add_column("meaning", overflow="fold")
    for name, default, meaning in Parameters.describe():
        table.add_row(Text(name), Text(default), Text(meaning))
    show(table)
