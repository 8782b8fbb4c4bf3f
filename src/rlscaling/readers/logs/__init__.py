"""From the rows of a log to the traces in it.

Which metric is the pass rate, what compute each row has cost, and how interrupted runs are joined.
"""
