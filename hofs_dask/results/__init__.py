"""Selections and comparisons: their Dataset, text, HTML, figures and files."""
