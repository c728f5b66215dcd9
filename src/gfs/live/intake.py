"""What happened to pods, in events of the core: submitted, withdrawn, finished, lost, left, saved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from math import inf

from gfs.core.actions import CANCEL, FINISH, LOST, SUBMIT, LostRun, Record
from gfs.core.events import Cancelled, CheckpointsSaved, Event, EvictionDone, Finished, Lost, StartFailed, Submitted
from gfs.core.run import Run
from gfs.domain.task import Priority
from gfs.live.census import Census
from gfs.live.clock import Clock
from gfs.live.cluster import Cluster, members_of
from gfs.live.say import Speaker
from gfs.live.shadow import Shadow
from gfs.live.tasks import LiveRun, LiveTask, TaskBook
from gfs.live.translate.pods import DOUBTED, LAST_CHECKPOINT, Doubt, PodView
from gfs.live.translate.pools import Refusal
from gfs.live.translate.quantities import rfc3339

GONE = "its pods are gone"
FORGET = 3600.0
"""Seconds after which a task without pods is over, though it has a controller."""
MOST = 500
"""Tasks that are submitted in one instant, less the bindings that are still under way. Of a flood, which may cost the
core milliseconds each, the rest comes in the next ones: meanwhile pods are bound, watches read, the lease is renewed,
and whoever is urgent finds no thousands of bindings before its own."""
SAVED_EVERY = 1.0
"""Seconds between two tellings of checkpoints: the core puts its victims in order again after each."""
SKEW = 60.0
"""Seconds that the clock of a user's program may be ahead of ours."""


class Intake:
    """Turns changes of pods into events, and keeps the book of tasks."""

    def __init__(
        self,
        cluster: Cluster,
        book: TaskBook,
        census: Census,
        speaker: Speaker,
        record: Callable[[Record], None],
        clock: Clock,
        monotonic: Callable[[], float],
    ) -> None:
        self._cluster, self._book, self._census = cluster, book, census
        self._speaker, self._record, self._clock, self._monotonic = speaker, record, clock, monotonic
        self._events: list[Event] = []
        self._ready: dict[LiveTask, None] = {}
        self._held: dict[LiveTask, None] = {}
        """Tasks of a flood that are not urgent and for which it is not time yet."""
        self.under_way: Callable[[], int] = lambda: 0
        """How many bindings are not answered yet."""
        self._withdrawn: dict[LiveTask, None] = {}
        """Tasks that were withdrawn in this instant: they can be submitted again in the next."""
        self._saved: dict[Run, float] = {}
        self._told_saved = -inf
        self.doubted: Counter[str] = Counter()
        """Claims of pods that were not believed -> how many."""
        self.found: dict[str, list[PodView]] = {}
        """Task name -> its pods that somebody else bound, or we before a restart: to be adopted."""
        self.missing: dict[LiveTask, float] = {}
        """Tasks that the core knows and that have no pod -> since when."""
        self._now = 0.0
        self.shadow: Shadow | None = None

    def take(self, now: float) -> list[Event]:
        """The events of all that changed since the last time."""
        self._now = now
        self._book.look_through()
        changes, self._cluster.pod_changes = self._cluster.pod_changes, []
        for before, after in changes:
            if after is None or after.over:
                pod = after or before
                if pod is not None:
                    self._gone(pod)
            elif after.ours:
                self._seen(after)
        if self._cluster.rules_changed:
            self._cluster.rules_changed = False
            for uid in list(self._book.refused):
                pod = self._cluster.pods.get(uid)
                if pod is not None and not pod.over:
                    self._seen(pod)
        self.expect_no_longer(self._cluster.settings.return_timeout)
        self._submit()
        if self._saved and self._monotonic() - self._told_saved >= SAVED_EVERY:
            self._told_saved = self._monotonic()
            self._events.append(CheckpointsSaved(list(self._saved.items())))
            self._saved = {}
        events, self._events = self._events, []
        return events

    # -- pods that are there -----------------------------------------------------------------------

    def _seen(self, pod: PodView) -> None:
        task = self._book.by_pod.get(pod.uid)
        if task is None:
            self._new(pod)
        elif pod.uid in task.free:
            task.free[pod.uid] = pod
            if pod.deleting:
                self._gone(pod)
            elif pod.node:
                del task.free[pod.uid]
                self._book.vacated(task)
                if self.shadow is not None:
                    self.shadow.bound(pod, None, self._now, self._speaker.why(pod.uid))
                self.found.setdefault(task.name, []).append(pod)
        elif (live := self._book.run_of_pod.get(pod.uid)) is not None:
            if self.shadow is not None and pod.node and not live.began:
                self._taken_over(live, pod, self.shadow)
            elif pod.node and pod.uid not in live.bound:
                live.bound.add(pod.uid)
                live.pods[pod.uid] = pod.node
            if pod.last_checkpoint is not None and not live.leaving:
                self._checkpointed(live.run, pod, pod.last_checkpoint)

    def _checkpointed(self, run: Run, pod: PodView, at: float) -> None:
        if self._clock.of_wall(at - SKEW) >= self._now:  # the clock knows no future
            self._doubt(pod, Doubt("last-checkpoint", DOUBTED, f"{LAST_CHECKPOINT} = {rfc3339(at)}: is yet to come"))
            return
        saved = min(self._clock.of_wall(at), self._now)
        if saved > run.progress_from:
            self._saved[run] = max(saved, self._saved.get(run, saved))

    def _doubt(self, pod: PodView, doubt: Doubt) -> None:
        self.doubted[doubt.claim] += 1
        self._speaker.warn(pod, doubt.reason, doubt.text)

    def _look_at_claims(self, pod: PodView) -> None:
        """Tell and count what a new pod claims and is not believed."""
        for doubt in pod.doubts:
            self._doubt(pod, doubt)
        settings = self._cluster.settings
        whose = self._cluster.organization(pod.namespace, pod.organization)
        if pod.organization and whose != pod.organization:
            told = f"{settings.organization_label} = {pod.organization}: pods of its namespace belong to {whose}"
            self._doubt(pod, Doubt("organization", DOUBTED, told))
        if pod.grace > settings.longest_grace and self._book.priority(pod) is Priority.SPOT:
            told = f"terminationGracePeriodSeconds = {pod.grace:.0f}: an eviction gives it {settings.longest_grace:g} s"
            self._doubt(pod, Doubt("grace", DOUBTED, told))

    def _taken_over(self, live: LiveRun, pod: PodView, shadow: Shadow) -> None:
        """The other scheduler bound a pod of a run that was only planned: the truth counts."""
        planned = live.pods.pop(pod.uid)
        shadow.bound(pod, planned, self._now, "")
        self._book.run_of_pod.pop(pod.uid, None)
        if self._book.of_run.get(live.run) is live:
            self._events.append(StartFailed(live.run))
            self._book.release(live, keep_waiting=True)
        self.found.setdefault(live.of.name, []).append(pod)

    def _new(self, pod: PodView) -> None:
        if pod.gated or pod.deleting or pod.uid in self._book.taken_back:
            return  # one that goes holds what it holds until it is gone
        found = self._book.find(pod, self._clock.of_wall(pod.created))
        if isinstance(found, Refusal):
            self._book.refused[pod.uid] = found.text
            self._book.unsaid[pod.uid] = None
            return
        self._book.refused.pop(pod.uid, None)
        self._census.ask(pod.rule.keys)
        self._look_at_claims(pod)
        self._book.by_pod[pod.uid] = found
        if found.gang is not None and found.run is None:
            self.wants_the_rest(found)
        if pod.node:
            self.found.setdefault(found.name, []).append(pod)
            return
        found.free[pod.uid] = pod
        self._book.unsaid[pod.uid] = None
        found.returns = found.returns or pod.owner is not None
        self.missing.pop(found, None)
        if found.run is not None and found.run.open:
            self._book.fill(found.run)
        else:
            self._ready[found] = None

    def look_again(self, task: LiveTask) -> None:
        """Whether a task can be submitted now."""
        self._ready[task] = None

    def _submit(self) -> None:
        """Tell the core of tasks, by submission; of urgent ones alone while bindings are behind: others are held."""
        withdrawn, self._withdrawn = self._withdrawn, {}
        urgent, room = self._book.is_urgent, max(0, MOST - self.under_way())
        behind = room < MOST // 2
        asked = self._ready if behind else {**self._held, **self._ready}
        able = [task for task in asked if task not in withdrawn and self._is_able(task)]
        able.sort(key=lambda each: (each.submitted, each.name))
        if behind or len(able) > room:
            able.sort(key=lambda each: not urgent(each))
        told = [task for task in able[:room] if urgent(task) or not behind]
        self._ready = dict.fromkeys(withdrawn)
        if not behind:
            self._held = {}
        for task in able[len(told) :]:
            (self._ready if urgent(task) else self._held)[task] = None
        for task in told:
            core = self._book.core_task(task)
            if not task.logged:
                self._record((self._now, SUBMIT, core, None, None))
            task.told = task.logged = True
            self._events.append(Submitted(core))

    def _is_able(self, task: LiveTask) -> bool:
        """Whether a task is there whole, and the core does not know it."""
        if task.told or task.run is not None or len(task.free) < task.needs:
            return False
        return not task.extra or self._gang_runs(task)

    @property
    def is_behind(self) -> bool:
        """Whether tasks are left for the next instant."""
        return bool(self._ready or self._held)

    def withdraw(self, task: LiveTask) -> None:
        """The core is not to wait for a task any more."""
        assert task.task is not None
        self._events.append(Cancelled(task.task))
        self._withdrawn[task] = None
        task.told = False

    def hold_extras(self, gang: tuple[str, str]) -> None:
        """Pods beyond the minimum of a gang that was stopped wait until it runs again."""
        for task in self._book.extras.get(gang, ()):
            if task.told and task.run is None and not self._gang_runs(task):
                self.withdraw(task)

    def _gang_runs(self, extra: LiveTask) -> bool:
        gang = self._book.by_key.get(("gang", *extra.gang)) if extra.gang else None
        return gang is not None and gang.run is not None and gang.run.began

    # -- pods that are gone ------------------------------------------------------------------------

    def _gone(self, pod: PodView) -> None:
        """A pod is deleted or over."""
        self._book.refused.pop(pod.uid, None)
        self._book.taken_back.discard(pod.uid)
        self._speaker.forget(pod.uid)
        if self.shadow is not None:
            self.shadow.forget(pod.uid)
        task = self._book.by_pod.pop(pod.uid, None)
        live = self._book.run_of_pod.pop(pod.uid, None)
        if pod.gang and pod.phase == "Succeeded":
            gang = self._book.by_key.get(("gang", pod.namespace, pod.gang))
            if gang is not None and gang.members == members_of(pod):
                gang.succeeded |= {pod.uid}
            if gang is not None and gang.run is None:  # it ran without the others, and will not come again
                gang.free.pop(pod.uid, None)
                self.wants_the_rest(gang)
        if task is None:
            return
        self._book.vacated(task)
        if live is None:
            task.free.pop(pod.uid, None)
            if task.held.pop(pod.uid, None) is not None and pod.phase != "Succeeded":
                task.needs += 1
            rest = [each for each in self.found.pop(task.name, ()) if each.uid != pod.uid]
            if rest:  # to be adopted without it
                self.found[task.name] = rest
            else:
                self._short_of_pods(task)
            return
        place = live.pods.pop(pod.uid)
        live.over[pod.uid] = succeeded = pod.phase == "Succeeded"
        if live.leaving:
            if not live.pods:
                self.left(live)
        elif not live.began:
            if task.returns:
                live.open.append(place)
                self._book.fill(live)
            else:
                self._cannot_start(live)
        elif not live.pods:
            self._ended(live)
        elif not succeeded:
            live.open.append(place)
            self._book.fill(live)

    def wait_again(self, runs: Iterable[LiveRun]) -> None:
        """Pods of evicted runs that were not bound after all: they wait as before."""
        for live in runs:
            if self._book.of_run.get(live.run) is live and not live.bound:
                self.left(live)
                if live.of.run is not None and live.of.run.open:
                    self._book.fill(live.of.run)

    def left(self, live: LiveRun) -> None:
        """The last pod of an evicted run has gone."""
        self._events.append(EvictionDone(live.run))
        self._book.release(live, keep_waiting=True)
        task = live.of
        if live.over and all(live.over.values()) and not task.free:  # it was done before it was stopped
            self._abandon(task)
            return
        self.wants_the_rest(task)
        if task.returns and task.run is None and not task.free:  # also one that had not quite begun
            self.expect(task)
        else:
            self._short_of_pods(task)

    def _ended(self, live: LiveRun) -> None:
        """The last pod of a run has gone by itself."""
        task = live.of
        if all(live.over.values()):
            self._record((self._now, FINISH, live.run.task, live.run, None))
            self._events.append(Finished(live.run))
            self._book.release(live, keep_waiting=False)
            self._book.drop(task)
            return
        self._record((self._now, LOST, live.run.task, live.run, LostRun(live.run, GONE)))
        self._events.append(Lost(live.run, GONE))
        self._book.release(live, keep_waiting=True)
        task.offset = live.run.number
        self.wants_the_rest(task)
        self._short_of_pods(task)

    def wants_the_rest(self, task: LiveTask) -> None:
        """Of a gang that was stopped only those pods are to start again that have not succeeded."""
        told = self._book.needs_fewer(task)
        if told is not None:
            self._events.append(Cancelled(told))
            self._withdrawn[task] = None
        if not task.told:
            self._ready[task] = None

    def _cannot_start(self, live: LiveRun) -> None:
        """A pod went before its run began, and nobody creates it again."""
        self._events.append(StartFailed(live.run))
        self._book.release(live, keep_waiting=True)
        self._short_of_pods(live.of)

    def _short_of_pods(self, task: LiveTask) -> None:
        """A task that waits has lost a pod: without any it is withdrawn, unless its controller may bring one."""
        if task.run is not None or len(task.free) >= task.needs:
            return
        if task.returns and not task.free and task.offset:
            self.expect(task)
            return
        if task.told:
            self.withdraw(task)
        if not task.free:
            if task.task is not None and task.logged:
                self._record((self._now, CANCEL, task.task, None, None))
            self._book.drop(task)

    def expect(self, task: LiveTask) -> None:
        """A task has no pod and is to get one again."""
        self.missing.setdefault(task, self._monotonic())

    def expect_no_longer(self, patience: float) -> None:
        """Tasks whose pods did not come back in time: the core forgets them, and after an hour so do we."""
        now = self._monotonic()
        for task, since in list(self.missing.items()):
            if now - since > patience:
                self._take_back(task)
            if not task.told and now - since > FORGET:
                self._abandon(task)

    def _take_back(self, task: LiveTask) -> None:
        """The core is not to wait for a task without pods, nor to keep the room that it may have found for it."""
        planned = task.run is not None and not task.run.pods and not task.run.began
        if task.told and (task.run is None or planned) and task.task is not None:
            if task.run is not None:
                self._events.append(StartFailed(task.run.run))
                self._book.release(task.run, keep_waiting=True)
            self.withdraw(task)

    def _abandon(self, task: LiveTask) -> None:
        """No pod of this task will come any more."""
        self._take_back(task)
        self.missing.pop(task, None)
        if task.task is not None:
            self._record((self._now, CANCEL, task.task, None, None))
        self._book.drop(task)
