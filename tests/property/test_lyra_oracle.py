"""Lyra against the obvious: whole runs against a slow scheduler, single choices against a scan of all nodes."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from oracle import OraclePool, Settings, Stay, compare_logs, fits, idle_cards, without
from strategies import Case, among, cases

from builders import Draft, Stage, workload
from gfs import NodeSpec, Priority, Task, simulate
from gfs.core.node import Node
from gfs.core.run import Run
from gfs.core.trial import Trial
from gfs.policies.lyra import LoanPlacer, ReclaimPreemptor
from promises import rows_of

# -- whole runs -------------------------------------------------------------------------------------------


class ObviousLyra(OraclePool):
    """The rules (docs/schedulers/lyra.md), word for word, over all cards of all nodes."""

    def in_order(self, priority: Priority) -> list[Task]:
        queue = [task for task in self.waiting if task.priority is priority]
        return sorted(queue, key=lambda task: (-task.gpus_per_pod, task.pods, task.index))

    def holders(self, i: int, priority: Priority) -> list[Stay]:
        found = {stay: None for card in self.cluster[i] for stay, _ in card if stay.task.priority is priority}
        return list(found)

    def best_node(self, task: Task, now: float) -> int | None:
        fitting = [i for i, node in enumerate(self.cluster) if fits(node, task)]
        other = Priority.SPOT if not task.is_spot else Priority.HP
        allowed = [i for i in fitting if not self.holders(i, other)]
        self.seen[f"{task.priority.label} kept off a node with room"] += len(allowed) < len(fitting)
        return min(allowed, key=lambda i: (len(idle_cards(self.cluster[i])), i), default=None)

    def whom_to_evict(self, task: Task, now: float) -> tuple[int, list[Stay]] | None:
        options = []
        for i, node in enumerate(self.cluster):
            gone = self.holders(i, Priority.SPOT)
            if gone and fits(without(node, gone), task):
                spans = [len({where for where, _, _ in stay.pods}) for stay in gone]
                options.append((sum(Fraction(1, span) for span in spans), len(gone), i))
        if not options:
            return None
        cost, victims, i = min(options)
        self.seen["several nodes to choose from"] += len(options) > 1
        self.seen["costs tie"] += [option[0] for option in options].count(cost) > 1
        self.seen["fewer victims would have cost more"] += victims > min(option[1] for option in options)
        return i, self.holders(i, Priority.SPOT)


def compare(case: Case) -> Counter[str]:
    """Run both, expect the same; say what happened in the run."""
    given_ = case.parameters
    result = simulate(case.work, scheduler="lyra", **given_)
    settings_ = Settings(
        scheduler="lyra",
        quota_share=given_["quota_share"] if given_["quota"] == "fixed" else None,
        grace=given_["grace_period"],
        on_grace=given_["checkpoint_on_grace"],
        resources=given_["resources"] == "on",
    )
    pools = [ObviousLyra(case.work, model, settings_) for model in case.work.capacity()]
    expected = [row for pool in pools for row in pool.play()]
    compare_logs(case.work, result.events, expected, resources=settings_.resources)
    return sum((pool.seen for pool in pools), Counter[str]())


@st.composite
def contests(draw: st.DrawFn) -> Case:
    """Nodes of 4: a gang of 3s on the first ones, single tasks on the rest, pods of 1 where there is room."""
    width, singles = draw(st.integers(2, 6)), draw(st.integers(1, 3))
    machines = [NodeSpec(0, f"n{i}", "A100", 4) for i in range(width + singles)]
    wide = [(3, width), *[(3, 1)] * singles]
    narrow = [(1, draw(among(width, width, 3, 2, 1))) for _ in range(draw(st.integers(1, 2)))]
    drafts = [
        Draft(f"s{number}", Priority.SPOT, gpus, pods, at=number, lasting=9000)
        for number, (gpus, pods) in enumerate(wide + narrow)
    ]
    for number in range(draw(st.integers(1, 4))):
        gpus, pods = draw(among((4, 1), (1, 1), (4, 2), (3, 3), (0.5, 1)))
        drafts.append(Draft(f"h{number}", Priority.HP, gpus, pods, at=600 + 100 * number, lasting=500))
    settled = {"quota": "none", "quota_share": 1.0, "checkpoint_on_grace": False, "grace_period": 30.0}
    return Case(workload(machines, drafts), {"resources": "off", **settled})


def hunt(examples: int, where: SearchStrategy[Case]) -> Counter[str]:
    """Compare on many random cases; add up what happened in them."""
    seen = Counter[str]()

    @settings(max_examples=examples, phases=(Phase.explicit, Phase.generate))
    @given(where)
    def check(case: Case) -> None:
        seen.update(compare(case))

    check()
    return seen


def test_lyra_does_what_the_obvious_scheduler_does() -> None:
    seen = hunt(250, cases(mixes=False))
    # Every rule must have been at work, often: about a third of what is usual, as the cases tried depend on the
    # version of Hypothesis.
    for what, least in {
        "eviction": 240,
        "gang evicted": 25,
        "HP gang preempts": 80,
        "fraction preempts": 12,
        "Spot kept off a node with room": 2500,
        "HP kept off a node with room": 100,
        "several nodes to choose from": 70,
        "costs tie": 50,
        "over quota": 2000,
        "enough cards, but not of the rest": 2000,
        "evicted for more than cards": 50,
    }.items():
        assert seen[what] >= least, f"{what}: only {seen[what]} times; make the load higher"


def test_the_cheapest_node_is_found_where_cost_and_victims_pull_apart() -> None:
    seen = hunt(150, contests())
    assert seen["costs tie"] >= 50
    assert seen["fewer victims would have cost more"] >= 15


@settings(max_examples=60)
@given(case=cases(max_tasks=30, mixes=False))
def test_no_node_ever_holds_pods_of_both_classes(case: Case) -> None:
    kinds = {task.name: task.priority for task in case.work.tasks}
    result = simulate(case.work, scheduler="lyra", check=True, **case.parameters)
    pods: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for time, event, task, _, node, _, _ in rows_of(result.events.to_pydict()):
        if event != "submit":
            pods[node][kinds[task]] += 1 if event == "start" else -1
            assert min(pods[node]) == 0, f"{node} holds {pods[node]} HP and spot pods at {time}"


# -- single choices ---------------------------------------------------------------------------------------

SIZES = [0.1, 0.3, 1 / 3, 0.5, 0.75, 1, 1, 2, 3, 4, 8]
QUESTIONS = [
    Draft("x", priority, gpus).task() for priority in Priority for gpus in (0.05, 0.3, 0.5, 0.8, 1, 2, 3, 4, 8)
]


def has_room(node: Node, task: Task) -> bool:
    return node.idle >= task.cards if task.cards else node.slot_for(task.share) is not None


def holds(node: Node, runs: list[Run], priority: Priority) -> list[Run]:
    return [run for run in runs if run.task.priority is priority and any(place[0] is node for place in run.places)]


class Scene:
    """A pool under Lyra's rules with everything that runs on it, to be asked after every change."""

    def __init__(self, sizes: list[int]) -> None:
        self.stage = Stage(*sizes)
        self.nodes = self.stage.pool.nodes
        self.placer = LoanPlacer(self.stage.pool)
        self.preemptor = ReclaimPreemptor(self.stage.state)
        self.runs: list[Run] = []
        self.questions = [task for task in QUESTIONS if task.gpus_per_pod <= max(sizes)]

    def allowed(self, task: Task) -> list[Node]:
        other = Priority.SPOT if not task.is_spot else Priority.HP
        return [node for node in self.nodes if has_room(node, task) and not holds(node, self.runs, other)]

    def come(self, draft: Draft, data: st.DataObject) -> None:
        """Pods of a task on any nodes that the rules allow."""
        trial, names = Trial(self.stage.pool), []
        for _ in range(draft.pods):
            options = self.allowed(draft.task())
            if options:
                node = data.draw(st.sampled_from(options))
                trial.place(node, draft.task())
                names.append(node.name)
        trial.rollback()
        if len(names) == draft.pods:
            self.runs.append(self.stage.spread(names, draft))

    def go(self, run: Run) -> None:
        self.runs.remove(run)
        self.stage.state.finish(run, 0.0)

    def check_choices(self) -> None:
        for task in self.questions:
            with_room = [node for node in self.nodes if has_room(node, task)]
            allowed = self.allowed(task)
            assert self.placer.choose(task) is min(allowed, key=lambda n: (n.idle, n.index), default=None), task
            assert self.placer.closed(task)[0] == len(with_room) - len(allowed), task

    def check_victims(self, task: Task) -> list[Run]:
        options = []
        for node in self.nodes:
            everyone = holds(node, self.runs, Priority.SPOT)
            if everyone and node.total >= task.gpus_per_pod:
                cost = sum(Fraction(1, len({where for where, *_ in run.places})) for run in everyone)
                options.append((cost, len(everyone), node.index))
        found = self.preemptor.choose(task, now=0.0)
        if found is None:
            assert not options
            return []
        assert found.node.index == min(options)[2]
        assert set(found.runs) == set(holds(found.node, self.runs, Priority.SPOT))
        if len(options) > 1:
            assert found.choice == f"cheapest of {len(options)} nodes on loan"
        return list(found.runs)

    def try_a_gang(self, task: Task, pods: int) -> None:
        """Take nodes back one after another as for an HP gang, then think better of it, as a policy does."""
        trial, before = Trial(self.stage.pool), list(self.runs)
        for _ in range(pods):
            for run in self.check_victims(task):
                trial.evict(run)
                self.runs.remove(run)
        trial.rollback()
        self.runs = before


@settings(max_examples=100)
@given(data=st.data())
def test_every_single_choice_is_that_of_a_scan(data: st.DataObject) -> None:
    scene = Scene(data.draw(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=6)))
    for number in range(data.draw(st.integers(1, 30))):
        what = data.draw(among("come", "come", "come", "come", "go", "try"))
        if what == "come":
            priority = data.draw(among(Priority.HP, Priority.SPOT, Priority.SPOT))
            gpus, pods = data.draw(among(*SIZES)), data.draw(among(1, 1, 2, 3, 4, 6))
            scene.come(Draft(f"t{number}", priority, gpus, pods), data)
        elif what == "go" and scene.runs:
            scene.go(data.draw(st.sampled_from(scene.runs)))
        elif what == "try":
            hp = [task for task in scene.questions if not task.is_spot]
            scene.try_a_gang(data.draw(st.sampled_from(hp)), data.draw(st.integers(1, 3)))
        scene.check_choices()
        if data.draw(st.booleans()):  # often enough that nodes change more than once between two questions
            for task in scene.questions[:: data.draw(st.integers(1, 3))]:
                scene.check_victims(task)


def test_a_pool_that_lives_long_answers_as_a_new_one() -> None:
    # 6,000 gangs come and go on 7 nodes, each of another span: what the heaps keep of the past must not show.
    scene = Scene([8] * 7)
    wish = Draft("h", Priority.HP, 8).task()
    for number in range(6_000):
        span = 1 + number % 7
        names = [f"n{(number + i) % 7}" for i in range(span)]
        run = scene.stage.spread(names, Draft(f"g{number}", Priority.SPOT, pods=span))
        scene.runs.append(run)
        if len(scene.runs) > 7:
            scene.go(scene.runs[number % 7])
        scene.check_victims(wish)
