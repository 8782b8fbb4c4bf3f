"""Operations of the trainer that a device may have a kernel for."""

from __future__ import annotations
