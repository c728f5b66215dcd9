// Organizations: what each wants, holds, waits for, and which evictions it caused and suffered.
import type { App } from "./app";
import { Chart, type Line } from "./chart";
import { el, fill, table } from "./dom";
import { DAY, length, number, percent } from "./format";
import { Bins, demandOf, evictionsIn, quotaRows } from "./series";
import { countUpTo } from "./recording";
import { partLink } from "./state";

const BINS = 400;
const DRAWN = 6;

interface Organization {
  at: number;
  name: string;
  hp: number;
  queued: number;
  spot: number;
  waiting: number;
  started: number;
  waitSum: number;
  taken: number;
  given: number;
  bound: number | null;
}

export class OrganizationsView {
  readonly root: HTMLElement;
  private readonly rows = el("div", {});
  private readonly chart: Chart;
  private drawn = "";
  private rankedFor = "";
  private ranked: number[] = [];
  private seen = new Set<number>();

  constructor(private readonly app: App) {
    this.chart = new Chart({ id: "demand", title: "HP demand", caption: "", height: 260, onPick: (t) => app.go({ t }), onZoom: (from, to) => app.go({ from, to }) }, app.clock);
    this.root = el("div", { class: "view" }, this.rows, this.chart.figure);
  }

  show(): void {
    const { app } = this;
    const [from, to] = app.range();
    const largest = this.largest(from, to);
    const found = this.count();
    const uses = app.uses();
    const gpus = uses[app.pool < 0 ? uses.length - 1 : app.pool]!.gpus;
    const anyBound = found.some((each) => each.bound !== null);
    fill(this.rows, table("Organizations", [
      { head: "Organization", cell: (o: Organization) => el("a", { href: partLink({ org: o.name === app.state.org ? "" : o.name }), "aria-current": o.name === app.state.org ? "true" : null }, o.name) },
      { head: "HP demand", title: "HP GPUs running or queued", cell: (o) => number(o.hp + o.queued) },
      { head: "queued", title: "the part of it that waits", cell: (o) => number(o.queued) },
      ...(anyBound ? [{ head: "Bound", title: "highest bound of its demand in the forecast; told of one organization", cell: (o: Organization) => (o.bound === null ? "–" : number(o.bound)) }] : []),
      { head: "Spot GPUs", cell: (o) => number(o.spot) },
      { head: "Share", title: "of the GPUs looked at", cell: (o) => percent(gpus ? (o.hp + o.spot) / gpus : NaN) },
      { head: "Waiting tasks", cell: (o) => el("a", { href: partLink({ view: "queue", org: o.name }) }, number(o.waiting)) },
      { head: "Mean wait, 24 h", title: "of runs that started in the last 24 h", cell: (o) => (o.started ? length(o.waitSum / o.started) : "–") },
      { head: "Evicted, 24 h", title: "its spot runs that were evicted", cell: (o) => number(o.taken) },
      { head: "Evicted others, 24 h", title: "runs evicted in favour of its HP tasks", cell: (o) => number(o.given) },
    ], found, (o) => ({ "data-organization": o.name, class: o.name === app.state.org ? "chosen" : null })));
    const chosen = app.state.org ? found.filter((o) => o.name === app.state.org) : largest.map((at) => found.find((o) => o.at === at)!).filter(Boolean);
    const key = `${app.pool} ${from} ${to} ${chosen.map((o) => o.at).join()} ${app.recording.wire.last_id}`;
    if (key !== this.drawn) {
      this.drawn = key;
      let time: number[] = [];
      const lines = chosen.map((o, at): Line => {
        const bins = new Bins(from, to, BINS);
        time = bins.times();
        return { label: o.name, colour: `--series-${at}`, values: demandOf(app.recording, o.at, app.pool, bins) };
      });
      this.chart.set(time, lines, `HP GPUs running or queued${app.state.org ? "" : `, the ${lines.length} organizations with the most in this period`}. Averages of ${length((to - from) / BINS)}.`);
    }
    this.chart.mark(app.time);
  }

  /** The organizations whose HP tasks ran most between two moments. */
  private largest(from: number, to: number): number[] {
    const { pool, recording } = this.app;
    const { runs, tasks, last } = recording;
    const key = `${pool} ${from} ${to} ${recording.wire.last_id}`;
    if (key !== this.rankedFor) {
      const ran = new Map<number, number>();
      this.seen = new Set(tasks.organization.filter((_, task) => pool < 0 || tasks.model[task] === pool));
      runs.task.forEach((task, run) => {
        if (tasks.spot[task] || (pool >= 0 && tasks.model[task] !== pool)) return;
        const seconds = Math.min(runs.end[run]!, last, to) - Math.max(runs.start[run]!, from);
        if (seconds > 0) ran.set(tasks.organization[task]!, (ran.get(tasks.organization[task]!) ?? 0) + seconds * tasks.gpus[task]!);
      });
      this.rankedFor = key;
      this.ranked = [...ran].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, DRAWN).map(([at]) => at);
    }
    return this.ranked;
  }

  /** One row an organization, those with the highest demand first. */
  private count(): Organization[] {
    const { recording, moment, time, pool } = this.app;
    const { tasks, runs, wire } = recording;
    const named = this.bound();
    const all = wire.organizations.map((name, at): Organization => ({ at, name, hp: 0, queued: 0, spot: 0, waiting: 0, started: 0, waitSum: 0, taken: 0, given: 0, bound: at === named?.organization ? named.bound : null }));
    const of = (task: number) => (pool < 0 || tasks.model[task] === pool ? all[tasks.organization[task]!]! : null);
    for (const run of moment.running.items) {
      const task = runs.task[run]!;
      const owner = of(task);
      if (owner) owner[tasks.spot[task] ? "spot" : "hp"] += tasks.gpus[task]!;
    }
    for (const task of moment.waiting.items) {
      const owner = of(task);
      if (!owner) continue;
      owner.waiting++;
      if (!tasks.spot[task]) owner.queued += tasks.gpus[task]!;
    }
    const begin = countUpTo(runs.start, time - DAY);
    for (let run = begin; run < runs.start.length && runs.start[run]! <= time; run++) {
      const owner = of(runs.task[run]!);
      if (!owner) continue;
      owner.started++;
      owner.waitSum += runs.start[run]! - runs.queued[run]!;
    }
    for (const entry of evictionsIn(recording, pool, time - DAY, time)) {
      of(wire.entries.task[entry]!)!.taken++;
      const taker = recording.entryTaker[entry]!;
      if (taker >= 0) all[tasks.organization[taker]!]!.given++;
    }
    const held = (o: Organization) => o.hp + o.queued;
    return all.filter((o) => this.seen.has(o.at)).sort((a, b) => held(b) - held(a) || b.spot - a.spot || (a.name < b.name ? -1 : 1));
  }

  /** The organization that the quota log names at this moment, and the bound of its demand. */
  private bound(): { organization: number; bound: number | null } | null {
    const { recording, time } = this.app;
    const only = this.app.onlyPool(this.app.pool);
    const series = only < 0 ? null : quotaRows(recording, only);
    if (!series) return null;
    const { quota } = recording.wire;
    const row = series.rows[countUpTo(series.rows, time, (each) => quota.time[each]!) - 1];
    return row === undefined ? null : { organization: quota.organization[row]!, bound: quota.organization_demand[row] ?? null };
  }
}
