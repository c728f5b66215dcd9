"""`gfs forecast evaluate`: how good the forecasters are on demand that has come already."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from gfs.cli.console import note, say, show
from gfs.cli.names import parse_names
from gfs.cli.options import TRACE, Json, SkipBadRows
from gfs.cli.outputs import STDOUT, Outputs
from gfs.domain.errors import InputError
from gfs.version import __version__

EPILOG = """Examples:

gfs forecast evaluate --jobs jobs.csv --nodes nodes.csv

gfs forecast evaluate --series demand.csv --models persistence,seasonal-168 --horizon 8 --json scores.json"""

DEMAND = "Demand"
EVALUATION = "Evaluation"
WINDOW = 672
"""Four weeks: L of the paper."""


def evaluate(
    series: Annotated[
        Path | None,
        typer.Option(
            "--series",
            metavar="FILE",
            readable=False,
            help="Hourly demand: time,organization,gpu_model,gpus, or one column a series.",
            rich_help_panel=DEMAND,
        ),
    ] = None,
    jobs: Annotated[
        Path | None,
        typer.Option(
            "--jobs",
            metavar="FILE",
            readable=False,
            help="Or: jobs of a trace, whose HP demand is taken.",
            rich_help_panel=TRACE,
        ),
    ] = None,
    nodes: Annotated[
        Path | None,
        typer.Option("--nodes", metavar="FILE", readable=False, help="Nodes of the trace.", rich_help_panel=TRACE),
    ] = None,
    skip_bad_rows: SkipBadRows = False,
    hours: Annotated[
        str | None,
        typer.Option(
            "--hours", metavar="START:END", help="Use only these hours of the demand.", rich_help_panel=DEMAND
        ),
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(
            "--models",
            metavar="A,B,C",
            help="Forecasters to set side by side; by default all that are installed.",
            rich_help_panel=EVALUATION,
        ),
    ] = None,
    window: Annotated[
        int,
        typer.Option(
            "--window",
            metavar="N",
            min=1,
            help="Hours that forecasters with a window of fixed length look back.",
            rich_help_panel=EVALUATION,
        ),
    ] = WINDOW,
    horizon: Annotated[
        int,
        typer.Option("--horizon", metavar="N", min=1, help="Hours that are forecast.", rich_help_panel=EVALUATION),
    ] = 4,
    split: Annotated[
        str,
        typer.Option(
            "--split",
            metavar="A,B,C",
            help="Shares of the hours for training, validation and test, in this order.",
            rich_help_panel=EVALUATION,
        ),
    ] = "0.7,0.1,0.2",
    json: Json = None,
) -> None:
    """Measure forecasters on demand that has come already.

    Each is fitted once on what comes before the test part. Then every hour of the
    test part is taken as now: the next hours are forecast and compared with what came.
    """
    from gfs.cli.bars import bars
    from gfs.cli.forecast_input import history_text, read_history
    from gfs.cli.forecast_table import score_tables
    from gfs.forecasting.evaluation import origins_of_test, roll
    from gfs.forecasting.registry import find_model

    names = _names(models)
    parts = _parts(split)
    given = [path for path in (series, jobs, nodes) if path is not None]
    with Outputs(*given) as outputs:
        outputs.plan(json)
        chosen = [find_model(name) for name in names]
        if window != WINDOW and not any(model.windowed for model in chosen):
            note("--window changes nothing: none of these forecasters looks at a window of fixed length")
        estimators = {model.name: model.load(window) for model in chosen}
        history = read_history(series, jobs, nodes, hours=hours, skip_bad_rows=skip_bad_rows)
        origins = origins_of_test(history, horizon, parts)
        scores = {}
        with bars(names, len(origins), unit="hours") as running:
            for name, estimator in estimators.items():
                progress = partial(running.update, name)
                scores[name] = roll(estimator, history, horizon=horizon, split=parts, progress=progress).scores()
        if json != STDOUT:
            say(f"{given[0].name}: {history_text(history)}")
            say(f"{len(origins):,} forecasts of {horizon} h, from hour {origins.start} on")
            say()
            show(*score_tables(scores))
        outputs.save_json(
            json,
            {
                "models": {name: figures.to_dict() for name, figures in scores.items()},
                "source": given[0].name,
                "series": len(history.keys),
                "hours": [history.start, history.end],
                "test_hours": [origins.start, history.end],
                "window": window,
                "horizon": horizon,
                "split": parts,
                "version": __version__,
            },
        )


def _names(text: str | None) -> list[str]:
    """The forecasters in a list like 'persistence,weekly-peak', each known and named once."""
    from gfs.forecasting.registry import MODELS, find_model

    if text is None:
        return [name for name, model in MODELS.items() if not model.extra]
    none = "no forecaster to evaluate: name at least one, for example --models persistence"
    return parse_names(text, "forecaster", find_model, none)


def _parts(text: str) -> tuple[float, float, float]:
    """'0.7,0.1,0.2' as three numbers."""
    try:
        train, validation, test = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"split {text!r}: write three shares, for example 0.7,0.1,0.2") from None
    return train, validation, test
