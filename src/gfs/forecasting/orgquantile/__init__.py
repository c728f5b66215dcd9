"""`orgquantile`: demand by linear quantile regression per hour of the day, calibrated as hours go by.

features.py      what is read off a series at an origin (an hour that begins)
regression.py    linear quantile regression by reweighted least squares
training.py      training rows, and the fitted coefficients: per hour of the day, and a correction per organization
network.py       a small network that predicts the median, too
mixture.py       the forecast before calibration: last value and fitted models, weighted by their recent losses
calibration.py   conformal bounds from recent errors, widths that follow volatility, a floor after level shifts
forecast_log.py  past forecasts and their scores, updated hour by hour
estimator.py     estimator, predictor and forecast
"""
