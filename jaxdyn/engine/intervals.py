"""An allocator of memory: takes and frees pieces."""

import bisect

#: most free pieces that are tried; some do not fit once aligned
_TRIES = 20


class Intervals:
    """Allocated and free pieces of memory. `size` is the largest end of a piece allocated so far."""

    def __init__(self):
        self.size = 0
        #: the free pieces: sorted (length, start); lengths by start, and lengths by end
        self._sorted: list[tuple[int, int]] = []
        self._starts: dict[int, int] = {}
        self._ends: dict[int, int] = {}

    def take(self, size: int, align: int) -> int:
        """Allocate a piece and return its offset: in the smallest free piece that fits, or at the end."""
        for length, start in self._sorted[bisect.bisect(self._sorted, (size, -1)) :][:_TRIES]:
            at = -(-start // align) * align
            left = start + length - at - size
            if left >= 0:
                self._remove(start, length)
                self._add(start, at - start)
                self._add(at + size, left)
                return at
        at = -(-self.size // align) * align
        before, self.size = self.size, at + size
        self._add(before, at - before)
        return at

    def free(self, start: int, length: int) -> None:
        """Free a piece, and merge it with free neighbours."""
        after = self._starts.get(start + length)
        if after is not None:
            self._remove(start + length, after)
            length += after
        before = self._ends.get(start)
        if before is not None:
            self._remove(start - before, before)
            start, length = start - before, length + before
        self._add(start, length)

    def _add(self, start: int, length: int) -> None:
        if length:
            bisect.insort(self._sorted, (length, start))
            self._starts[start] = self._ends[start + length] = length

    def _remove(self, start: int, length: int) -> None:
        del self._sorted[bisect.bisect_left(self._sorted, (length, start))]
        del self._starts[start], self._ends[start + length]
