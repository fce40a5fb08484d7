"""Base classes of objects that hold secrets and refuse to reveal them by accident."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn, SupportsIndex


class NotCopied:
    """An object that refuses to be copied or pickled."""

    __slots__ = ()
    #: Message of the TypeError.
    _refusal: ClassVar[str]

    def _refuse(self, *_: Any) -> NoReturn:
        raise TypeError(self._refusal)

    __copy__ = __deepcopy__ = __reduce__ = __getstate__ = _refuse

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        self._refuse()


class Unchangeable(NotCopied):
    """An object that also refuses changes: noise is calibrated to its attributes."""

    __slots__ = ()

    def _refuse_change(self, *_: Any) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} cannot be changed: noise is calibrated to it")

    __setattr__ = __delattr__ = _refuse_change
