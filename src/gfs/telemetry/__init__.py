"""What happened: the event log, and everything that is worked out from it."""
