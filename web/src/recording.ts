// The event log folded into runs: everything the page shows is worked out from these columns.
import type { Wire } from "./wire";

export const [SUBMIT, START, FINISH, EVICT, LOST, CANCEL] = [0, 1, 2, 3, 4, 5] as const;
/** How a run ended: the event that ended it; RUNNING while it lasts; SUSPEND: an eviction at the end of a lease. */
export const [RUNNING, SUSPEND] = [-1, 6] as const;
const EPS = 1e-6;
const LEASE_END = "lease-end";

export interface Runs {
  task: number[];
  number: number[];
  start: number[];
  /** Infinity while it lasts. */
  end: number[];
  how: number[];
  /** Since when the task had waited. */
  queued: number[];
  whyWaited: number[];
  whyEnded: number[];
  /** Task that took its place, or -1. */
  taker: number[];
  firstPod: number[];
  pods: number[];
  /** When its work began: after the overhead of a restart. */
  work: number[];
  /** Until when its work is kept. */
  kept: number[];
  /** How many evictions had made room for it when it started. */
  held: number[];
}

export class Recording {
  readonly runs: Runs = {
    task: [], number: [], start: [], end: [], how: [], queued: [], whyWaited: [], whyEnded: [], taker: [], firstPod: [],
    pods: [], work: [], kept: [], held: [],
  };
  /** Per entry: the run that it starts or ends, or -1; the task for which it makes room, or -1. */
  readonly entryRun: number[] = [];
  readonly entryTaker: number[] = [];
  /** Per entry that cancels a waiting task: how many evictions had made room for it. */
  readonly entryHeld: number[] = [];
  /** Per task: when it was submitted, its runs, when it ended (Infinity: not yet). */
  readonly submitted: number[] = [];
  readonly hasSubmit: boolean[] = [];
  readonly runsOf: number[][] = [];
  readonly over: number[] = [];
  readonly cancelledWaiting: boolean[] = [];
  /** Entries that evict, and runs of spot tasks in the order in which they ended. */
  readonly evictions: number[] = [];
  readonly endedSpot: number[] = [];
  readonly cards: { card: number; share: number }[][] = [];
  readonly poolGpus: number[] = [];
  first = 0;
  last = 0;
  lastSubmit = 0;
  private entries = 0;
  private nextPod = 0;
  private readonly taskOf = new Map<string, number>();
  private readonly waitsSince: number[] = [];
  private readonly heldFor: number[] = [];

  constructor(readonly wire: Wire) {
    this.fold();
  }

  get tasks() {
    return this.wire.tasks;
  }

  task(name: string): number {
    return this.taskOf.get(name) ?? -1;
  }

  /** Take in what the wire has more than before. */
  fold(): void {
    const { tasks, entries, nodes, models, cards } = this.wire;
    for (let at = this.submitted.length; at < tasks.name.length; at++) {
      this.taskOf.set(tasks.name[at]!, at);
      this.submitted.push(NaN);
      this.hasSubmit.push(false);
      this.runsOf.push([]);
      this.over.push(Infinity);
      this.cancelledWaiting.push(false);
      this.waitsSince.push(NaN);
      this.heldFor.push(0);
    }
    for (let at = this.cards.length; at < cards.length; at++) this.cards.push(parseCards(cards[at]!));
    this.poolGpus.length = 0;
    models.forEach(() => this.poolGpus.push(0));
    nodes.model.forEach((model, at) => (this.poolGpus[model]! += nodes.gpus[at]!));
    const first = Math.min(entries.time[0] ?? Infinity, this.wire.quota.time[0] ?? Infinity, this.wire.now ?? Infinity);
    this.first = Number.isFinite(first) ? first : 0;
    for (; this.entries < entries.time.length; this.entries++) this.take(this.entries);
    this.last = Math.max(entries.time[this.entries - 1] ?? 0, this.wire.quota.time.at(-1) ?? 0, this.wire.now ?? 0);
  }

  private take(entry: number): void {
    const { entries, tasks, reasons } = this.wire;
    const time = entries.time[entry]!;
    const event = entries.event[entry]!;
    const task = entries.task[entry]!;
    const runs = this.runs;
    let run = -1;
    let taker = -1;
    let held = 0;
    if (event === SUBMIT) {
      this.submitted[task] = time;
      this.hasSubmit[task] = true;
      this.lastSubmit = time;
      this.waitsSince[task] = time;
    } else if (event === START) {
      run = runs.task.length;
      const number = entries.run[entry]!;
      const before = this.runsOf[task]!.at(-1);
      if (Number.isNaN(this.submitted[task]!)) this.submitted[task] = time;
      const since = this.waitsSince[task]!;
      runs.task.push(task);
      runs.number.push(number);
      runs.start.push(time);
      runs.end.push(Infinity);
      runs.how.push(RUNNING);
      runs.queued.push(Number.isNaN(since) ? time : since);
      runs.whyWaited.push(entries.reason[entry]!);
      runs.whyEnded.push(-1);
      runs.taker.push(-1);
      runs.firstPod.push(this.nextPod);
      runs.pods.push(entries.pods[entry]!);
      runs.work.push(time + this.overhead(task, number, before));
      runs.kept.push(Infinity);
      runs.held.push(this.heldFor[task]!);
      this.heldFor[task] = 0;
      this.nextPod += entries.pods[entry]!;
      this.runsOf[task]!.push(run);
      this.waitsSince[task] = NaN;
    } else if (event === CANCEL && !entries.run[entry]) {
      this.over[task] = time;
      this.cancelledWaiting[task] = true;
      held = this.heldFor[task]!;
      this.heldFor[task] = 0;
    } else {
      run = this.runsOf[task]!.at(-1) ?? -1;
      if (run >= 0) {
        const why = entries.reason[entry]!;
        const text = reasons[why] ?? "";
        const how = event === EVICT && text === LEASE_END ? SUSPEND : event;
        runs.end[run] = time;
        runs.how[run] = how;
        runs.whyEnded[run] = why;
        runs.kept[run] = this.keptUntil(run);
        if (tasks.spot[task]) this.endedSpot.push(run);
        if (how === EVICT) {
          taker = this.takerIn(text);
          runs.taker[run] = taker;
          this.evictions.push(entry);
          if (taker >= 0) this.heldFor[taker]!++;
        }
      }
      if (event === EVICT || event === LOST) this.waitsSince[task] = time;
      else this.over[task] = time;
    }
    this.entryRun.push(run);
    this.entryTaker.push(taker);
    this.entryHeld.push(held);
  }

  private overhead(task: number, number: number, before: number | undefined): number {
    if (number <= 1) return 0;
    const rules = this.wire.rules;
    if (before !== undefined && this.runs.how[before] === SUSPEND) return rules.resume_overhead;
    return this.tasks.gpus[task]! <= rules.small_task_gpus ? rules.restart_overhead : rules.restart_overhead_large;
  }

  /** What an eviction or a loss leaves: whole checkpoint intervals of progress. */
  private keptUntil(run: number): number {
    const { end, how, work, task } = this.runs;
    const loses = how[run] === LOST || (how[run] === EVICT && !this.wire.rules.checkpoint_on_grace);
    const interval = this.tasks.checkpoint[task[run]!]!;
    if (!loses || !(interval > 0)) return end[run]!;
    const progress = Math.max(0, end[run]! - work[run]!);
    return work[run]! + Math.floor((progress + EPS) / interval) * interval;
  }

  /** The task in 'evicted for NAME on NODE: ...'; a name may itself hold ' on '. */
  private takerIn(text: string): number {
    const begin = "evicted for ";
    if (!text.startsWith(begin)) return -1;
    for (let at = text.indexOf(" on ", begin.length); at >= 0; at = text.indexOf(" on ", at + 1)) {
      const found = this.taskOf.get(text.slice(begin.length, at));
      if (found !== undefined) return found;
    }
    return -1;
  }

  /** 1: the run broke its guarantee; 0: it kept it; null: it ended too early to say. */
  broken(run: number): 0 | 1 | null {
    const { start, end, how, task } = this.runs;
    const short = end[run]! - start[run]! < Math.max(this.tasks.guarantee[task[run]!]!, EPS) - EPS;
    const stopped = how[run] === EVICT || how[run] === SUSPEND;
    if (stopped && short) return 1;
    return how[run] === FINISH || stopped || !short ? 0 : null;
  }

  reason(code: number): string {
    return code < 0 ? "" : (this.wire.reasons[code] ?? "");
  }
}

function parseCards(text: string): { card: number; share: number }[] {
  return text.split("+").filter(Boolean).map((part) => {
    const [card, share] = part.split(":");
    return { card: Number(card), share: share ? Number(share) : 1 };
  });
}

/** The number of values of a sorted list that are at most `value`. */
export function countUpTo(sorted: number[], value: number, key: (item: number) => number = (item) => item): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (key(sorted[middle]!) <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}
