"""Operations of the trainer that a device may have a kernel for."""
