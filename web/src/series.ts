// Series over time: what stood, on average, in each of many equal bins.
import { type Recording, countUpTo } from "./recording";

/** Weighted intervals -> their average total in each bin of [from, to). */
export class Bins {
  private readonly partial: Float64Array;
  private readonly steps: Float64Array;
  readonly width: number;

  constructor(readonly from: number, readonly to: number, readonly count: number) {
    this.width = Math.max(to - from, 1e-9) / count;
    this.partial = new Float64Array(count + 1);
    this.steps = new Float64Array(count + 1);
  }

  add(start: number, end: number, weight: number): void {
    if (end <= this.from || start >= this.to || !(end > start)) return;
    this.edge(start, weight);
    this.edge(end, -weight);
  }

  private edge(time: number, weight: number): void {
    const offset = Math.min(Math.max((time - this.from) / this.width, 0), this.count);
    const bin = Math.floor(offset);
    this.partial[bin]! += weight * (bin + 1 - offset);
    this.steps[bin]! += weight;
  }

  averages(): number[] {
    const values = new Array<number>(this.count);
    let before = 0;
    for (let bin = 0; bin < this.count; bin++) {
      const value = before + this.partial[bin]!;
      values[bin] = Math.abs(value) < 1e-9 ? 0 : value;
      before += this.steps[bin]!;
    }
    return values;
  }

  /** The middle of each bin. */
  times(): number[] {
    return Array.from({ length: this.count }, (_, bin) => this.from + (bin + 0.5) * this.width);
  }
}

export interface PoolSeries {
  time: number[];
  hp: number[];
  spot: number[];
  reserved: number[];
  /** HP GPUs running or queued. */
  demand: number[];
  waitingSpot: number[];
  wasted: number[];
  evictions: number[];
}

/** What a pool (-1: all) did between two moments, in `count` bins; evictions are counted, the rest are averages. */
export function poolSeries(recording: Recording, pool: number, from: number, to: number, count: number): PoolSeries {
  const { runs, tasks, wire, last } = recording;
  const bins = () => new Bins(from, to, count);
  const [hp, spot, reserved, demand, waitingSpot, wasted] = [bins(), bins(), bins(), bins(), bins(), bins()];
  const inPool = (task: number) => pool < 0 || tasks.model[task] === pool;
  for (let run = 0; run < runs.task.length; run++) {
    const task = runs.task[run]!;
    if (!inPool(task)) continue;
    const gpus = tasks.gpus[task]!;
    const start = runs.start[run]!;
    const end = Math.min(runs.end[run]!, last);
    if (tasks.spot[task]) {
      spot.add(start, end, gpus);
      waitingSpot.add(runs.queued[run]!, start, gpus);
    } else {
      hp.add(start, end, gpus);
      demand.add(runs.queued[run]!, end, gpus);
    }
    wasted.add(start, Math.min(runs.work[run]!, end), gpus);
    if (runs.kept[run]! < end) wasted.add(Math.max(runs.kept[run]!, start), end, gpus);
  }
  eachWaitToTheEnd(recording, (task, since, until) => {
    if (inPool(task)) (tasks.spot[task] ? waitingSpot : demand).add(since, until, tasks.gpus[task]!);
  });
  eachReservation(recording, (task, since, until) => {
    if (inPool(task)) reserved.add(since, until, tasks.gpus[task]!);
  });
  const evictions = new Array<number>(count).fill(0);
  for (const entry of recording.evictions) {
    const time = wire.entries.time[entry]!;
    if (inPool(wire.entries.task[entry]!) && time >= from && time <= to) {
      evictions[Math.min(count - 1, Math.floor((time - from) / hp.width))]!++;
    }
  }
  return {
    time: hp.times(), hp: hp.averages(), spot: spot.averages(), reserved: reserved.averages(), demand: demand.averages(),
    waitingSpot: waitingSpot.averages(), wasted: wasted.averages(), evictions,
  };
}

/** Waits that no start ended: up to a cancellation or the end of the log. */
function eachWaitToTheEnd(recording: Recording, see: (task: number, since: number, until: number) => void): void {
  const { runs, submitted, over, runsOf, cancelledWaiting, hasSubmit } = recording;
  for (let task = 0; task < submitted.length; task++) {
    const last = runsOf[task]!.at(-1);
    const until = cancelledWaiting[task] ? over[task]! : recording.last;
    if (last === undefined) {
      if (hasSubmit[task]) see(task, submitted[task]!, until);
    } else if (Number.isFinite(runs.end[last]!) && (over[task] === Infinity || cancelledWaiting[task])) {
      see(task, runs.end[last]!, until);
    }
  }
}

/** From the first eviction that makes room for a task to its start. */
function eachReservation(recording: Recording, see: (task: number, since: number, until: number) => void): void {
  const { entries } = recording.wire;
  const open = new Map<number, number>();
  for (const entry of recording.evictions) {
    const taker = recording.entryTaker[entry]!;
    if (taker < 0) continue;
    const time = entries.time[entry]!;
    const run = recording.runsOf[taker]!.find((each) => recording.runs.start[each]! >= time);
    const until = run !== undefined ? recording.runs.start[run]! : Math.min(recording.over[taker]!, recording.last);
    if ((open.get(taker) ?? -Infinity) < until) {
      see(taker, time, until);
      open.set(taker, until);
    }
  }
}

/** HP GPUs of one organization (of a pool, -1: all) that run or wait. */
export function demandOf(recording: Recording, organization: number, pool: number, bins: Bins): number[] {
  const { runs, tasks, last } = recording;
  const counts = (task: number) =>
    !tasks.spot[task] && tasks.organization[task] === organization && (pool < 0 || tasks.model[task] === pool);
  for (let run = 0; run < runs.task.length; run++) {
    const task = runs.task[run]!;
    if (counts(task)) bins.add(runs.queued[run]!, Math.min(runs.end[run]!, last), tasks.gpus[task]!);
  }
  eachWaitToTheEnd(recording, (task, since, until) => {
    if (counts(task)) bins.add(since, until, tasks.gpus[task]!);
  });
  return bins.averages();
}

export interface Guarantees {
  ended: number;
  judged: number;
  broken: number;
}

/** Spot runs of a pool that ended in (after, until], and how many broke their guarantee. */
export function guarantees(recording: Recording, pool: number, after: number, until: number): Guarantees {
  const { runs, tasks, endedSpot } = recording;
  const end = (run: number) => runs.end[run]!;
  const counted = { ended: 0, judged: 0, broken: 0 };
  for (let at = countUpTo(endedSpot, after, end), stop = countUpTo(endedSpot, until, end); at < stop; at++) {
    const run = endedSpot[at]!;
    if (pool >= 0 && tasks.model[runs.task[run]!] !== pool) continue;
    counted.ended++;
    const broken = recording.broken(run);
    if (broken === null) continue;
    counted.judged++;
    counted.broken += broken;
  }
  return counted;
}

/** Entries that evicted in (after, until], newest first. */
export function evictionsIn(recording: Recording, pool: number, after: number, until: number): number[] {
  const { entries, tasks } = recording.wire;
  const time = (entry: number) => entries.time[entry]!;
  const { evictions } = recording;
  const some = evictions.slice(countUpTo(evictions, after, time), countUpTo(evictions, until, time));
  return some.filter((entry) => pool < 0 || tasks.model[entries.task[entry]!] === pool).reverse();
}

export interface QuotaSeries {
  hours: number;
  rows: number[];
}

/** Rows of the quota log of a pool for its shortest guarantee; null without any. */
export function quotaRows(recording: Recording, pool: number): QuotaSeries | null {
  const { model } = recording.wire.quota;
  const known = FOUND.get(recording);
  if (known?.pool === pool && known.seen === model.length) return known.series;
  const series = findRows(recording, pool);
  FOUND.set(recording, { pool, seen: model.length, series });
  return series;
}

const FOUND = new WeakMap<Recording, { pool: number; seen: number; series: QuotaSeries | null }>();

function findRows(recording: Recording, pool: number): QuotaSeries | null {
  const { model, guarantee_hours } = recording.wire.quota;
  let hours = Infinity;
  model.forEach((each, row) => {
    if (each === pool) hours = Math.min(hours, guarantee_hours[row]!);
  });
  if (!Number.isFinite(hours)) return null;
  const rows: number[] = [];
  model.forEach((each, row) => {
    if (each === pool && guarantee_hours[row] === hours) rows.push(row);
  });
  return { hours, rows };
}
