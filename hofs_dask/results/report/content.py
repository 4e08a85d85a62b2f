"""The content of a report: sections of facts, tables and drawings, without any HTML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Fact:
    """A value with its name, and a remark in smaller letters."""

    name: str
    value: str
    remark: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Parameters
    ----------
    text : str
        What is shown.
    order : float, optional
        The number that the cell is sorted by. By default it is sorted by its text.
    feature : int, optional
        Position of the feature that the cell names.
    subset : int, optional
        Number of the subset whose colour marks the cell, or -1 for a feature without a subset.
    share : float, optional
        Length of a bar beside the text, from 0 to 1.
    shade : float, optional
        Darkness of the background, from 0 to 1.
    """

    text: str
    order: float | None = None
    feature: int | None = None
    subset: int | None = None
    share: float | None = None
    shade: float | None = None


@dataclass(frozen=True)
class Column:
    """A column of a table; numbers are aligned to the right."""

    title: str
    is_number: bool = False


@dataclass(frozen=True)
class Table:
    """A table with a caption; ``remark`` says what it leaves out."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    remark: str = ""
    is_folded: bool = False


@dataclass(frozen=True)
class Member:
    """A feature in a subset: its rank, and how much it added, in nats and relative to the most."""

    rank: int
    name: str
    feature: int
    subset: int
    added: str
    share: float
    note: str = ""


@dataclass(frozen=True)
class Group:
    """A subset: its title, its members by rank, and what they added together.

    ``number`` is None if the members are subsets of a single feature.
    """

    title: str
    number: int | None
    members: tuple[Member, ...]
    added: str


@dataclass(frozen=True)
class Groups:
    """All subsets."""

    groups: tuple[Group, ...]


@dataclass(frozen=True)
class Step:
    """A chosen feature on the curve of information by rank."""

    rank: int
    name: str
    feature: int
    subset: int
    gain: float
    information: float
    starts_epoch: bool = False


@dataclass(frozen=True)
class Curve:
    """Information and gain by rank; ``total`` is the entropy of the target, NaN if unknown."""

    steps: tuple[Step, ...]
    total: float


@dataclass(frozen=True)
class Part:
    """A part of the information: what one feature added, in nats."""

    name: str
    feature: int
    subset: int
    nats: float


@dataclass(frozen=True)
class Whole:
    """The parts of the entropy of the target that the features explain."""

    parts: tuple[Part, ...]
    total: float
    target: str


@dataclass(frozen=True)
class Block:
    """A chosen feature along the sides of a matrix."""

    name: str
    feature: int
    subset: int


@dataclass(frozen=True)
class Matrix:
    """A symmetric matrix of numbers from 0 to 1 between features, which are sorted by subset."""

    blocks: tuple[Block, ...]
    values: tuple[tuple[float, ...], ...]
    unit: str


@dataclass(frozen=True)
class Mark:
    """A chosen feature among all features: its place by relevance, from 0."""

    name: str
    feature: int
    subset: int
    rank: int
    place: int
    relevance: float


@dataclass(frozen=True)
class Relevance:
    """The relevance of all features in descending order, and the chosen features among them."""

    values: tuple[float, ...]
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Knot:
    """A feature of a network."""

    name: str
    feature: int


@dataclass(frozen=True)
class Link:
    """A line of a network between two knots, by their positions."""

    start: int
    end: int
    share: float
    is_strong: bool
    words: str


@dataclass(frozen=True)
class Network:
    """Features as points on a circle, and tuples of features as lines."""

    knots: tuple[Knot, ...]
    links: tuple[Link, ...]


@dataclass(frozen=True)
class Place:
    """A feature that a method chose: its subset there decides its colour."""

    name: str
    feature: int
    subset: int


@dataclass(frozen=True)
class Ranks:
    """The chosen features of several methods side by side; None where a method ended earlier."""

    labels: tuple[str, ...]
    columns: tuple[tuple[Place | None, ...], ...]
    shared: frozenset[int]


@dataclass(frozen=True)
class Line:
    """A line of a chart, with a label."""

    label: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class Lines:
    """Numbers from 0 to 1 by rank, one line per method."""

    lines: tuple[Line, ...]


Drawing = Curve | Whole | Matrix | Relevance | Network | Ranks | Lines


@dataclass(frozen=True)
class Picture:
    """A drawing with a description for readers who do not see it, and a table of its values."""

    drawing: Drawing
    title: str
    description: str
    legend: tuple[str, ...] = ()
    table: Table | None = None


@dataclass(frozen=True)
class Facts:
    """A list of names and values."""

    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class Text:
    """A paragraph; a remark is set apart from the text."""

    words: str
    is_remark: bool = False


Content = Groups | Picture | Table | Facts | Text


@dataclass(frozen=True)
class Section:
    """A section of a report. ``name`` is its address in the page."""

    name: str
    title: str
    content: tuple[Content, ...]


@dataclass(frozen=True)
class Brief:
    """What a notebook shows: a headline, lines below it, and parts of text and tables."""

    kind: Literal["selection", "comparison", "interactions"]
    headline: str
    details: tuple[str, ...]
    parts: tuple[Table | Text, ...]


@dataclass(frozen=True)
class Report:
    """A report: a headline, key figures and sections."""

    kind: Literal["selection", "comparison", "interactions"]
    headline: str
    lead: tuple[str, ...]
    figures: tuple[Fact, ...]
    sections: tuple[Section, ...]
