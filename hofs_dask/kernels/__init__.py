"""Loops over arrays: numpy in, numpy out."""
