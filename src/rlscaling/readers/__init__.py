"""From the files that trainers and loggers leave to traces.

To add a format, write `formats/NAME.py` and one line in `registry.READERS`.
"""
