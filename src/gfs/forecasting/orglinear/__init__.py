"""OrgLinear: the paper's demand forecaster, trend and cycle, linear, with a normal distribution.

See docs/concepts/demand-forecast.md.
"""
