"""The GPU demand estimator (SPEC 5): tomorrow's HP demand of each organization, as a distribution."""
