"""The event-driven simulator: drives the very scheduler that would run live (SPEC 2)."""
