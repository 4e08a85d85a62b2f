"""Reductions, and the scans over the code store that compute them."""
