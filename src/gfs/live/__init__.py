"""Kubernetes: the same core, driven by a real API server (docs/guides/install-on-kubernetes.md)."""
