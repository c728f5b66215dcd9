"""`gfs forecast predict`: the demand of the coming hours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gfs.cli import forecast_options
from gfs.cli.console import note, say, show
from gfs.cli.options import RESULTS, Json, SkipBadRows, examples, file_option, option
from gfs.cli.outputs import JSON, PAGES, STDOUT, TABLES, Outputs
from gfs.version import __version__

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gfs.report.prediction import Prediction
    from gfs.report.table import DataTable

EPILOG = examples(
    "gfs forecast predict --series demand.csv --html next.html",
    "gfs forecast predict --jobs jobs.csv --nodes nodes.csv --horizon 24 --top 3",
    "gfs forecast predict --events events.csv --bounds 0.5,0.99 --table next.csv --json -",
)


def predict(
    series: forecast_options.Series = None,
    jobs: forecast_options.TraceJobs = None,
    nodes: forecast_options.TraceNodes = None,
    events: forecast_options.Events = None,
    skip_bad_rows: SkipBadRows = False,
    hours: forecast_options.Hours = None,
    first_day: forecast_options.FirstDay = None,
    model: Annotated[
        str,
        option(
            "--model", "The forecaster; gfs forecast evaluate compares them.", forecast_options.FORECAST, metavar="NAME"
        ),
    ] = "orgquantile",
    window: forecast_options.LookBack = forecast_options.WINDOW,
    country: forecast_options.Country = "",
    horizon: forecast_options.Horizon = forecast_options.HORIZON,
    bounds: Annotated[
        str,
        option(
            "--bounds",
            "Demand should stay at or below each bound with this probability.",
            forecast_options.FORECAST,
            metavar="P,Q",
        ),
    ] = "0.9,0.95",
    top: Annotated[
        int, option("--top", "Series that are printed, the largest first.", RESULTS, metavar="N", min=1)
    ] = 8,
    plot: Annotated[
        Path | None, file_option("--html", "Write a page with the bands of every series; works offline.", RESULTS)
    ] = None,
    out: Annotated[
        Path | None, file_option("--table", "Write a row per series and hour: .csv, .csv.gz or .parquet.", RESULTS)
    ] = None,
    json: Json = None,
) -> None:
    """Forecast the demand of the next hours, per organization and GPU model.

    The forecaster is fitted on all the demand known. Printed are what is expected of every hour, its bounds, and the
    bound of the highest demand of all hours.
    """
    from gfs.cli.forecast_options import DemandOptions, history_text, load_models, note_idle_options, parse_bounds
    from gfs.cli.progress import busy
    from gfs.forecasting.history import WEEK_HOURS
    from gfs.report.prediction import Prediction
    from gfs.telemetry.tables import write_table

    probabilities = parse_bounds(bounds)
    demand = DemandOptions(series, jobs, nodes, events, hours, first_day, skip_bad_rows)
    with Outputs(*demand.files) as outputs:
        outputs.plan(plot, PAGES)
        outputs.plan(out, TABLES)
        outputs.plan(json, JSON)
        estimator = load_models([model], window, country)[model]
        history = demand.read()
        note_idle_options([model], window, country, history)
        if history.hours < WEEK_HOURS:
            note(f"only {history.hours} hours of demand are known: with less than a week bounds are rough")
        with busy(f"fitting {model}"):
            forecast = estimator.fit(history).predict(history, horizon)
            prediction = Prediction.of(model, history, forecast, probabilities)
        if json != STDOUT:
            say(f"{demand.name}: {history_text(history)}; {model}, from {prediction.clock.words(history.end)} on")
            say()
            show(*_pictures(prediction, top))
        if plot is not None:
            from gfs.report.prediction_page import prediction_page

            outputs.save(plot, lambda path: prediction_page(prediction, demand.name, path))
        outputs.save(out, lambda path: write_table(prediction.table(), path))
        outputs.save_json(
            json,
            {
                **prediction.to_dict(),
                "source": demand.name,
                "hours": [history.start, history.end],
                "window": window,
                "country": country or None,
                "version": __version__,
            },
        )


def _pictures(prediction: Prediction, top: int) -> list[RenderableType | DataTable]:
    """The table, and a small plot of every series in it, as many side by side as there is room for."""
    from rich.columns import Columns

    from gfs.report.prediction_table import plot_key, prediction_table, text_plot

    plots = Columns([text_plot(prediction, row) for row in prediction.largest_first()[:top]], padding=(1, 3))
    return [prediction_table(prediction, top), plots, plot_key(prediction)]
