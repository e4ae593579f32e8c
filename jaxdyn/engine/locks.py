"""Locks that do not outlive a fork: a thread of the parent that held one does not go on in the child."""

import os
import threading
import weakref

_all: "weakref.WeakSet[Lock]" = weakref.WeakSet()


class Lock:
    """A reentrant lock, for ``with``, that is free in the child after a fork."""

    def __init__(self):
        self._lock = threading.RLock()
        _all.add(self)

    def renew(self) -> None:
        """Free the lock if another thread holds it, which is to be called where that thread no longer runs."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock = threading.RLock()

    def __enter__(self):
        self._lock.acquire()

    def __exit__(self, *error):
        self._lock.release()


def _after_fork() -> None:
    for lock in list(_all):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
