"""Spot quotas: how many GPUs spot tasks may hold (docs/concepts/spot-quota.md)."""
