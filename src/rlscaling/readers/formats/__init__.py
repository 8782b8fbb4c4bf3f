"""One module per file format: `matches` says whether a source is of it, `logs` or `table` reads it."""
