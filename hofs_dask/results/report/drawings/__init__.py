"""Drawings of a report as SVG, one module per kind."""
