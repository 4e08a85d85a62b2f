"""The method objects: frozen options, validated once."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar, Literal, get_args

from hofs_dask.errors import unknown

Criterion = Literal["joint", "sum", "mean"]
SignalSource = Literal["logistic", "gaussian"]
Affinity = Literal["within", "correlation"]
Slopes = Literal["auto", "shared", "class"]
LabelCoding = Literal["auto", "indicator", "ordinal"]
MRMRForm = Literal["difference", "quotient"]
SpecCMIForm = Literal["greedy", "spectral"]
VMIForm = Literal["naive", "pairwise"]

#: A feature joins the subset of the largest mean affinity when that exceeds this number.
THRESHOLD = 0.2


@dataclass(frozen=True)
class Method:
    """What all method objects have."""

    name: ClassVar[str]

    @property
    def options(self) -> dict[str, object]:
        """Every option by its name, as JSON can hold it."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def label(self) -> str:
        """The name, with the options that are not the defaults.

        Examples
        --------
        >>> MIFS(beta=0.5).label, JMI().label
        ('mifs(beta=0.5)', 'jmi')
        """
        changed = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)
            if getattr(self, field.name) != field.default
        ]
        return f"{self.name}({', '.join(changed)})" if changed else self.name

    @property
    def subset_threshold(self) -> float:
        """The affinity that a feature joins a subset above."""
        return THRESHOLD

    def _check(self, option: str, valid: tuple[object, ...]) -> None:
        given = getattr(self, option)
        if given not in valid:
            raise unknown(f"{option} of {type(self).__name__}", given, valid)

    def _check_number(self, option: str) -> None:
        given = getattr(self, option)
        what = f"{option} of {type(self).__name__} is {given!r}; give a number >= 0"
        if isinstance(given, bool) or not isinstance(given, (int, float)):
            raise TypeError(what)
        if not 0 <= given < float("inf"):
            raise ValueError(what)


@dataclass(frozen=True)
class HOFS(Method):
    """The options of Higher Order Feature Selection.

    Parameters
    ----------
    criterion
        ``"joint"`` scores a feature by the information that a class-conditional model of all
        chosen features and it holds about the label: out of sample, if the samples are
        independent. ``"sum"`` is the criterion of the paper, ``"mean"`` the one of its authors'
        program.
    source
        The density of the signals: ``"logistic"`` or ``"gaussian"``.
    threshold
        A feature joins the subset of the largest mean affinity when that exceeds this number.
    affinity
        ``"within"`` measures dependence within classes, ``"correlation"`` is the signed Pearson
        correlation. By default ``"within"`` for ``joint``, ``"correlation"`` for the others.
    slopes
        Which linear rows ``joint`` tries: ``"shared"`` by the classes, one set a ``"class"``,
        or both (``"auto"``).
    label_coding
        How ``sum`` and ``mean`` read the label: one ``"indicator"`` column a class but one, or one
        ``"ordinal"`` column. ``"auto"`` takes indicators for classes, else the ordinal column.

    Examples
    --------
    >>> HOFS(criterion="sum").criterion
    'sum'
    >>> HOFS(criterion="som")
    Traceback (most recent call last):
    ...
    ValueError: unknown criterion of HOFS 'som'; valid: 'sum', 'mean', 'joint'
    """

    name: ClassVar[str] = "hofs"

    criterion: Criterion = "joint"
    source: SignalSource = "logistic"
    threshold: float = THRESHOLD
    affinity: Affinity | None = None
    slopes: Slopes = "auto"
    label_coding: LabelCoding = "auto"

    def __post_init__(self) -> None:
        """Check every option once."""
        self._check("criterion", get_args(Criterion))
        self._check("source", get_args(SignalSource))
        self._check("affinity", (None, *get_args(Affinity)))
        self._check("slopes", get_args(Slopes))
        self._check("label_coding", get_args(LabelCoding))
        self._check_number("threshold")

    @property
    def subset_threshold(self) -> float:
        """The affinity that a feature joins a subset above."""
        return self.threshold


@dataclass(frozen=True)
class MIM(Method):
    """Mutual information maximisation: the features that say most about the target by themselves.

    Notes
    -----
    Score ``I(x_i : y)``.

    Examples
    --------
    >>> MIM().label
    'mim'
    """

    name: ClassVar[str] = "mim"


@dataclass(frozen=True)
class MIFS(Method):
    """Mutual information feature selection (Battiti 1994): relevance less redundancy.

    Parameters
    ----------
    beta
        The weight of the redundancy with each chosen feature.

    Notes
    -----
    Score ``I(x_i : y) - beta sum_j I(x_i : x_j)``.

    Examples
    --------
    >>> MIFS(beta=0.5).options
    {'beta': 0.5}
    """

    name: ClassVar[str] = "mifs"

    beta: float = 1.0

    def __post_init__(self) -> None:
        """Check every option once."""
        self._check_number("beta")


@dataclass(frozen=True)
class MRMR(Method):
    """Minimum redundancy, maximum relevance (Peng, Long & Ding 2005).

    Parameters
    ----------
    form
        ``"difference"``, relevance less mean redundancy, or ``"quotient"``, relevance over it.

    Notes
    -----
    Score ``I(x_i : y) - mean_j I(x_i : x_j)``, or their quotient.

    Examples
    --------
    >>> MRMR(form="quotient").label
    "mrmr(form='quotient')"
    """

    name: ClassVar[str] = "mrmr"

    form: MRMRForm = "difference"

    def __post_init__(self) -> None:
        """Check every option once."""
        self._check("form", get_args(MRMRForm))


@dataclass(frozen=True)
class JMI(Method):
    """Joint mutual information (Yang & Moody 1999).

    Notes
    -----
    Score ``sum_j I(x_i, x_j : y)``.

    Examples
    --------
    >>> JMI().label
    'jmi'
    """

    name: ClassVar[str] = "jmi"


@dataclass(frozen=True)
class CMIM(Method):
    """Conditional mutual information maximisation (Fleuret 2004).

    Notes
    -----
    Score ``min(I(x_i : y), min_j I(x_i : y | x_j))``.

    Examples
    --------
    >>> CMIM().label
    'cmim'
    """

    name: ClassVar[str] = "cmim"


@dataclass(frozen=True)
class SpecCMI(Method):
    """Global selection by conditional mutual information (Nguyen et al. 2014).

    Parameters
    ----------
    form
        ``"greedy"``, one feature after the other, or ``"spectral"``, the largest entries of the
        dominant eigenvector of the matrix of all pairs.

    Notes
    -----
    Greedy score ``I(x_i : y) + sum_j I(x_i : y | x_j)``.

    Examples
    --------
    >>> SpecCMI(form="spectral").form
    'spectral'
    """

    name: ClassVar[str] = "spec_cmi"

    form: SpecCMIForm = "greedy"

    def __post_init__(self) -> None:
        """Check every option once."""
        self._check("form", get_args(SpecCMIForm))


@dataclass(frozen=True)
class VMI(Method):
    """Variational information maximisation (Gao, Ver Steeg & Galstyan 2016).

    Parameters
    ----------
    form
        What is assumed of the features within a class: ``"naive"``, that they are independent, or
        ``"pairwise"``, a geometric mean over the pairs with each chosen feature.
    restart
        The posterior restarts when the best gain falls below this many nats.

    Examples
    --------
    >>> VMI(restart=0.001).restart
    0.001
    """

    name: ClassVar[str] = "vmi"

    form: VMIForm = "naive"
    restart: float = 0.01

    def __post_init__(self) -> None:
        """Check every option once."""
        self._check("form", get_args(VMIForm))
        self._check_number("restart")


@dataclass(frozen=True)
class CIFE(Method):
    """Conditional infomax feature extraction (Lin & Tang 2006).

    Notes
    -----
    Score ``I(x_i : y) - sum_j I(x_i : x_j) + sum_j I(x_i : x_j | y)``.

    Examples
    --------
    >>> CIFE().label
    'cife'
    """

    name: ClassVar[str] = "cife"


@dataclass(frozen=True)
class ICAP(Method):
    """Interaction capping (Jakulin 2005): redundancy counts, synergy does not.

    Notes
    -----
    Score ``I(x_i : y) - sum_j max(0, I(x_i : x_j) - I(x_i : x_j | y))``.

    Examples
    --------
    >>> ICAP().label
    'icap'
    """

    name: ClassVar[str] = "icap"


@dataclass(frozen=True)
class DISR(Method):
    """Double input symmetrical relevance (Meyer & Bontempi 2006).

    Notes
    -----
    Score ``sum_j I(x_i, x_j : y) / H(x_i, x_j, y)``.

    Examples
    --------
    >>> DISR().label
    'disr'
    """

    name: ClassVar[str] = "disr"


@dataclass(frozen=True)
class JMIM(Method):
    """Joint mutual information maximisation (Bennasar, Hicks & Setchi 2015).

    Notes
    -----
    Score ``min_j I(x_i, x_j : y)``.

    Examples
    --------
    >>> JMIM().label
    'jmim'
    """

    name: ClassVar[str] = "jmim"


_BY_NAME: dict[str, type[Method]] = {
    method.name: method
    for method in (HOFS, MIM, MIFS, MRMR, JMI, CMIM, SpecCMI, VMI, CIFE, ICAP, DISR, JMIM)
}

#: The names of HOFS and the baselines that its paper compares it with: what `compare` runs.
METHODS: tuple[str, ...] = ("hofs", "mim", "mifs", "mrmr", "jmi", "cmim", "spec_cmi", "vmi")
#: All names that `select` takes.
METHOD_NAMES: tuple[str, ...] = tuple(_BY_NAME)


def as_method(method: object) -> Method:
    """The method object of a name with its defaults, or the object itself.

    Examples
    --------
    >>> as_method("mifs")
    MIFS(beta=1.0)
    """
    if isinstance(method, Method):
        return method
    if not isinstance(method, str):
        for kind in _BY_NAME.values():
            if method is kind:
                raise TypeError(f"method is a class; give an object: hofs_dask.{kind.__name__}()")
        raise TypeError(
            f"method is a {type(method).__name__}; give one of {METHOD_NAMES} or an object such as "
            "hofs_dask.HOFS(criterion='sum')"
        )
    if method not in _BY_NAME:
        raise unknown("method", method, METHOD_NAMES)
    return _BY_NAME[method]()
