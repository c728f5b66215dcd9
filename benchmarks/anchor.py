"""The yardstick: a bare `heapq` loop that only replays the arrivals and finishes of a workload.

It decides nothing and holds no cards. Every arrival and every finish passes once through the heap, as in any
event-driven simulator. Times are given as multiples of it, measured in the same run on the same machine.
"""

from __future__ import annotations

import gc
import heapq
import time

from gfs import Workload


def bare_replay(workload: Workload) -> float:
    """CPU seconds to replay the workload as if every task started when it was submitted."""
    arrivals = [task.submit_time for task in workload.tasks]
    durations = workload.durations
    last = len(arrivals) - 1
    push, pop = heapq.heappush, heapq.heappop
    gc.disable()
    before = time.process_time()
    heap = [(arrivals[0], 0, False)]
    while heap:
        now, task, finishes = pop(heap)
        if not finishes:
            push(heap, (now + durations[task], task, True))
            if task < last:
                push(heap, (arrivals[task + 1], task + 1, False))
    seconds = time.process_time() - before
    gc.enable()
    return seconds
