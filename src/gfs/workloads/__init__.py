"""Workloads: read traces, write them, and make them up from published figures."""

from gfs.workloads.generator import generate
from gfs.workloads.presets import PRESETS
from gfs.workloads.readers.alibaba import TraceRead, read_trace
from gfs.workloads.readers.msr import read_msr
from gfs.workloads.writer import write_node_events, write_trace

__all__ = ["PRESETS", "TraceRead", "generate", "read_msr", "read_trace", "write_node_events", "write_trace"]
