// What decisions went by: forecasts by organization, nodes kept from spot tasks, expected starts, alternatives.
import { type Recording, countUpTo } from "./recording";

/** Rows of a table by a key, taken in as the table grows. */
class Index {
  private readonly rows = new Map<number, number[]>();
  private seen = 0;

  of(length: number, keyAt: (row: number) => number, key: number): number[] {
    for (; this.seen < length; this.seen++) {
      const known = this.rows.get(keyAt(this.seen));
      if (known) known.push(this.seen);
      else this.rows.set(keyAt(this.seen), [this.seen]);
    }
    return this.rows.get(key) ?? [];
  }
}

const INDEXES = new WeakMap<object, Index>();

/** Rows of a table by a key; `known` is what the index is remembered by. */
function rowsOf(table: { time: number[] }, keyAt: (row: number) => number, key: number, known: object = table): number[] {
  let index = INDEXES.get(known);
  if (!index) INDEXES.set(known, (index = new Index()));
  return index.of(table.time.length, keyAt, key);
}

/** Nodes kept from spot tasks at `time`: node -> the task that it is reserved for, or -1: closed after evictions. */
export function keptFromSpot(recording: Recording, time: number): Map<number, number> {
  const { time: times, node, closed, task } = recording.wire.spot_nodes;
  const kept = new Map<number, number>();
  for (let row = 0; row < times.length && times[row]! <= time; row++) {
    if (closed[row] || task[row]! >= 0) kept.set(node[row]!, task[row]!);
    else kept.delete(node[row]!);
  }
  return kept;
}

export interface Expected {
  start: number;
  /** False: no room is expected before, and no more is known. */
  known: boolean;
}

/** When the forecast of `time` expects room for a task; null: it says nothing of it. */
export function expectedStart(recording: Recording, task: number, time: number): Expected | null {
  const { expected } = recording.wire;
  const rows = rowsOf(expected, (row) => expected.task[row]!, task);
  const row = rows[countUpTo(rows, time, (each) => expected.time[each]!) - 1];
  const start = row === undefined ? null : expected.start[row]!;
  return row === undefined || start === null || start <= time ? null : { start, known: expected.known[row] === 1 };
}

/** What was weighed when `victim` had to go at `time` in favour of `taker`: rows of the options, cheapest first. */
export function optionsOf(recording: Recording, taker: number, victim: number, time: number): number[] {
  const { options } = recording.wire;
  const rows = rowsOf(options, (row) => options.task[row]!, taker).filter((row) => options.time[row]! <= time + 1);
  const moments = [...new Set(rows.filter((row) => options.chosen[row] && options.victims[row]!.includes(victim)).map((row) => options.time[row]!))];
  const last = moments.at(-1);
  if (last === undefined) return [];
  // Of a gang whose pods were placed one by one, the choice that hit this victim.
  const found = rows.filter((row) => options.time[row] === last);
  const hit = found.findIndex((row) => options.chosen[row] && options.victims[row]!.includes(victim));
  const end = found.findIndex((row, at) => at > hit && options.chosen[row]);
  return found.slice(hit, end < 0 ? undefined : end);
}

/** The row of an organization in the newest forecast of a pool, for any time; none where that does not name it. */
function forecastRow(recording: Recording, pool: number, organization: number): (time: number) => number | undefined {
  const { forecasts } = recording.wire;
  const at = (row: number) => forecasts.time[row]!;
  const own = organizationRows(recording, pool, organization);
  const all = rowsOf(forecasts, (row) => forecasts.model[row]!, pool, forecasts.model);
  return (time) => {
    const row = own[countUpTo(own, time, at) - 1];
    return row !== undefined && at(row) === at(all[countUpTo(all, time, at) - 1]!) ? row : undefined;
  };
}

function organizationRows(recording: Recording, pool: number, organization: number): number[] {
  const { forecasts } = recording.wire;
  // Models may come while a cluster runs, so that they cannot be the smaller part of the key.
  return rowsOf(forecasts, (row) => forecasts.model[row]! * 1e6 + forecasts.organization[row]!, pool * 1e6 + organization);
}

export interface Forecast {
  expected: (number | null)[];
  bound: (number | null)[];
}

/** What was forecast of an organization (in a pool, -1: in all) at each of these times; null: nothing. */
export function forecastAt(recording: Recording, organization: number, pool: number, times: number[]): Forecast {
  const { forecasts, models } = recording.wire;
  const found: Forecast = { expected: times.map(() => null), bound: times.map(() => null) };
  for (const model of pool < 0 ? models.keys() : [pool]) {
    const rowAt = forecastRow(recording, model, organization);
    times.forEach((time, at) => {
      const row = rowAt(time);
      if (row === undefined) return;
      found.expected[at] = (found.expected[at] ?? 0) + forecasts.expected[row]!;
      found.bound[at] = (found.bound[at] ?? 0) + forecasts.bound[row]!;
    });
  }
  return found;
}
