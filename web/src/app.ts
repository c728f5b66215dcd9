// What all views share: the recording, the moment that is looked at, and how to look at another.
import { keptFromSpot } from "./decisions";
import { Clock, DAY } from "./format";
import { Moment, type Use, closedNodes, useOf } from "./moment";
import type { Recording } from "./recording";
import { type State, toHash } from "./state";

export class App {
  readonly moment: Moment;
  readonly clock: Clock;
  closed = new Map<number, string>();
  /** Nodes kept from spot tasks -> the task they are reserved for, or -1. */
  kept = new Map<number, number>();
  /** Live: why tasks wait now, by their names; the recording says it only when the wait is over. */
  reasons = new Map<string, string>();
  private counted: Use[] | null = null;

  constructor(readonly recording: Recording, public state: State, private readonly render: () => void) {
    this.moment = new Moment(recording);
    this.clock = new Clock(recording);
  }

  /** Look at something else; everything is drawn again with the next frame. */
  go(part: Partial<State>, keep = false): void {
    const before = toHash(this.state);
    this.state = { ...this.state, ...part };
    const after = toHash(this.state);
    // A step of time replaces the entry of the browser's history; another view, pool or task adds one.
    if (after !== before) history[keep || Object.keys(part).every((name) => name === "t") ? "replaceState" : "pushState"](null, "", after);
    this.render();
  }

  /** The period that charts and slider cover. */
  range(): [number, number] {
    const { last, wire } = this.recording;
    // Of a running cluster the last day, unless more is asked for.
    const first = wire.live && Number.isNaN(this.state.from) ? Math.max(this.recording.first, last - DAY) : this.recording.first;
    const from = Number.isNaN(this.state.from) ? first : Math.max(first, Math.min(this.state.from, last));
    const to = Number.isNaN(this.state.to) ? last : Math.max(first, Math.min(this.state.to, last));
    return to > from ? [from, to] : [first, Math.max(last, first + 1)];
  }

  get time(): number {
    const { first, last, lastSubmit, wire } = this.recording;
    if (!Number.isNaN(this.state.t)) return Math.max(first, Math.min(this.state.t, last));
    const [from, to] = this.range();
    // A simulation runs on until all is done: its last submission says more than its empty end.
    return wire.live ? last : Math.max(from, Math.min(lastSubmit, to));
  }

  /** Position of the pool that is looked at; -1: all. */
  get pool(): number {
    return this.state.pool ? this.recording.wire.models.indexOf(this.state.pool) : -1;
  }

  /** The pool itself, or the only one there is; -1 if there are several. */
  onlyPool(pool: number): number {
    return pool < 0 && this.recording.wire.models.length === 1 ? 0 : pool;
  }

  seek(): void {
    this.moment.seek(this.time);
    this.closed = closedNodes(this.recording, this.time);
    this.kept = keptFromSpot(this.recording, this.time);
    this.counted = null;
  }

  uses(): Use[] {
    return (this.counted ??= useOf(this.moment, this.closed, this.kept));
  }
}
