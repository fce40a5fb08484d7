"""What all objects that hold secrets have in common: no way out but the one they are made for."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn, SupportsIndex


class NotCopied:
    """It is neither copied nor pickled."""

    __slots__ = ()
    #: What the TypeError says.
    _refusal: ClassVar[str]

    def _refuse(self, *_: Any) -> NoReturn:
        raise TypeError(self._refusal)

    __copy__ = __deepcopy__ = __reduce__ = __getstate__ = _refuse

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        self._refuse()


class Unchangeable(NotCopied):
    """Nor is it changed: noise is calibrated to what it says of itself."""

    __slots__ = ()

    def _refuse_change(self, *_: Any) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} cannot be changed: noise is calibrated to it")

    __setattr__ = __delattr__ = _refuse_change
