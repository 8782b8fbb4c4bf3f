"""The policy: a decoder of the Llama family, its attention, its head, and its weights on the disk."""
