"""Everything a training run depends on.

`TrainConfig`, the named recipes, and the checks before any compute is spent.
"""
