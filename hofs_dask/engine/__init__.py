"""Reductions as records, and the scans over the code store that total them."""
