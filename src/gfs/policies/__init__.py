"""Schedulers as compositions of parts."""
