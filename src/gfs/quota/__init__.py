"""Spot quotas: how many cards spot tasks may hold (SPEC 4)."""
