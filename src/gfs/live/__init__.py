"""Kubernetes: the same core, driven by a real API server (docs/guides/live.md). Nothing else imports its packages."""
