"""A heap whose items leave without being looked for: what is at hand is always the least that is in."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gfs.core.lazy_heap import LazyHeap

Home = list[LazyHeap[int] | None]


def move(item: int, to: LazyHeap[int] | None, home: Home) -> None:
    """An item leaves the heap it is in, and comes to another one or to none."""
    old = home[item]
    if old is not None:
        old.count -= 1
    home[item] = to
    if to is not None:
        to.push(item, home)


def test_who_has_left_is_passed_over() -> None:
    heap: LazyHeap[int] = LazyHeap()
    home: Home = [None] * 5
    for item in (4, 1, 3):
        move(item, heap, home)
    assert (heap.first(home), heap.count) == (1, 3)
    move(1, None, home)
    assert (heap.first(home), heap.count) == (3, 2)
    move(1, heap, home)
    assert list(heap.rising(home)) == [1, 3, 4]


def test_who_has_moved_to_another_heap_is_not_found_here() -> None:
    mine, yours = LazyHeap[int](), LazyHeap[int]()
    home: Home = [None] * 3
    move(0, mine, home)
    move(2, mine, home)
    move(0, yours, home)
    assert (mine.first(home), yours.first(home)) == (2, 0)


def test_who_comes_and_goes_for_ever_does_not_fill_it() -> None:
    heap: LazyHeap[int] = LazyHeap()
    home: Home = [None] * 4
    move(3, heap, home)
    for _ in range(10_000):
        for item in (0, 1, 2):
            move(item, heap, home)
            move(item, None, home)
    assert len(heap.heap) <= 4 * 4 + 64
    assert heap.first(home) == 3


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 19), st.sampled_from([0, 1, 2])), max_size=300), st.integers(1, 7))
def test_it_is_a_sorted_set(moves: list[tuple[int, int]], every: int) -> None:
    heaps = [LazyHeap[int](), LazyHeap[int]()]
    home: Home = [None] * 20
    members: list[set[int]] = [set(), set()]
    for number, (item, where) in enumerate(moves):
        if home[item] is (heaps[where] if where < 2 else None):
            continue
        move(item, heaps[where] if where < 2 else None, home)
        for i, some in enumerate(members):
            some.discard(item)
            if i == where:
                some.add(item)
        if number % every == 0:
            for heap, some in zip(heaps, members, strict=True):
                assert heap.count == len(some)
                assert list(heap.rising(home)) == sorted(some)
                if some:
                    assert heap.first(home) == min(some)
