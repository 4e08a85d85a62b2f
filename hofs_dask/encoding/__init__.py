"""Encode a source as a code store."""
