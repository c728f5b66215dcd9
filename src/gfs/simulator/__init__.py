"""The event-driven simulator: drives the very scheduler that would run live (docs/concepts/time-model.md)."""
