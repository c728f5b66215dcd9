"""The GFS task scheduler (PTS): scores, eviction history and waste-aware preemption (SPEC 3)."""
