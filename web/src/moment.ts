// The state of the cluster at one moment. A step forward or back undoes or applies single entries of the log, so that
// moving the slider costs what lies between, and no checkpoints are kept.
import { CANCEL, EVICT, LOST, type Recording, START, SUBMIT, countUpTo } from "./recording";

/** A set of numbers that can be walked quickly. */
class Members {
  readonly items: number[] = [];
  private readonly place = new Map<number, number>();

  add(item: number): void {
    if (this.place.has(item)) return;
    this.place.set(item, this.items.length);
    this.items.push(item);
  }

  delete(item: number): void {
    const at = this.place.get(item);
    if (at === undefined) return;
    const last = this.items.pop()!;
    this.place.delete(item);
    if (last !== item) {
      this.items[at] = last;
      this.place.set(last, at);
    }
  }

  has(item: number): boolean {
    return this.place.has(item);
  }
}

export class Moment {
  time = -Infinity;
  readonly running = new Members();
  readonly waiting = new Members();
  /** Task -> evictions that have made room for it while it has not started. */
  readonly heldFor = new Map<number, number>();
  private applied = 0;

  constructor(readonly recording: Recording) {}

  /** Everything that happened up to `time`, that instant included. */
  seek(time: number): void {
    const { time: times } = this.recording.wire.entries;
    const target = countUpTo(times, time);
    while (this.applied < target) this.step(this.applied++, 1);
    while (this.applied > target) this.step(--this.applied, -1);
    this.time = time;
  }

  private step(entry: number, way: 1 | -1): void {
    const { entries } = this.recording.wire;
    const event = entries.event[entry]!;
    const task = entries.task[entry]!;
    const run = this.recording.entryRun[entry]!;
    const [into, out] = way > 0 ? (["add", "delete"] as const) : (["delete", "add"] as const);
    if (event === SUBMIT) this.waiting[into](task);
    else if (event === START) {
      this.running[into](run);
      this.hold(task, way > 0 ? 0 : this.recording.runs.held[run]!);
      // A log may begin with a run whose submission it does not have: before it, the task did not wait.
      const waited = this.recording.hasSubmit[task]! || this.recording.runsOf[task]![0] !== run;
      if (way > 0 || waited) this.waiting[out](task);
    } else if (run < 0) {
      if (event === CANCEL) {
        this.waiting[out](task);
        this.hold(task, way > 0 ? 0 : this.recording.entryHeld[entry]!);
      }
    } else {
      this.running[out](run);
      if (event === EVICT || event === LOST) this.waiting[into](task);
      const taker = this.recording.entryTaker[entry]!;
      if (taker >= 0) this.hold(taker, (this.heldFor.get(taker) ?? 0) + way);
    }
  }

  private hold(task: number, count: number): void {
    if (count > 0) this.heldFor.set(task, count);
    else this.heldFor.delete(task);
  }
}

/** What GPUs do, of one pool or of all. */
export interface Use {
  gpus: number;
  hp: number;
  spot: number;
  reserved: number;
  closed: number;
  idle: number;
  /** Idle GPUs of nodes that spot tasks are kept from. */
  kept: number;
  /** Held by runs whose work is lost later or that restart. */
  wasted: number;
  runningHp: number;
  runningSpot: number;
  waitingHp: number;
  waitingSpot: number;
  waitingHpGpus: number;
  waitingSpotGpus: number;
  longestWait: number;
}

export function emptyUse(): Use {
  return {
    gpus: 0, hp: 0, spot: 0, reserved: 0, closed: 0, idle: 0, kept: 0, wasted: 0, runningHp: 0, runningSpot: 0, waitingHp: 0,
    waitingSpot: 0, waitingHpGpus: 0, waitingSpotGpus: 0, longestWait: 0,
  };
}

/** Use of every pool, and of all together as the last one. */
export function useOf(moment: Moment, closedNodes: Map<number, string>, kept: Map<number, number>): Use[] {
  const { recording, time } = moment;
  const { tasks, runs, wire } = recording;
  const pools = wire.models.map(() => emptyUse());
  recording.poolGpus.forEach((gpus, pool) => (pools[pool]!.gpus = gpus));
  const onMarked = new Map<number, number>();
  for (const run of moment.running.items) {
    const task = runs.task[run]!;
    const use = pools[tasks.model[task]!]!;
    const gpus = tasks.gpus[task]!;
    if (tasks.spot[task]) {
      use.spot += gpus;
      use.runningSpot++;
    } else {
      use.hp += gpus;
      use.runningHp++;
    }
    if (time < runs.work[run]! || time >= runs.kept[run]!) use.wasted += gpus;
    if (closedNodes.size || kept.size) {
      for (let pod = runs.firstPod[run]!, end = pod + runs.pods[run]!; pod < end; pod++) {
        const node = wire.pods.node[pod]!;
        if (!closedNodes.has(node) && !kept.has(node)) continue;
        onMarked.set(node, (onMarked.get(node) ?? 0) + wire.pods.gpus[pod]!);
      }
    }
  }
  for (const task of moment.waiting.items) {
    const use = pools[tasks.model[task]!]!;
    const gpus = tasks.gpus[task]!;
    if (tasks.spot[task]) {
      use.waitingSpot++;
      use.waitingSpotGpus += gpus;
    } else {
      use.waitingHp++;
      use.waitingHpGpus += gpus;
    }
    use.longestWait = Math.max(use.longestWait, time - waitingSince(recording, task, time));
  }
  for (const task of moment.heldFor.keys()) {
    if (moment.waiting.has(task)) pools[tasks.model[task]!]!.reserved += tasks.gpus[task]!;
  }
  const left = (node: number) => Math.max(0, wire.nodes.gpus[node]! - (onMarked.get(node) ?? 0));
  for (const node of closedNodes.keys()) pools[wire.nodes.model[node]!]!.closed += left(node);
  for (const node of kept.keys()) if (!closedNodes.has(node)) pools[wire.nodes.model[node]!]!.kept += left(node);
  const all = emptyUse();
  for (const use of pools) {
    use.idle = Math.max(0, use.gpus - use.hp - use.spot - use.reserved - use.closed);
    use.kept = Math.min(use.kept, use.idle);
    for (const key of Object.keys(all) as (keyof Use)[]) {
      all[key] = key === "longestWait" ? Math.max(all[key], use[key]) : all[key] + use[key];
    }
  }
  return [...pools, all];
}

/** Since when a task that waits at `time` has waited. */
export function waitingSince(recording: Recording, task: number, time: number): number {
  const { runs } = recording;
  let since = recording.submitted[task]!;
  for (const run of recording.runsOf[task]!) {
    if (runs.end[run]! <= time) since = runs.end[run]!;
    else break;
  }
  return since;
}

/** The run with which the wait at `time` ended, or -1. */
export function nextRun(recording: Recording, task: number, time: number): number {
  return recording.runsOf[task]!.find((run) => recording.runs.start[run]! > time) ?? -1;
}

/** Nodes that take nothing at `time`: node -> 'failed' or 'cordoned'. */
export function closedNodes(recording: Recording, time: number): Map<number, string> {
  const { time: times, node, event } = recording.wire.node_events;
  const failed = new Set<number>();
  const cordoned = new Set<number>();
  for (let at = 0; at < times.length && times[at]! <= time; at++) {
    if (event[at] === "fail") failed.add(node[at]!);
    else if (event[at] === "repair") failed.delete(node[at]!);
    else if (event[at] === "cordon") cordoned.add(node[at]!);
    else cordoned.delete(node[at]!);
  }
  const closed = new Map<number, string>();
  cordoned.forEach((which) => closed.set(which, "cordoned"));
  failed.forEach((which) => closed.set(which, "failed"));
  return closed;
}
