"""The decision core: cluster state, its indexes, trials, ports and the scheduler loop. No I/O, no clock."""
