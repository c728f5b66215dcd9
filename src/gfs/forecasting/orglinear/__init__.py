"""OrgLinear: the paper's demand forecaster, trend and cycle, linear, with a normal distribution (SPEC 5)."""
