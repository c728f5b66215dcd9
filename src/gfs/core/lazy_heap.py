"""A heap whose items may leave without being looked for: what has left is dropped when it surfaces.

Who is still in is known by its owner (`home`): an item is in the heap that its home says. So a change costs a
push, the first item is at hand, and a heap that has gathered many leavers is cleared out.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T", bound=int | tuple[int, ...])
K = TypeVar("K", contravariant=True)


class Home(Protocol[K]):
    """Says for every item in which heap it is, if in any: a list by position, or a mapping."""

    def __getitem__(self, item: K, /) -> Any:
        """The heap."""


class LazyHeap(Generic[T]):
    """Items with the least at hand. `count` is how many are in; the list may hold more."""

    __slots__ = ("count", "heap")

    def __init__(self) -> None:
        self.count = 0
        self.heap: list[T] = []

    def push(self, item: T, home: Home[T]) -> None:
        """An item comes; its home must say so already. Who leaves only lowers `count`."""
        self.count += 1
        heappush(self.heap, item)
        if len(self.heap) > 4 * self.count + 64:
            self.clear_out(home)

    def first(self, home: Home[T]) -> T:
        """The least item that is in; there must be one."""
        heap = self.heap
        item = heap[0]
        while home[item] is not self:
            heappop(heap)
            item = heap[0]
        return item

    def rising(self, home: Home[T]) -> Iterator[T]:
        """The items that are in, least first, without taking any out: to see k of them costs k log k."""
        heap, last = self.heap, None
        if not self.count:
            return
        self.first(home)  # those that have left and surfaced are not met again
        ahead = [(heap[0], 0)]
        while ahead:
            item, at = heappop(ahead)
            if item != last and home[item] is self:
                yield item
            last = item
            for child in (2 * at + 1, 2 * at + 2):
                if child < len(heap):
                    heappush(ahead, (heap[child], child))

    def clear_out(self, home: Home[T]) -> None:
        """Drop items that have left and items entered twice."""
        self.heap[:] = {item for item in self.heap if home[item] is self}
        heapify(self.heap)
