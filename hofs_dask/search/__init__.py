"""The greedy loop, its checkpoints and its events."""
