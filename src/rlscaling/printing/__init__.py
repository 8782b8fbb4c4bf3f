"""Numbers and tables as text and HTML.

A value with no more digits than its error allows, and `Document`, the one class through which every result prints
itself.
"""
