"""The `gfs` command: its parts put together."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Annotated

import typer

from gfs.cli import (
    compare,
    demo,
    explain,
    forecast_backtest,
    forecast_evaluate,
    forecast_predict,
    listings,
    live,
    plan,
    quota_export,
    reproduce,
    simulate,
    sweep,
    trace_check,
    trace_convert,
    trace_generate,
    trace_inspect,
    view,
)
from gfs.cli.command import NOTHING_WRITTEN, WARNINGS, Command, CommandGroup
from gfs.cli.console import INTERRUPTED, note, prepare_streams
from gfs.cli.start import SIGNALS, open_missing_streams
from gfs.version import __version__

app = typer.Typer(
    name="gfs",
    cls=CommandGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="New here? Run: gfs demo. Every command explains itself: gfs simulate --help",
)


def _group(help: str, epilog: str, cls: type[CommandGroup] = CommandGroup) -> typer.Typer:
    return typer.Typer(cls=cls, no_args_is_help=True, rich_markup_mode="rich", help=help, epilog=epilog)


trace = _group(
    "Make, check, look at and convert traces (jobs and nodes).",
    "Example: gfs trace generate --preset demo --out my-trace",
)
forecast = _group(
    "Forecast the GPU demand of organizations, and measure how good forecasts are.",
    "Example: gfs forecast predict --jobs jobs.csv --nodes nodes.csv",
)
lives = _group(
    r"Run GFS as a scheduler on a Kubernetes cluster (needs gfs-scheduler\[live]).",
    "Example: gfs live check --kubeconfig ~/.kube/config",
)
quota = _group(
    "The forecast spot quota for clusters that keep their own scheduler.",
    "Example: gfs quota export --as kueue --series demand.csv --nodes nodes.csv",
)
sweeps = _group(
    "Many runs over a grid or a sample of parameters: gfs sweep FILE.toml --out DIR.", sweep.EPILOG, sweep.SweepGroup
)


def _add(group: typer.Typer, name: str, run: Callable[..., None], epilog: str | None = None) -> None:
    group.command(name, cls=Command, epilog=epilog)(run)


_add(app, "demo", demo.demo, demo.EPILOG)
_add(app, "simulate", simulate.simulate, simulate.EPILOG)
_add(app, "compare", compare.compare, compare.EPILOG)
_add(app, "explain", explain.explain, explain.EPILOG)
_add(app, "view", view.view, view.EPILOG)
_add(app, "reproduce", reproduce.reproduce, reproduce.EPILOG)
app.add_typer(sweeps, name="sweep")
_add(app, "plan", plan.plan, plan.EPILOG)
app.add_typer(lives, name="live")
app.add_typer(trace, name="trace")
app.add_typer(forecast, name="forecast")
app.add_typer(quota, name="quota")
_add(app, "schedulers", listings.schedulers, listings.SCHEDULERS_EPILOG)
_add(app, "parameters", listings.parameters, listings.PARAMETERS_EPILOG)
_add(lives, "run", live.run, live.RUN_EPILOG)
_add(lives, "check", live.check, live.CHECK_EPILOG)
_add(lives, "status", live.status, live.STATUS_EPILOG)
_add(lives, "explain", live.explain, live.EXPLAIN_EPILOG)
_add(sweeps, "run", sweep.run, sweep.EPILOG)
_add(sweeps, "show", sweep.show_results, sweep.EPILOG)
_add(trace, "generate", trace_generate.generate, trace_generate.EPILOG)
_add(trace, "check", trace_check.check, trace_check.EPILOG)
_add(trace, "inspect", trace_inspect.inspect, trace_inspect.EPILOG)
_add(trace, "convert", trace_convert.convert, trace_convert.EPILOG)
_add(forecast, "predict", forecast_predict.predict, forecast_predict.EPILOG)
_add(forecast, "backtest", forecast_backtest.backtest, forecast_backtest.EPILOG)
_add(forecast, "evaluate", forecast_evaluate.evaluate, forecast_evaluate.EPILOG)
_add(quota, "export", quota_export.export, quota_export.EPILOG)


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
    """Run guaranteed and preemptible GPU work on the same GPUs: simulate, compare, plan, schedule on Kubernetes."""
    logging.getLogger("gfs").addHandler(WARNINGS)  # adding it again changes nothing


def main() -> None:
    """Run a command, and end this process with its exit code."""
    open_missing_streams()
    prepare_streams()
    command = typer.main.get_command(app)
    try:
        SIGNALS.listen()
        command()
    except KeyboardInterrupt:  # before the command was read, or after it was done
        SIGNALS.raise_no_more()
        note(NOTHING_WRITTEN)
        os._exit(INTERRUPTED)
    except SystemExit as end:
        SIGNALS.raise_no_more()
        if SIGNALS.number is not None:
            os._exit(end.code if isinstance(end.code, int) else 1)  # no thread and no full pipe can hold it
        raise


if __name__ == "__main__":
    main()
