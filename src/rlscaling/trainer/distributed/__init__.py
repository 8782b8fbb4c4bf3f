"""Training on several devices: generator ranks and trainer ranks under torchrun (``docs/trainer/distributed.md``).

Read ``launch.py`` first, then ``training.Lead.run`` and ``generating.GeneratorRank.run``. Importing this package
imports no torch.
"""

from __future__ import annotations
