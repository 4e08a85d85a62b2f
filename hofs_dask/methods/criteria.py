"""The pairwise criteria: one class per criterion, with its options and its score.

To add a criterion, add a class: a name, a docstring with the formula, `term` and, unless the score
is the sum of the terms, `score`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from hofs_dask.methods.pairwise import Pairs, PairwiseMethod

MRMRForm = Literal["difference", "quotient"]
SpecCMIForm = Literal["greedy", "spectral"]

#: If the mean redundancy is below this number of nats, `mrmr` divides by this number instead.
LEAST_REDUNDANCY = 1e-12


@dataclass(frozen=True)
class MIM(PairwiseMethod):
    """Method: mutual information maximisation, which uses only the relevance of each feature.

    Notes
    -----
    Score ``I(x_i : y)``.

    Examples
    --------
    >>> MIM().label
    'mim'
    """

    name: ClassVar[str] = "mim"
    in_paper: ClassVar[bool] = True

    @property
    def tests_given_picks(self) -> bool:
        """Whether a significant feature must add information to every pick, one at a time."""
        return False

    def term(self, pairs: Pairs) -> np.ndarray:
        """Return, for every feature x_i, its term with the chosen feature x_j."""
        return pairs.redundancy

    def score(self, relevance: np.ndarray, total: np.ndarray, n_chosen: int) -> np.ndarray:
        """Return the score of every feature."""
        return relevance


@dataclass(frozen=True)
class MIFS(PairwiseMethod):
    """Method: mutual information feature selection (Battiti 1994), relevance minus redundancy.

    Parameters
    ----------
    beta
        Weight of the redundancy with each chosen feature.

    Notes
    -----
    Score ``I(x_i : y) - beta sum_j I(x_i : x_j)``.
    Here j runs over the chosen features.

    Examples
    --------
    >>> MIFS(beta=0.5).options
    {'beta': 0.5}
    """

    name: ClassVar[str] = "mifs"
    in_paper: ClassVar[bool] = True

    beta: float = 1.0

    def __post_init__(self) -> None:
        """Check all options."""
        self._check_number("beta")

    def term(self, pairs: Pairs) -> np.ndarray:
        """Return, for every feature x_i, its term with the chosen feature x_j."""
        return pairs.redundancy

    def score(self, relevance: np.ndarray, total: np.ndarray, n_chosen: int) -> np.ndarray:
        """Return the score of every feature."""
        return relevance - self.beta * total


@dataclass(frozen=True)
class MRMR(PairwiseMethod):
    """Method: minimum redundancy, maximum relevance (Peng, Long & Ding 2005).

    Parameters
    ----------
    form
        ``"difference"``: relevance minus mean redundancy. ``"quotient"``: relevance divided by mean
        redundancy.

    Notes
    -----
    Score ``I(x_i : y) - mean_j I(x_i : x_j)``, or the quotient of these two terms.

    Examples
    --------
    >>> MRMR(form="quotient").label
    "mrmr(form='quotient')"
    """

    name: ClassVar[str] = "mrmr"
    in_paper: ClassVar[bool] = True

    form: MRMRForm = "difference"

    def __post_init__(self) -> None:
        """Check all options."""
        self._check("form", get_args(MRMRForm))

    def term(self, pairs: Pairs) -> np.ndarray:
        """Return, for every feature x_i, its term with the chosen feature x_j."""
        return pairs.redundancy

    def score(self, relevance: np.ndarray, total: np.ndarray, n_chosen: int) -> np.ndarray:
        """Return the score of every feature."""
        redundancy = total / n_chosen
        if self.form == "difference":
            return relevance - redundancy
        result: np.ndarray = relevance / np.maximum(redundancy, LEAST_REDUNDANCY)
        return result


@dataclass(frozen=True)
class JMI(PairwiseMethod):
    """Method: joint mutual information (Yang & Moody 1999).

    Notes
    -----
    Score ``sum_j I(x_i, x_j : y)``.
    Here j runs over the chosen features.

    Examples
    --------
    >>> JMI().label
    'jmi'
    """

    name: ClassVar[str] = "jmi"
    in_paper: ClassVar[bool] = True

    def term(self, pairs: Pairs) -> np.ndarray:
        """Return, for every feature x_i, its term with the chosen feature x_j."""
        return pairs.joint


@dataclass(frozen=True)
class CMIM(PairwiseMethod):
    """Method: conditional mutual information maximisation (Fleuret 2004).

    Notes
    -----
    Score ``min(I(x_i : y), min_j I(x_i : y | x_j))``.
    Here j runs over the chosen features.

    Examples
    --------
    >>> CMIM().label
    'cmim'
    """

    name: ClassVar[str] = "cmim"
    in_paper: ClassVar[bool] = True
    combine: ClassVar[np.ufunc] = np.minimum

    def term(self, pairs: Pairs) -> np.ndarray:
        """Return, for every feature x_i, its term with the chosen feature x_j."""
        return pairs.conditional

    def score(self, relevance: np.ndarray, total: np.ndarray, n_chosen: int) -> np.ndarray:
        """Return the score of every feature."""
        return np.minimum(relevance, total)


@dataclass(frozen=True)
class SpecCMI(PairwiseMethod):
    """Method: global selection by conditional mutual information (Nguyen et al. 2014).

    Parameters
    ----------
    form
        ``"greedy"`` chooses one feature after another. ``"spectral"`` ranks all features at once,
        by their entries in the dominant eigenvector of a matrix of all pairs of features.

    Notes
    -----
    Score ``I(x_i : y) + sum_j I(x_i : y | x_j)``, where j runs over the chosen features; with
    ``form="spectral"``, the entry of x_i in the dominant eigenvector of the matrix that
    `hofs_dask.information_matrix` returns by default.

    Examples
    --------
    >>> SpecCMI(form="spectral").form
    'spectral'
    """

    name: ClassVar[str] = "spec_cmi"
    in_paper: ClassVar[bool] = True

    form: SpecCMIForm = "greedy"

    def __post_init__(self) -> None:
        """Check all options."""
        self._check("form", get_args(SpecCMIForm))

    @property
    def all_pairs(self) -> bool:
        """Whether the method needs the terms of all pairs of features before the first pick."""
        return self.form == "spectral"

    def term(self, pairs: Pairs) -> np.ndarray:
        """Return, for every feature x_i, its term with the chosen feature x_j."""
        return pairs.conditional

    def score(self, relevance: np.ndarray, total: np.ndarray, n_chosen: int) -> np.ndarray:
        """Return the score of every feature."""
        return relevance + total


@dataclass(frozen=True)
class CIFE(PairwiseMethod):
    """Method: conditional infomax feature extraction (Lin & Tang 2006).

    Notes
    -----
    Score ``I(x_i : y) - sum_j I(x_i : x_j) + sum_j I(x_i : x_j | y)``. The
    difference ``I(x_i : x_j | y) - I(x_i : x_j)`` equals ``I(x_i : y | x_j) - I(x_i : y)``.

    Examples
    --------
    >>> CIFE().label
    'cife'
    """

    name: ClassVar[str] = "cife"

    def term(self, pairs: Pairs) -> np.ndarray:
        """Return, for every feature x_i, its term with the chosen feature x_j."""
        return pairs.conditional - pairs.relevance

    def score(self, relevance: np.ndarray, total: np.ndarray, n_chosen: int) -> np.ndarray:
        """Return the score of every feature."""
        return relevance + total


@dataclass(frozen=True)
class ICAP(PairwiseMethod):
    """Method: interaction capping (Jakulin 2005), which subtracts redundancy, ignoring synergy.

    Notes
    -----
    Score ``I(x_i : y) - sum_j max(0, I(x_i : x_j) - I(x_i : x_j | y))``.
    Here j runs over the chosen features.

    Examples
    --------
    >>> ICAP().label
    'icap'
    """

    name: ClassVar[str] = "icap"

    def term(self, pairs: Pairs) -> np.ndarray:
        """Return, for every feature x_i, its term with the chosen feature x_j."""
        return np.maximum(pairs.relevance - pairs.conditional, 0.0)

    def score(self, relevance: np.ndarray, total: np.ndarray, n_chosen: int) -> np.ndarray:
        """Return the score of every feature."""
        return relevance - total


@dataclass(frozen=True)
class DISR(PairwiseMethod):
    """Method: double input symmetrical relevance (Meyer & Bontempi 2006).

    Notes
    -----
    Score ``sum_j I(x_i, x_j : y) / H(x_i, x_j, y)``.
    Here j runs over the chosen features.

    Examples
    --------
    >>> DISR().label
    'disr'
    """

    name: ClassVar[str] = "disr"

    def term(self, pairs: Pairs) -> np.ndarray:
        """Return, for every feature x_i, its term with the chosen feature x_j."""
        return pairs.joint / pairs.joint_entropy


@dataclass(frozen=True)
class JMIM(PairwiseMethod):
    """Method: joint mutual information maximisation (Bennasar, Hicks & Setchi 2015).

    Notes
    -----
    Score ``min_j I(x_i, x_j : y)``.
    Here j runs over the chosen features.

    Examples
    --------
    >>> JMIM().label
    'jmim'
    """

    name: ClassVar[str] = "jmim"
    combine: ClassVar[np.ufunc] = np.minimum

    def term(self, pairs: Pairs) -> np.ndarray:
        """Return, for every feature x_i, its term with the chosen feature x_j."""
        return pairs.joint


@dataclass(frozen=True)
class CFR(PairwiseMethod):
    """Method: composition of feature relevancy (Gao, Hu, Zhang & He 2018).

    Notes
    -----
    Score ``sum_j [I(x_i : y | x_j) + I(x_i : x_j | y) - I(x_i : x_j)]``.
    Here j runs over the chosen features.

    Examples
    --------
    >>> CFR().label
    'cfr'
    """

    name: ClassVar[str] = "cfr"

    def term(self, pairs: Pairs) -> np.ndarray:
        """Return, for every feature x_i, its term with the chosen feature x_j."""
        return pairs.conditional + pairs.redundancy_given_label - pairs.redundancy


@dataclass(frozen=True)
class DCSF(PairwiseMethod):
    """Method: dynamic change of selected features with the class (Gao, Hu & Zhang 2018).

    Notes
    -----
    Score ``sum_j [I(x_i : y | x_j) + I(x_j : y | x_i) - I(x_i : x_j)]``.
    Here j runs over the chosen features.

    Examples
    --------
    >>> DCSF().label
    'dcsf'
    """

    name: ClassVar[str] = "dcsf"

    def term(self, pairs: Pairs) -> np.ndarray:
        """Return, for every feature x_i, its term with the chosen feature x_j."""
        of_chosen = pairs.joint - pairs.relevance  # I(x_j : y | x_i)
        return pairs.conditional + of_chosen - pairs.redundancy


@dataclass(frozen=True)
class MRI(PairwiseMethod):
    """Method: maximal relevance and maximal independence (Wang, Wei, Yang & Wang 2017).

    Notes
    -----
    Score ``I(x_i : y) + 2 / (n_chosen + 1) sum_j [I(x_i : x_j | y) - I(x_i : x_j)]``.
    Here j runs over the chosen features.

    Examples
    --------
    >>> MRI().label
    'mri'
    """

    name: ClassVar[str] = "mri"

    def term(self, pairs: Pairs) -> np.ndarray:
        """Return, for every feature x_i, its term with the chosen feature x_j."""
        return pairs.redundancy_given_label - pairs.redundancy

    def score(self, relevance: np.ndarray, total: np.ndarray, n_chosen: int) -> np.ndarray:
        """Return the score of every feature."""
        return relevance + 2 / (n_chosen + 1) * total


@dataclass(frozen=True)
class NJMIM(PairwiseMethod):
    """Method: normalised joint mutual information maximisation (Bennasar, Hicks & Setchi 2015).

    Notes
    -----
    Score ``min_j I(x_i, x_j : y) / H(x_i, x_j, y)``.
    Here j runs over the chosen features.

    Examples
    --------
    >>> NJMIM().label
    'njmim'
    """

    name: ClassVar[str] = "njmim"
    combine: ClassVar[np.ufunc] = np.minimum

    def term(self, pairs: Pairs) -> np.ndarray:
        """Return, for every feature x_i, its term with the chosen feature x_j."""
        return pairs.joint / pairs.joint_entropy
