"""Lyra (EuroSys'23): spot tasks run on whole nodes that HP lends and takes back (docs/schedulers/lyra.md)."""
