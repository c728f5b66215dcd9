"""FGD: every pod goes where the fragmentation expected for the task mix grows least (SPEC 6)."""
