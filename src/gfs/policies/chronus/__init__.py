"""Chronus (SoCC'21): tasks hold leases, and who holds the next ones is chosen in batches."""
