"""Who gets its chance first (docs/concepts/how-gfs-decides.md).

Most cases share one scene: a node of 8 cards is busy with an HP task until 100, tasks gather meanwhile, and at
100 they are served in order. Cards are given lowest number first, so the cards tell the order.
"""

from __future__ import annotations

from builders import hp, nodes, play, spot
from gfs import Priority, Task
from gfs.policies.queues import FcfsQueue, HeadBlockingQueue, SizedQueue

BUSY = hp("busy", gpus=8, lasting=100)


def asks_alike(task: Task) -> None:
    """All tasks ask for the same besides GPUs."""


def test_more_gpus_per_pod_go_first_however_late_they_came() -> None:
    story = play(nodes(8), BUSY, spot("one", gpus=1, at=10), spot("two", gpus=2, at=20), spot("four", gpus=4, at=30))
    assert story.where("four") == ["n0/0+1+2+3"]
    assert story.where("two") == ["n0/4+5"]
    assert story.where("one") == ["n0/6"]


def test_of_equal_pods_the_task_with_fewer_goes_first() -> None:
    story = play(nodes(8), BUSY, spot("pair", gpus=2, pods=2, at=10), spot("single", gpus=2, at=20))
    assert story.where("single") == ["n0/0+1"]
    assert story.where("pair") == ["n0/2+3", "n0/4+5"]


def test_the_size_of_a_pod_counts_not_that_of_the_task() -> None:
    # 3 x 2 = 6 GPUs in all, yet 1 x 3 goes first.
    story = play(nodes(8), BUSY, spot("six", gpus=2, pods=3, at=10), spot("three", gpus=3, at=20))
    assert story.where("three") == ["n0/0+1+2"]
    assert story.started("six") == [200.0]  # five cards are left for it at 100


def test_equals_go_by_submission_then_by_name() -> None:
    story = play(nodes(8), BUSY, spot("b", gpus=2, at=20), spot("c", gpus=2, at=10), spot("a", gpus=2, at=20))
    assert [story.where(name) for name in "cab"] == [["n0/0+1"], ["n0/2+3"], ["n0/4+5"]]


def test_fractions_come_after_whole_cards_larger_ones_first() -> None:
    story = play(nodes(1), hp("busy", lasting=100), spot("s", gpus=0.3, at=1), spot("m", gpus=0.6, at=2))
    # 0.6 opens the card, 0.3 joins it: both fit, the order shows only in the log.
    at_100 = [line.task for line in story.lines if line.time == 100 and line.event == "start"]
    assert at_100 == ["m", "s"]


def test_equals_with_another_guarantee_go_by_submission_too() -> None:
    # Each guarantee has a lane of its own; which of them came up first makes no difference.
    queue, served = SizedQueue(asks_alike), []
    for index, hours in ((3, 1.0), (1, 4.0), (2, 1.0), (0, 2.0)):
        queue.push(spot(f"s{index}", gpus=2, hours=hours).task(index))
    queue.scan(lambda task: not served.append(task.index), 8, lambda hours: 8.0)
    assert served == [0, 1, 2, 3]


def test_who_withdraws_does_not_change_the_order_of_the_others() -> None:
    queue, served = HeadBlockingQueue(asks_alike), []
    tasks = {index: hp(f"h{index}").task(index) for index in range(5)}
    for index in (2, 1, 0, 4, 3):
        queue.push(tasks[index])
    queue.remove(tasks[0])
    assert queue.head() is tasks[1]
    queue.scan(lambda task: not served.append(task.index), 8, lambda hours: 8.0)
    assert served == [1, 2, 3, 4]


def test_hp_goes_before_spot_whatever_the_size() -> None:
    story = play(nodes(8), BUSY, spot("s", gpus=8, at=10), hp("h", gpus=1, at=20))
    assert story.started("h") == [100.0]
    assert story.started("s") == [200.0]


def test_a_size_that_failed_lets_smaller_ones_pass() -> None:
    # At 100 four of eight cards come free: 8 and 6 fail, 4 goes.
    story = play(
        nodes(8),
        hp("long", gpus=4, lasting=1000),
        hp("short", gpus=4, lasting=100),
        spot("eight", gpus=8, at=10),
        spot("six", gpus=6, at=11),
        spot("four", gpus=4, at=12),
    )
    assert story.started("four") == [100.0]
    # four is done at 200, long at 1000; then the largest goes first.
    assert story.started("eight") == [1000.0]
    assert story.started("six") == [1100.0]


def test_a_gang_that_failed_does_not_block_smaller_pods() -> None:
    # Two cards come free: 2 x 2 fails though one of its pods would fit, 1 x 1 goes.
    story = play(
        nodes(4),
        hp("stays", gpus=2, lasting=1000),
        hp("goes", gpus=2, lasting=100),
        spot("gang", gpus=2, pods=2, at=10),
        spot("small", gpus=1, at=20),
    )
    assert story.started("small") == [100.0]
    assert story.started("gang") == [1000.0]


def test_a_size_refused_by_the_quota_of_one_guarantee_is_tried_for_another() -> None:
    # For four hours nothing is left of the quota, for one hour 8 GPUs: same size, other constraint.
    queue, tried = SizedQueue(asks_alike), list[str]()
    for index, hours in enumerate((4, 4, 1)):
        queue.push(spot(f"{hours} h", gpus=2, hours=hours).task(index))

    def attempt(task: Task) -> bool:
        tried.append(task.name)
        return True

    queue.scan(attempt, 8, lambda hours: 8.0 if hours == 1 else 0.0)
    assert tried == ["1 h"]


def test_limits_are_asked_for_again_when_a_task_has_started() -> None:
    # 5 GPUs are left: 4 of them go to the first, so the one that wants 2 must wait and the one that wants 1 may go.
    queue, left, asked = SizedQueue(asks_alike), [5.0], list[float]()
    for index, gpus in enumerate((8, 4, 2, 1)):
        queue.push(spot(f"{gpus} GPUs", gpus=gpus).task(index))
    tried: list[str] = []

    def attempt(task: Task) -> bool:
        tried.append(task.name)
        left[0] -= task.gpus
        return True

    def limit(hours: float) -> float:
        asked.append(hours)
        return left[0]

    queue.scan(attempt, 8, limit)
    assert tried == ["4 GPUs", "1 GPUs"]
    assert len(asked) == 2, "for the sizes of 8 and 4, and for those of 2 and 1"


def test_an_evicted_task_keeps_its_place_by_submission() -> None:
    # "first" is evicted at 50 and waits again; "second" came at 40, later than "first" at 0. Both want 8 cards.
    story = play(
        nodes(8),
        spot("first", gpus=8, lasting=1000),
        spot("second", gpus=8, at=40),
        hp("h", gpus=8, at=50, lasting=20),
    )
    assert story.evicted("first") == [50.0]
    assert story.started("first") == [0.0, 100.0]  # h runs from 80 to 100
    # 40 s overhead and 1000 s of work, nothing was saved: 100 + 1040.
    assert story.started("second") == [1140.0]


# -- yarn-cs: first come first served, and a head that does not fit blocks ---------------------------------


def test_yarn_serves_by_submission_not_by_size() -> None:
    story = play(nodes(8), BUSY, spot("one", gpus=1, at=10), spot("four", gpus=4, at=20), scheduler="yarn-cs")
    assert story.where("one") == ["n0/0"]
    assert story.where("four") == ["n0/1+2+3+4"]


def test_yarn_a_spot_head_blocks_all_spot_behind_it() -> None:
    story = play(
        nodes(8),
        hp("long", gpus=4, lasting=1000),
        spot("eight", gpus=8, at=10),
        spot("one", gpus=1, at=20),
        scheduler="yarn-cs",
    )
    assert story.started("eight") == [1000.0]
    assert story.started("one") == [1100.0]
    assert story.why_waited("one") == "queued behind eight, which does not fit yet"


def test_yarn_a_spot_head_does_not_block_hp() -> None:
    story = play(
        nodes(8),
        hp("long", gpus=4, lasting=1000),
        spot("eight", gpus=8, at=10),
        hp("h", gpus=1, at=20),
        scheduler="yarn-cs",
    )
    assert story.started("h") == [20.0]


def test_yarn_an_hp_head_blocks_hp_but_gfs_lets_the_smaller_pass() -> None:
    tasks = [hp("long", gpus=4, lasting=1000), hp("eight", gpus=8, at=10), hp("one", gpus=1, at=20)]
    assert play(nodes(8), *tasks, scheduler="yarn-cs").started("one") == [1100.0]
    assert play(nodes(8), *tasks, scheduler="gfs").started("one") == [20.0]


def test_yarn_an_hp_head_that_waits_does_not_block_spot() -> None:
    story = play(
        nodes(8),
        hp("long", gpus=4, lasting=1000),
        hp("eight", gpus=8, at=10),
        spot("s", gpus=1, at=20),
        scheduler="yarn-cs",
    )
    assert story.started("s") == [20.0]


# -- static: first come first served, but a task that does not fit is passed by ----------------------------


def test_static_serves_by_submission_but_passes_by_what_does_not_fit() -> None:
    story = play(
        nodes(8),
        hp("long", gpus=4, lasting=1000),
        hp("short", gpus=4, lasting=100),
        spot("eight", gpus=8, at=10),
        spot("one", gpus=1, at=20),
        spot("two", gpus=2, at=30),
        scheduler="static",
        quota_share=1.0,
    )
    assert story.where("one") == ["n0/4"]  # before the larger "two", which came later
    assert story.where("two") == ["n0/5+6"]
    assert story.started("one") == story.started("two") == [100.0]
    assert story.started("eight") == [1000.0]


def test_static_a_large_gang_that_fails_lets_a_small_one_of_that_size_go() -> None:
    story = play(
        nodes(8),
        hp("long", gpus=4, lasting=1000),
        hp("short", gpus=4, lasting=100),
        spot("three", gpus=2, pods=3, at=10),
        spot("pair", gpus=2, pods=2, at=20),
        scheduler="static",
        quota_share=1.0,
    )
    assert story.started("pair") == [100.0]
    assert story.started("three") == [1000.0]


def test_static_what_failed_says_something_of_larger_ones_with_its_guarantee_only() -> None:
    # The first one fails. The second is larger and has the same guarantee; the third has another quota, the fourth less
    # to ask for.
    queue, tried = FcfsQueue(asks_alike), list[int]()
    for index, (gpus, hours) in enumerate(((4, 1.0), (8, 1.0), (4, 4.0), (2, 1.0))):
        queue.push(spot(f"s{index}", gpus=gpus, hours=hours).task(index))
    queue.scan(lambda task: bool(tried.append(task.index)), 8, lambda hours: 8.0)
    assert tried == [0, 2, 3]


def test_sizes_that_have_left_are_forgotten() -> None:
    queue = SizedQueue(asks_alike)
    for i in range(50):
        queue.push(Task(i, f"t{i}", "o", "A100", Priority.SPOT, 1, (i + 1) / 100, 0.0, 1.0))
    queue.scan(lambda task: True, 8, lambda hours: 1e9)
    assert queue._lanes == {}
