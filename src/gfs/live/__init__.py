"""Kubernetes: the same core, driven by a real API server (docs/concepts/live.md). Only here its packages are used."""
