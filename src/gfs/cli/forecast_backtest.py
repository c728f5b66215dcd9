"""`gfs forecast backtest`: a page of forecast bands against actual demand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from gfs.cli import forecast_options
from gfs.cli.console import note, say, show
from gfs.cli.options import RESULTS, SkipBadRows, examples, file_option, option
from gfs.cli.outputs import PAGES, Outputs

EPILOG = examples(
    "gfs forecast backtest --series demand.csv --html backtest.html",
    "gfs forecast backtest --jobs jobs.csv --nodes nodes.csv --models persistence,orgquantile --html b.html",
)


def backtest(
    out: Annotated[Path, file_option("--html", "The page: one HTML file that works offline.", RESULTS)],
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
    top: Annotated[int, option("--top", "Series that are drawn, the largest first.", RESULTS, metavar="N", min=1)] = 12,
) -> None:
    """Draw forecast bands against actual demand, on one page to choose series and forecasters from.

    As gfs forecast evaluate does it, forecasters are fitted once and then asked at every hour of the test part. The
    page shows every one of these forecasts.
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
    from gfs.report.backtest import BacktestResult, DrawnPart
    from gfs.report.backtest_page import BacktestView, backtest_page
    from gfs.report.score_columns import score_tables

    names, parts = parse_models(models), parse_split(split)
    demand = DemandOptions(series, jobs, nodes, events, hours, first_day, skip_bad_rows)
    with Outputs(*demand.files) as outputs:
        outputs.plan(out, PAGES)
        estimators = load_models(names, window, country)
        history = demand.read()
        note_idle_options(names, window, country, history)
        origins = origins_of_test(history, horizon, parts)
        part = DrawnPart.of(history, origins, horizon, top=top, models=len(names))
        rolling = roll_models(estimators, history, horizon=horizon, split=parts)
        results = {name: BacktestResult.of(rolled, part) for name, rolled in rolling}
        say(rolled_text(demand.name, history, origins, horizon))
        if len(part.rows) < len(history.keys):
            say(f"drawn: the {len(part.rows)} largest of {len(history.keys):,} series; --top N draws more")
        say()
        show(*score_tables({name: each.scores for name, each in results.items()}))
        view = BacktestView(results, history, part, horizon, origins.start)
        outputs.save(out, lambda path: backtest_page(view, demand.name, path))
        note(f"open {out} in a browser to see the bands")
