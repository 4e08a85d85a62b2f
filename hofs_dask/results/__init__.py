"""Selections and comparisons: the Dataset behind them, how they read, look and are saved."""
