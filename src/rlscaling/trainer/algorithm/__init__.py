"""The reinforcement-learning mathematics: rewards to advantages, which samples count, and the policy losses.

Tensors in, tensors out.
"""
