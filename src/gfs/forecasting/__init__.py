"""The GPU demand estimator: tomorrow's HP demand of each organization, as a distribution.

See docs/concepts/demand-forecast.md.
"""
