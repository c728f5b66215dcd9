"""What restricts the nodes of a pod besides room: one `Filter` a file, listed in `registry`."""
