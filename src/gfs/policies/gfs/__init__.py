"""The GFS task scheduler (PTS): scores, eviction history and waste-aware preemption.

See docs/concepts/how-gfs-decides.md.
"""
