"""The `gfs` command: its parts put together."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gfs.cli import (
    compare,
    demo,
    explain,
    forecast_backtest,
    forecast_evaluate,
    forecast_predict,
    parameters,
    plan,
    reproduce,
    schedulers,
    simulate,
    sweep,
    trace_check,
    trace_convert,
    trace_generate,
    trace_inspect,
)
from gfs.cli.console import INTERRUPTED, forgive_encodings
from gfs.cli.guard import NOTHING_WRITTEN, GuardedGroup
from gfs.version import __version__

app = typer.Typer(
    name="gfs",
    cls=GuardedGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    epilog="New here? Run: gfs demo. Every command explains itself: gfs simulate --help",
)
trace = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Make, check, look at and convert traces (jobs and nodes).",
    epilog="Example: gfs trace generate --preset demo --out my-trace",
)
forecast = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Forecast the GPU demand of organizations, and measure how good forecasts are.",
    epilog="Example: gfs forecast predict --jobs jobs.csv --nodes nodes.csv",
)

sweeps = typer.Typer(
    cls=sweep.SweepGroup,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Many runs over a grid or a sample of parameters: gfs sweep FILE.toml --out DIR.",
    epilog=sweep.EPILOG,
)

app.command("demo", epilog=demo.EPILOG)(demo.demo)
app.command("simulate", epilog=simulate.EPILOG)(simulate.simulate)
app.command("compare", epilog=compare.EPILOG)(compare.compare)
app.command("explain", epilog=explain.EPILOG)(explain.explain)
app.command("reproduce", epilog=reproduce.EPILOG)(reproduce.reproduce)
app.add_typer(sweeps, name="sweep")
app.command("plan", epilog=plan.EPILOG)(plan.plan)
app.add_typer(trace, name="trace")
app.add_typer(forecast, name="forecast")
app.command("schedulers", epilog=schedulers.EPILOG)(schedulers.schedulers)
app.command("parameters", epilog=parameters.EPILOG)(parameters.parameters)
sweeps.command("run")(sweep.run)
sweeps.command("show")(sweep.show_results)
trace.command("generate", epilog=trace_generate.EPILOG)(trace_generate.generate)
trace.command("check", epilog=trace_check.EPILOG)(trace_check.check)
trace.command("inspect", epilog=trace_inspect.EPILOG)(trace_inspect.inspect)
trace.command("convert", epilog=trace_convert.EPILOG)(trace_convert.convert)
forecast.command("predict", epilog=forecast_predict.EPILOG)(forecast_predict.predict)
forecast.command("backtest", epilog=forecast_backtest.EPILOG)(forecast_backtest.backtest)
forecast.command("evaluate", epilog=forecast_evaluate.EPILOG)(forecast_evaluate.evaluate)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gfs {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Run guaranteed and preemptible GPU work on the same cards: simulate, compare, explain."""


def main() -> None:
    """What the `gfs` command runs."""
    forgive_encodings()
    try:
        app()
    except KeyboardInterrupt:  # before a command began
        typer.echo(NOTHING_WRITTEN, err=True)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
