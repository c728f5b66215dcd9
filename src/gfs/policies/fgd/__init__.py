"""FGD: every pod goes where the fragmentation expected for the task mix grows least (docs/schedulers/fgd.md)."""
