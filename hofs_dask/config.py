"""The method objects: frozen options, validated once."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args

from hofs_dask.errors import unknown

Criterion = Literal["joint", "sum", "mean"]
SignalSource = Literal["logistic", "gaussian"]
Affinity = Literal["within", "correlation"]
Slopes = Literal["auto", "shared", "class"]
LabelCoding = Literal["auto", "indicator", "ordinal"]


def _check(option: str, given: object, valid: tuple[object, ...]) -> None:
    if given not in valid:
        raise unknown(f"{option} of HOFS", given, valid)


@dataclass(frozen=True)
class HOFS:
    """The options of Higher Order Feature Selection.

    Parameters
    ----------
    criterion
        ``"joint"`` scores a feature by the information that a class-conditional model of all
        chosen features and it holds about the label, out of sample. ``"sum"`` is the criterion
        of the paper, ``"mean"`` the one of its authors' program.
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

    criterion: Criterion = "joint"
    source: SignalSource = "logistic"
    threshold: float = 0.2
    affinity: Affinity | None = None
    slopes: Slopes = "auto"
    label_coding: LabelCoding = "auto"

    def __post_init__(self) -> None:
        """Check every option once."""
        _check("criterion", self.criterion, get_args(Criterion))
        _check("source", self.source, get_args(SignalSource))
        _check("affinity", self.affinity, (None, *get_args(Affinity)))
        _check("slopes", self.slopes, get_args(Slopes))
        _check("label_coding", self.label_coding, get_args(LabelCoding))
        if not 0 <= self.threshold < float("inf"):
            raise ValueError(f"threshold of HOFS is {self.threshold!r}; give a number >= 0")

    @property
    def options(self) -> dict[str, object]:
        """Every option by its name, as JSON can hold it."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


_BY_NAME = {"hofs": HOFS}

#: The names of the methods that `select` takes.
METHODS: tuple[str, ...] = tuple(_BY_NAME)


def as_method(method: str | HOFS) -> HOFS:
    """The method object of a name with its defaults, or the object itself.

    Examples
    --------
    >>> as_method("hofs")
    HOFS(criterion='joint', source='logistic', threshold=0.2, affinity=None, slopes='auto', \
label_coding='auto')
    """
    if isinstance(method, HOFS):
        return method
    if not isinstance(method, str):
        raise TypeError(
            f"method is a {type(method).__name__}; give one of {METHODS} or an object such as "
            "hofs_dask.HOFS(criterion='sum')"
        )
    if method not in _BY_NAME:
        raise unknown("method", method, METHODS)
    return _BY_NAME[method]()
