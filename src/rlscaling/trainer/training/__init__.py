"""The training loop, one update of the policy, and everything that a run saves and restores."""
