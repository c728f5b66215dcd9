"""After a restart: what a saved state says and what the API server says, put together. The API server is right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from gfs.core.events import Adopted, Cancelled, Event, EvictionDone, FoundRun, Lost, StartFailed
from gfs.core.run import Run
from gfs.core.scheduler import Scheduler
from gfs.domain.task import Task
from gfs.live.census import Census
from gfs.live.clock import Clock
from gfs.live.cluster import Cluster
from gfs.live.tasks import LiveTask, TaskBook
from gfs.live.translate.pods import PodView

WHOLE_SECOND = 1.0
"""Times of the API are cut to whole seconds. A run that is found begins with its last pod and after that second: no
checkpoint counts as taken before it can have been."""
MOST_RUNS = 11
"""Runs that notes on pods are believed: whoever was stopped twelve times is spared, and users can write notes, too."""


def remember(scheduler: Scheduler, book: TaskBook, census: Census) -> None:
    """Let the book and the census know what a saved state knows."""
    for pool in scheduler.pools.values():
        state = pool.state
        for node in state.nodes:
            census.restored(node.spec, node.cordoned)
        runs = (*state.runs.values(), *state.leaving, *state.vacating)
        for task in (*(run.task for run in runs), *(waiting.task for waiting in state.waiting.values())):
            book.known[task.name] = task
            book.next_index = max(book.next_index, task.index + 1)


def reconcile(
    scheduler: Scheduler,
    book: TaskBook,
    cluster: Cluster,
    found: dict[str, list[PodView]],
    expect: Callable[[LiveTask], object],
    again: Callable[[LiveTask], object],
) -> list[Event]:
    """What has become of the runs and tasks of a saved state; pods of runs that go on are taken out of `found`.

    Tasks that were evicted and have no pod are told to `expect`: their controllers will create them again. Those that
    need fewer pods than the state knows are told to `again`: they are to be submitted anew.
    """
    events: list[Event] = []
    done = tasks_done(cluster)
    for pool in scheduler.pools.values():
        state = pool.state
        for run in list(state.leaving):
            pods = [pod for pod in cluster.pods.values() if _is_of(pod, run) and not pod.over]
            if not pods:
                events.append(EvictionDone(run))
            else:
                book.keep(run.task)
                book.attach(run, pods, leaving=True)
                rest = [pod for pod in found.pop(run.task.name, ()) if pod not in pods]
                if rest:
                    found[run.task.name] = rest
        for run in list(state.runs.values()):
            events += _of_run(run, book, found, again, pending=run in state.pending)
        for waiting in list(state.waiting.values()):
            task = book.by_name.get(waiting.task.name)
            if task is not None and not _is_known(task, waiting.task):
                events.append(Cancelled(waiting.task))
                continue
            if task is None and waiting.number > 1 and waiting.task.name not in done:
                expect(book.keep(waiting.task))
                task = book.by_name[waiting.task.name]
            elif task is None or (len(task.free) < task.needs and task.name not in found):
                events.append(Cancelled(waiting.task))
                continue
            task.logged, task.offset = True, waiting.number - 1
            task.told = task.task is None or task.task.pods == waiting.task.pods
            if not task.told:  # some of its pods have succeeded meanwhile
                events.append(Cancelled(waiting.task))
                again(task)
    return events


def _of_run(
    run: Run,
    book: TaskBook,
    found: dict[str, list[PodView]],
    again: Callable[[LiveTask], object],
    *,
    pending: bool,
) -> list[Event]:
    name = run.task.name
    pods, task = found.get(name, []), book.by_name.get(name)
    where = Counter(node.name for node, _, held in run.places for _ in range(held // run.task.cards))
    if task is not None and not _is_known(task, run.task):
        return [Lost(run), Cancelled(run.task)]
    if task is not None:
        task.logged = True
    if pods and Counter(pod.node for pod in pods) == where and not pending:
        del found[name]
        book.attach(run, pods)
        return []
    if task is not None and not pods and len(task.free) >= task.needs:
        task.told = task.needs == run.task.pods
        if task.told:
            return [StartFailed(run)]
        task.offset = run.number - 1 if pending else run.number
        again(task)  # some of its pods have succeeded meanwhile
        return [StartFailed(run), Cancelled(run.task)]
    if task is not None and len(pods) >= task.needs:
        return [Lost(run)]  # and adopted where it is: who is cancelled in this instant could not be
    return [Lost(run), Cancelled(run.task)]


def _is_known(task: LiveTask, saved: Task) -> bool:
    """Whether it is the saved task, not another of its name that asks for something else."""
    return task.task is not None and task.task.index == saved.index


def tasks_done(cluster: Cluster) -> set[str]:
    """Tasks that have nothing left but pods that have succeeded."""
    done: dict[str, bool] = {}
    for pod in cluster.pods.values():
        if pod.bound_as is not None:
            done[pod.bound_as.task] = done.get(pod.bound_as.task, True) and pod.phase == "Succeeded"
    return {name for name, all_of_it in done.items() if all_of_it}


def adopt(
    book: TaskBook, found: dict[str, list[PodView]], clock: Clock
) -> tuple[list[Event], dict[str, list[PodView]]]:
    """Runs that nobody here started, with their pods by task: these are taken out of `found`.

    Left there are pods of gangs that are bound only in part, and those beyond the minimum.
    """
    runs: list[FoundRun] = []
    adopted: dict[str, list[PodView]] = {}
    for name, pods in sorted(found.items(), key=lambda each: (min(p.created for p in each[1]), each[0])):
        task = book.by_name[name]
        if task.run is not None or len(pods) < task.needs:
            continue
        pods.sort(key=lambda pod: (pod.created, pod.path))
        mine, found[name] = pods[: task.needs], pods[task.needs :]
        if not found[name]:
            del found[name]
        core = book.core_task(task, mine)
        noted = [pod.bound_as for pod in mine if pod.bound_as is not None]
        start = clock.of_wall(max(pod.started or pod.created for pod in mine) + WHOLE_SECOND)
        number = min(max((note.run for note in noted), default=1), MOST_RUNS)
        runs.append(FoundRun(core, sorted(Counter(pod.node for pod in mine).items()), start, number))
        task.logged = task.logged or bool(noted)
        adopted[name] = mine
    return ([Adopted(runs)] if runs else []), adopted


def _is_of(pod: PodView, run: Run) -> bool:
    return pod.bound_as is not None and (pod.bound_as.task, pod.bound_as.run) == (run.task.name, run.number)


def attach_adopted(scheduler: Scheduler, book: TaskBook, adopted: dict[str, list[PodView]]) -> Iterable[LiveTask]:
    """After the core has taken the runs over: their pods are theirs. Gives the tasks that run."""
    for name, pods in adopted.items():
        task = book.by_name.get(name)
        if task is None or task.task is None:
            continue
        pool = scheduler.pools.get(task.task.gpu_model)
        run = pool.state.runs.get(task.task.index) if pool else None
        if run is not None:
            book.attach(run, pods)
            yield task
