"""Traces from an operator's own records, one file a format: what was guessed on the way is told."""

from gfs.records.conversion import Conversion, JobRecord, assemble

__all__ = ["Conversion", "JobRecord", "assemble"]
