"""Neighbouring relations: which pairs of data sets a guarantee makes indistinguishable."""

from __future__ import annotations

from enum import StrEnum

from dperm.accounting._checks import check_member


class Neighbours(StrEnum):
    """Neighbouring relation of a differential privacy guarantee.

    Attributes
    ----------
    ADD_OR_REMOVE
        Two data sets are neighbours when one has one record more than the other. The guarantee hides
        whether a record took part at all. Sums are divided by a public number, never by the private count.
    REPLACE_ONE
        Two data sets are neighbours when they have the same public number of records and differ in
        one of them. The guarantee hides the content of a record, not the number of records.

    Notes
    -----
    An (epsilon, delta) guarantee for ``add_or_remove`` gives one for ``replace_one`` only through
    two steps (remove, then add), that is ``(2 epsilon, (1 + e^epsilon) delta)``.

    Examples
    --------
    >>> Neighbours.REPLACE_ONE.sum_factor
    2
    >>> print("Data sets that", Neighbours.parse("replace_one").words)
    Data sets that have the same number of records and differ in the content of one of them
    """

    ADD_OR_REMOVE = "add_or_remove"
    REPLACE_ONE = "replace_one"

    @property
    def sum_factor(self) -> int:
        """Change of a sum of vectors of norm at most C between neighbours, in units of C."""
        return 1 if self is Neighbours.ADD_OR_REMOVE else 2

    @property
    def score_range_factor(self) -> int:
        """Range of one record's effect on a vector of loss sums in [0, C], in units of C.

        Adding a record moves every score up by something in [0, C], so the effects differ by at most
        C; replacing one moves each score by something in [-C, C], so they differ by at most 2 C.
        """
        return 1 if self is Neighbours.ADD_OR_REMOVE else 2

    @property
    def words(self) -> str:
        """The relation as a phrase that completes 'two data sets that ...'."""
        if self is Neighbours.ADD_OR_REMOVE:
            return "differ by the presence or absence of one record"
        return "have the same number of records and differ in the content of one of them"

    @classmethod
    def parse(cls, value: str) -> Neighbours:
        """Return the relation named by `value`; ValueError if there is none."""
        return value if isinstance(value, cls) else check_member(cls, value, "neighbors")
