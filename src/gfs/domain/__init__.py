"""The nouns of GFS: tasks, nodes, units, errors. Frozen data, no logic that needs a cluster."""
