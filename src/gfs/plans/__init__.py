"""Which quota settings to use, and what could be sold with them (`gfs plan`)."""
