"""Readers for every kind of input, access to files, and detection of changed data."""
