"""`gfs forecast evaluate`: how good the forecasters are on demand that has come already."""

from __future__ import annotations

from gfs.cli import forecast_options
from gfs.cli.console import say, show
from gfs.cli.options import Json, SkipBadRows, examples
from gfs.cli.outputs import JSON, STDOUT, Outputs
from gfs.version import __version__

EPILOG = examples(
    "gfs forecast evaluate --jobs jobs.csv --nodes nodes.csv",
    "gfs forecast evaluate --series demand.csv --models persistence,seasonal-168 --horizon 8 --json scores.json",
)


def evaluate(
    series: forecast_options.Series = None,
    jobs: forecast_options.TraceJobs = None,
    nodes: forecast_options.TraceNodes = None,
    events: forecast_options.Events = None,
    skip_bad_rows: SkipBadRows = False,
    hours: forecast_options.Hours = None,
    first_day: forecast_options.FirstDay = None,
    models: forecast_options.Models = None,
    window: forecast_options.LookBack = forecast_options.WINDOW,
    country: forecast_options.Country = "",
    horizon: forecast_options.Horizon = forecast_options.HORIZON,
    split: forecast_options.Split = forecast_options.SPLIT,
    json: Json = None,
) -> None:
    """Measure forecasters on demand that has come already.

    Each is fitted once on what comes before the test part. Then every hour of the test part is taken as now: the next
    hours are forecast and compared with what was asked for.
    """
    from gfs.cli.forecast_options import (
        DemandOptions,
        load_models,
        note_idle_options,
        parse_models,
        parse_split,
        roll_models,
        rolled_text,
    )
    from gfs.forecasting.evaluation import origins_of_test
    from gfs.report.score_columns import score_tables

    names, parts = parse_models(models), parse_split(split)
    demand = DemandOptions(series, jobs, nodes, events, hours, first_day, skip_bad_rows)
    with Outputs(*demand.files) as outputs:
        outputs.plan(json, JSON)
        estimators = load_models(names, window, country)
        history = demand.read()
        note_idle_options(names, window, country, history)
        origins = origins_of_test(history, horizon, parts)
        rolling = roll_models(estimators, history, horizon=horizon, split=parts)
        scores = {name: rolled.scores() for name, rolled in rolling}
        if json != STDOUT:
            say(rolled_text(demand.name, history, origins, horizon))
            say()
            show(*score_tables(scores))
        outputs.save_json(
            json,
            {
                "models": scores,
                "source": demand.name,
                "series": len(history.keys),
                "hours": [history.start, history.end],
                "test_hours": [origins.start, history.end],
                "window": window,
                "country": country or None,
                "horizon": horizon,
                "split": parts,
                "version": __version__,
            },
        )
