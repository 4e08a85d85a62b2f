"""The code store: how values become codes, and how codes are kept and read."""
