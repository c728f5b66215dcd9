"""Spot quotas: how many cards spot tasks may hold (docs/concepts/spot-quota.md)."""
