"""The same analysis of many runs, on several cores or machines, into one table that survives a kill."""
