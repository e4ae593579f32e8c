"""Bounded caches for what the engine builds for robots, which users may drop later. Loaded machine code is never freed;
everything else is bounded."""

import functools
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar

from .locks import Lock

#: most XLA programs, a megabyte or more each
PROGRAMS = 64
#: most traces of steps, plans and the like, some ten kilobytes each; a robot has a few dozen
PARTS = 2048
#: most tables of recursions; a robot has a dozen
TABLES = 256

T = TypeVar("T")

#: functions that empty the caches
_all: list = []


def programs(make: Callable):
    """Cache the last results of a function that makes XLA programs or parts of one."""
    return _bounded(make, PROGRAMS)


def parts(make: Callable):
    """Cache the last results of a function that makes parts of programs."""
    return _bounded(make, PARTS)


def tables(make: Callable):
    """Cache the last results of a function that makes tables of recursions."""
    return _bounded(make, TABLES)


def _bounded(make: Callable, most: int):
    kept = functools.lru_cache(maxsize=most)(make)
    _all.append(kept.cache_clear)
    return kept


def forget() -> None:
    """Empty all of these caches. Loaded machine code stays."""
    for clear in _all:
        clear()


class Kept:
    """A cache of the `most` values that were used last, by key."""

    def __init__(self, most: int):
        self.most = most
        self._things: OrderedDict = OrderedDict()
        self._lock = Lock()
        _all.append(self.clear)

    def __len__(self) -> int:
        return len(self._things)

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of this key, made by ``make()`` if there is none. Threads that make it at the same time get
        the same one."""
        with self._lock:
            if key in self._things:
                self._things.move_to_end(key)
                return self._things[key]
        made = make()
        with self._lock:
            made = self._things.setdefault(key, made)
            self._things.move_to_end(key)
            while len(self._things) > self.most:
                self._things.popitem(last=False)
        return made

    def clear(self) -> None:
        with self._lock:
            self._things.clear()
