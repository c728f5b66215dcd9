"""The command line: one file a command. What takes long to load is loaded inside the commands."""
