"""What the paper compares with, and boosted trees as a ceiling (docs/concepts/demand-forecast.md).

Torch, neuralforecast and LightGBM are imported here and nowhere else: the registry reaches these modules only when
one of their forecasters is asked for.
"""
