"""How much the engine keeps of robots that may be gone. Code that was loaded stays; all else is kept within bounds."""

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar

#: programs of XLA's, a megabyte or more each, of which the last ones that were used are kept
PROGRAMS = 64
#: traces of steps, plans and the like: some ten kilobytes each, and a robot has some dozens
PARTS = 2048
#: tables of a robot's recursions: a robot has a dozen
TABLES = 256

T = TypeVar("T")

#: everything that is kept within bounds, to be forgotten at once
_all: list = []


def programs(make: Callable):
    """Keep the last results of a function of hashable things that makes programs of XLA's, or what becomes one."""
    return _bounded(make, PROGRAMS)


def parts(make: Callable):
    """Keep the last results of a function of hashable things that makes parts of programs."""
    return _bounded(make, PARTS)


def tables(make: Callable):
    """Keep the last results of a function of hashable things that makes tables of recursions."""
    return _bounded(make, TABLES)


def _bounded(make: Callable, most: int):
    kept = functools.lru_cache(maxsize=most)(make)
    _all.append(kept.cache_clear)
    return kept


def forget() -> None:
    """Drop all that is kept of robots; code that was loaded stays."""
    for clear in _all:
        clear()


class Kept:
    """The last things that were asked for, by key: `most` of them."""

    def __init__(self, most: int):
        self.most = most
        self._things: OrderedDict = OrderedDict()
        self._lock = threading.Lock()
        _all.append(self.clear)

    def __len__(self) -> int:
        return len(self._things)

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the thing of this key, from ``make()`` if there is none. Threads that make it at once get one."""
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
