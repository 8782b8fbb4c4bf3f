"""The same analysis of many runs, on several cores or machines, collected in one table that survives a kill."""
