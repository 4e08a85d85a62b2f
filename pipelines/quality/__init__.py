"""Evaluation of methods by classifiers on data sets outside the paper."""
