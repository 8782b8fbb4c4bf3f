"""Operations with a CUDA kernel.

`ops` is the entry point, `reference` the definition, everything else an implementation.
"""

from __future__ import annotations
