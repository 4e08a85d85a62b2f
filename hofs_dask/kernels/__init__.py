"""Compiled loops over numpy arrays, without options or Python objects."""
