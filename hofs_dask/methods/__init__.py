"""What to count, and what the counts mean for the next choice."""
