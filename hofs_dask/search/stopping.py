"""The rule by which a search ends before it has chosen the requested number of features."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

#: Significance level of the test that also ends a search with the option ``min_gain``, if the gains
#: of the method are not cross-fitted.
ALPHA = 0.05


class Share(float):
    """A number of features to choose, given as a fraction of those that can be chosen.

    Examples
    --------
    >>> Share(0.5).of(7), Share(0.01).of(7)
    (3, 1)
    """

    def of(self, n_usable: int) -> int:
        """Return the number of features, at least 1."""
        return max(1, math.floor(self * n_usable))


@dataclass(frozen=True)
class Stop:
    """The rule by which a search ends early; by default, it never ends early.

    Attributes
    ----------
    min_gain : float or None
        The search ends if the gain of the feature with the best score is below this, in nats.
    min_share : float or None
        The same limit as ``min_gain``, but as a fraction of H(y).
    alpha : float or None
        The search ends if no candidate is significant at this family-wise level.

    Examples
    --------
    >>> Stop.parse("1%", None)
    Stop(min_gain=None, min_share=0.01, alpha=None)
    >>> Stop.parse("1%", None).least(label_entropy=0.5)
    0.005
    """

    min_gain: float | None = None
    min_share: float | None = None
    alpha: float | None = None

    @classmethod
    def parse(cls, min_gain: object, alpha: object) -> Stop:
        """Return the rule for the options min_gain and alpha; raise an error if one is invalid."""
        if alpha is not None:
            what = f"alpha is {alpha!r}; give a probability between 0 and 1, such as {ALPHA}"
            if isinstance(alpha, bool) or not isinstance(alpha, int | float | np.number):
                raise TypeError(what)
            if not 0 < alpha < 1:
                raise ValueError(what)
            alpha = float(alpha)
        if min_gain is None:
            return cls(alpha=alpha)
        examples = "give a number of nats such as 0.01, or a share of H(y) such as '1%'"
        if isinstance(min_gain, str):
            number, percent, rest = min_gain.strip().partition("%")
            try:
                share = float(number) / 100
            except ValueError:
                share = np.nan
            if not percent or rest or not np.isfinite(share):
                raise ValueError(f"min_gain is {min_gain!r}; {examples}")
            return cls(min_share=share, alpha=alpha)
        if isinstance(min_gain, bool) or not isinstance(min_gain, int | float | np.number):
            raise TypeError(f"min_gain is {min_gain!r}; {examples}")
        if not np.isfinite(min_gain):
            raise ValueError(f"min_gain is {min_gain!r}; {examples}")
        return cls(min_gain=float(min_gain), alpha=alpha)

    def least(self, label_entropy: float) -> float | None:
        """Return the smallest gain that is sufficient, in nats, or None if there is no limit."""
        return self.min_gain if self.min_share is None else self.min_share * label_entropy

    @property
    def given_min_gain(self) -> float | str | None:
        """The option ``min_gain``, as a number of nats or as a percentage."""
        return self.min_gain if self.min_share is None else f"{100 * self.min_share:g}%"
