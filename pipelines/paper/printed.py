"""The values in the tables of the paper (Wu, Gupta & Bajaj 2016)."""

from __future__ import annotations

#: Methods in the order of the columns of the paper's tables.
METHODS = ("vmi", "mrmr", "jmi", "cmim", "spec_cmi", "hofs")

#: Mean absolute correlation of signals and R_balance.
QUALITY = {
    "lung": (0.01, 1.1),
    "splice": (0.05, 1.07),
    "waveform": (0.04, 0.94),
    "semeion": (0.09, 0.94),
    "optdigits": (0.11, 0.89),
    "musk2": (0.07, 0.98),
    "spambase": (0.06, 0.97),
    "promoter": (0.04, 1.02),
    "madelon": (0.02, 1.004),
}
#: Mean correlation stated in the text of the paper.
MEAN_CORRELATION = 0.055

#: Errors of a linear SVM in per cent.
ERRORS = {
    "lung": (7.4, 10.9, 11.6, 11.4, 11.6, 6.9),
    "splice": (13.7, 13.6, 13.7, 14.7, 13.7, 13.2),
    "waveform": (15.9, 15.9, 15.9, 16.0, 15.9, 16.0),
    "semeion": (14.0, 23.4, 24.8, 16.3, 26.0, 13.7),
    "optdigits": (7.2, 7.6, 7.6, 7.5, 9.2, 7.4),
    "musk2": (12.6, 12.4, 12.8, 13.0, 15.1, 11.9),
    "spambase": (6.6, 6.9, 7.0, 6.8, 9.0, 6.6),
    "promoter": (21.2, 21.5, 22.4, 22.1, 24.0, 21.2),
    "madelon": (16.7, 30.8, 15.3, 17.4, 15.9, 16.0),
}
#: Global information of the first 11 features, in a unit that is not stated.
INFORMATION = {
    "lung": (82.342, 82.973, 82.954, 82.909, 82.878, 83.909),
    "splice": (10.462, 10.469, 10.565, 10.447, 10.447, 10.471),
    "waveform": (46.231, 36.616, 11.607, 54.021, 54.021, 59.035),
    "semeion": (5.231, 4.328, 4.788, 3.742, 3.556, 5.556),
    "optdigits": (157.239, 141.055, 168.096, 141.055, 141.059, 171.061),
    "musk2": (11.675, 2.612, 10.006, 3.705, 2.865, 13.412),
    "spambase": (5.689, 5.204, 5.662, 5.204, 5.151, 5.950),
    "promoter": (11.410, 11.410, 11.411, 11.380, 11.398, 11.411),
    "madelon": (14.284, 1.797, 7.099, 4.347, 6.084, 18.009),
}
#: Average relative absolute errors of the first 30 features, in per cent.
ARAE = {
    "lung": (23.1, 28.4, 31.2, 24.3, 15.2, 11.4),
    "splice": (20.9, 19.6, 20.2, 21.3, 23.9, 19.2),
    "waveform": (15.5, 16.0, 15.1, 15.3, 16.2, 15.0),
    "semeion": (16.2, 28.1, 30.2, 18.8, 39.2, 16.2),
    "optdigits": (9.2, 11.7, 10.3, 16.0, 14.1, 9.2),
    "musk2": (14.2, 17.2, 15.9, 17.3, 17.3, 12.0),
    "spambase": (7.8, 8.8, 14.2, 13.7, 19.1, 7.8),
    "promoter": (31.7, 31.7, 29.7, 30.9, 34.2, 31.7),
    "madelon": (28.9, 46.8, 21.3, 27.1, 22.2, 20.0),
}
#: I(x_i:y) of x1 to x9 of the tree model.
TREE_SINGLE = {
    "vmi": (0.111, 0.052, 0.022, 0.058, 0.058, 0.025, 0.029, 0.012, 0.013),
    "hofs": (0.111, 0.052, 0.022, 0.058, 0.058, 0.025, 0.029, 0.012, 0.011),
}
#: Gains of x1 to x9 of the tree model.
TREE_GAINS = {
    "vmi": (0.111, 0.0438, 0.012, 0.008, 0.005, 0.001, -0.001, 0.002, -0.003),
    "hofs": (0.110, 0.0438, 0.016, 0.006, -0.002, -0.001, 0.002, -0.003, 0.0),
}
#: The subsets of the tree model and of the heterogeneous model.
TREE_SUBSETS = (("x1", "x4", "x5"), ("x2", "x6", "x7"), ("x3", "x8", "x9"))
HETEROGENEOUS_SUBSETS = (
    ("F1", "F6", "F2", "F7"),
    ("F9", "F4", "F14", "F10", "F5", "F15"),
    ("F3", "F8"),
    *((f"F{number}",) for number in (11, 13, 12, 19, 20, 16, 17, 18)),
)
