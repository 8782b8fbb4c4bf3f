"""Training on several devices: generator ranks and trainer ranks under torchrun (``docs/trainer/distributed.md``).

Read ``launch.py`` first, then ``trainer_rank.LeadRank.run`` and ``generator_rank.GeneratorRank.run``. Importing this
package imports no torch.
"""

from __future__ import annotations
