// Organizations: what each wants, holds, waits for, and which evictions it caused and suffered.
import type { App } from "./app";
import { Chart, type Line } from "./chart";
import { el, fill, table } from "./dom";
import { DAY, length, number, percent } from "./format";
import { forecastAt } from "./decisions";
import { Bins, demandOf, evictionsIn } from "./series";
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
  expected: number | null;
  bound: number | null;
}

export class OrganizationsView {
  readonly root: HTMLElement;
  private readonly rows = el("div", {});
  private readonly chart: Chart;
  private readonly each: Chart[] = [];
  private readonly charts = el("div", { class: "grid" });
  private readonly hint = el("p", { class: "words", id: "no-forecast" }, "No forecast by organization is recorded: gfs simulate --decisions writes one under a quota that follows a forecast (scheduler gfs, or quota=forecast), and gfs view --decisions shows it.");
  private drawn = "";
  private rankedFor = "";
  private ranked: number[] = [];
  private seen = new Set<number>();
  private shownCharts = 0;

  constructor(private readonly app: App) {
    this.chart = this.make("demand", 260);
    this.root = el("div", { class: "view" }, this.rows, this.chart.figure, this.hint, this.charts);
  }

  private make(id: string, height: number): Chart {
    const { app } = this;
    return new Chart({ id, title: "HP demand", caption: "", height, onPick: (t) => app.go({ t }), onZoom: (from, to) => app.go({ from, to }) }, app.clock);
  }

  show(): void {
    const { app } = this;
    const [from, to] = app.range();
    const largest = this.largest(from, to);
    const found = this.count();
    const uses = app.uses();
    const gpus = uses[app.pool < 0 ? uses.length - 1 : app.pool]!.gpus;
    const foreseen = app.recording.wire.forecasts.time.length > 0;
    this.hint.hidden = foreseen;
    fill(this.rows, table("Organizations", [
      { head: "Organization", cell: (o: Organization) => el("a", { href: partLink({ org: o.name === app.state.org ? "" : o.name }), "aria-current": o.name === app.state.org ? "true" : null }, o.name) },
      { head: "HP demand", title: "HP GPUs running or queued", cell: (o) => number(o.hp + o.queued) },
      { head: "Queued", title: "the part of it that waits", cell: (o) => number(o.queued) },
      ...(foreseen ? [
        { head: "Expected", title: "the highest hour that the forecast expects of its HP demand while the shortest guarantee lasts", cell: (o: Organization) => (o.expected === null ? "–" : number(o.expected)) },
        { head: "Bound", title: "what its HP demand should stay below meanwhile", cell: (o: Organization) => (o.bound === null ? "–" : number(o.bound)) },
      ] : []),
      { head: "Spot GPUs", cell: (o) => number(o.spot) },
      { head: "Share", title: "of the GPUs looked at", cell: (o) => percent(gpus ? (o.hp + o.spot) / gpus : NaN) },
      { head: "Waiting tasks", cell: (o) => el("a", { href: partLink({ view: "queue", org: o.name }) }, number(o.waiting)) },
      { head: "Mean wait, 24\u00a0h", title: "of runs that started in the last 24 h", cell: (o) => (o.started ? length(o.waitSum / o.started) : "–") },
      { head: "Evicted, 24\u00a0h", title: "its spot runs that were evicted", cell: (o) => number(o.taken) },
      { head: "Evicted others, 24\u00a0h", title: "runs evicted in favour of its HP tasks", cell: (o) => number(o.given) },
    ], found, (o) => ({ "data-organization": o.name, class: o.name === app.state.org ? "chosen" : null })));
    const chosen = app.state.org ? found.filter((o) => o.name === app.state.org) : largest.map((at) => found.find((o) => o.at === at)!).filter(Boolean);
    const key = `${app.pool} ${from} ${to} ${chosen.map((o) => o.at).join()} ${app.recording.wire.last_id}`;
    if (key !== this.drawn) {
      this.drawn = key;
      const demand = chosen.map((o) => demandOf(app.recording, o.at, app.pool, new Bins(from, to, BINS)));
      const time = new Bins(from, to, BINS).times();
      const bin = length((to - from) / BINS);
      this.chart.figure.hidden = foreseen && chosen.length === 1;
      this.chart.set(time, chosen.map((o, at): Line => ({ label: o.name, colour: `--series-${at}`, values: demand[at]! })),
        `HP GPUs running or queued${app.state.org ? "" : `, the ${chosen.length} organizations with the most in this period`}. Averages of ${bin}.`);
      fill(this.charts);
      if (foreseen) chosen.forEach((o, at) => this.drawOne(o, at, time, demand[at]!, chosen.length === 1 ? 260 : 170, bin));
      this.shownCharts = foreseen ? chosen.length : 0;
    }
    this.chart.mark(app.time);
    for (const chart of this.each.slice(0, this.shownCharts)) chart.mark(app.time);
  }

  /** One organization: its demand beside what was forecast of it. */
  private drawOne(o: Organization, at: number, time: number[], demand: number[], height: number, bin: string): void {
    const chart = (this.each[at] ??= this.make(`forecast-${at}`, height));
    chart.figure.classList.toggle("half", height < 200);
    this.charts.append(chart.figure);
    const { expected, bound } = forecastAt(this.app.recording, o.at, this.app.pool, time);
    chart.rename(`${o.name}: HP demand and forecast`, height);
    chart.set(time, [
      { label: "bound", colour: "--hp", values: bound, dash: [5, 4], steps: true, fill: "expected", band: true },
      { label: "expected", colour: "--hp", values: expected, dash: [1, 3], steps: true },
      { label: "demand that came", colour: "--ink", values: demand },
    ], `Averages of ${bin}. The band: from what was expected at that moment to the bound.`);
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
    const all = wire.organizations.map((name, at): Organization => ({ at, name, hp: 0, queued: 0, spot: 0, waiting: 0, started: 0, waitSum: 0, taken: 0, given: 0, expected: null, bound: null }));
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
    const found = all.filter((o) => this.seen.has(o.at));
    for (const o of found) {
      const { expected, bound } = forecastAt(recording, o.at, pool, [time]);
      [o.expected, o.bound] = [expected[0] ?? null, bound[0] ?? null];
    }
    return found.sort((a, b) => held(b) - held(a) || b.spot - a.spot || (a.name < b.name ? -1 : 1));
  }
}
