"""GFS on Kubernetes: the only place that imports Kubernetes packages (docs/concepts/live.md)."""
