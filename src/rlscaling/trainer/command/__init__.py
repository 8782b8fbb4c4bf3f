"""The training command: its arguments, its jobs, its progress line."""
