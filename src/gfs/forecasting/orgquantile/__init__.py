"""`orgquantile`: demand by linear quantile regression per hour of the day, calibrated as hours go by.

features.py     what is read off a series at an origin
regression.py   linear quantile regression by reweighted least squares
tables.py       features and outcomes to learn from
model.py        the fitted coefficients: per hour of the day for all, and what is added per organization
network.py      a small network, which says the median too
gate.py         how much of what was learned is believed, and of the last value, from recent losses
bands.py        the mixture: a middle and a width for each hour
calibration.py  how far demand really went beyond the forecast: conformal bounds
liveliness.py   widths follow calm and lively days
rise.py         a floor for bounds of series that are new or have shifted their level
track.py        past forecasts and their scores, kept up hour by hour
outcome.py      the forecast handed out
estimator.py    the estimator and its predictor
"""
