// Now: what GPUs do, the quota and the demand that it expects, evictions and whether the promise is kept.
import type { App } from "./app";
import { Chart, type Line } from "./chart";
import { el, fill, table } from "./dom";
import { DAY, length, number, percent, plural } from "./format";
import type { Use } from "./moment";
import { type PoolSeries, evictionsIn, guarantees, poolSeries, quotaRows } from "./series";
import { countUpTo } from "./recording";
import { partLink } from "./state";

const BINS = 600;
const SHOWN_EVICTIONS = 12;
const MOST_QUOTAS = 8;

export class NowView {
  readonly root: HTMLElement;
  private readonly tiles = el("div", { class: "tiles" });
  private readonly pools = el("div", {});
  private readonly evicted = el("section", { "aria-label": "Evictions" });
  private readonly gpus: Chart;
  private readonly quota: Chart;
  /** One a pool while all are looked at. */
  private readonly quotas: Chart[] = [];
  private readonly quotaPlace = el("div", { class: "grid" });
  private readonly correction: Chart;
  private readonly evictions: Chart;
  private readonly noQuota = el("p", { class: "words" });
  private drawn = "";

  constructor(private readonly app: App) {
    this.gpus = this.make("gpus", "GPUs in use");
    this.quota = this.make("quota", "Spot quota and HP demand");
    this.correction = this.make("correction", "Correction by feedback", 130);
    this.evictions = this.make("evictions", "Evictions", 130);
    this.root = el("div", { class: "view" }, this.tiles, this.pools,
      el("div", { class: "grid" }, this.gpus.figure, this.quota.figure, this.noQuota, this.quotaPlace, half(this.correction.figure), this.evictions.figure), this.evicted);
  }

  private make(id: string, title: string, height?: number): Chart {
    const { app } = this;
    return new Chart({ id, title, caption: "", ...(height ? { height } : {}), onPick: (t) => app.go({ t }), onZoom: (from, to) => app.go({ from, to }) }, app.clock);
  }

  show(): void {
    const { app } = this;
    const { recording } = app;
    const uses = app.uses();
    const pool = app.pool;
    const use = uses[pool < 0 ? uses.length - 1 : pool]!;
    fill(this.tiles, ...this.numbers(use, pool));
    fill(this.pools, this.poolTable(uses));
    const [from, to] = app.range();
    const key = `${pool} ${from} ${to} ${recording.wire.last_id}`;
    if (key !== this.drawn) {
      this.drawn = key;
      this.draw(pool, from, to);
    }
    for (const chart of [this.gpus, this.quota, this.correction, this.evictions, ...this.quotas]) chart.mark(app.time);
    fill(this.evicted, ...this.evictionList(pool));
  }

  private numbers(use: Use, pool: number): HTMLElement[] {
    const { app } = this;
    const { recording, time } = app;
    const held = use.hp + use.spot;
    const day = guarantees(recording, pool, time - DAY, time);
    const all = guarantees(recording, pool, -Infinity, time);
    const { promise, promise_told } = recording.wire;
    const kept = (of: { judged: number; broken: number }) => (of.judged ? 1 - of.broken / of.judged : NaN);
    const rate = kept(day);
    const evicted = evictionsIn(recording, pool, time - DAY, time).length;
    const row = app.onlyPool(pool) < 0 ? this.quotaSum() : this.quotaRow(pool);
    const share = (gpus: number) => (use.gpus ? ` · ${percent(gpus / use.gpus)}` : "");
    const waiting = `${number(use.waitingHp)} HP, ${number(use.waitingSpot)} spot${use.longestWait ? `; longest ${length(use.longestWait)}` : ""}`;
    return [
      tile("held", "GPUs in use", number(held), `of ${number(use.gpus)}${share(held)}`),
      tile("useful", "Useful", number(held - use.wasted), use.wasted ? `${number(use.wasted)} restart or do work that is lost` : "all work is kept"),
      tile("hp", "HP", number(use.hp), plural(use.runningHp, "task")),
      tile("spot", "Spot", number(use.spot), plural(use.runningSpot, "task")),
      tile("idle", "Idle", number(use.idle), use.gpus ? `${percent(use.idle / use.gpus)}${use.kept ? `; ${number(use.kept)} kept from spot tasks` : ""}` : "no GPUs"),
      tile("reserved", "Reserved", number(use.reserved), use.closed ? `for HP tasks; ${number(use.closed)} closed` : "for HP tasks that are about to start"),
      row ? tile("quota", `Spot quota, ${number(row.hours)} h`, row.quota === null ? "none" : number(row.quota), row.detail)
        : tile("quota", "Spot quota", "–", "no quota log"),
      tile("waiting", "Waiting", number(use.waitingHp + use.waitingSpot), waiting),
      tile("evictions", "Evictions, 24 h", number(evicted), `of ${plural(day.ended, "spot run")} that ended`),
      tile("guarantee", "Guarantees kept, 24 h", percent(rate), `promised ${percent(promise)}${promise_told ? "" : " as a rule"}; so far ${percent(kept(all))}`,
        Number.isNaN(rate) ? null : rate >= promise),
    ];
  }

  /** The quota that holds now, of one pool. */
  private quotaRow(pool: number): { hours: number; quota: number | null; detail: string } | null {
    const { quota } = this.app.recording.wire;
    const only = this.app.onlyPool(pool);
    const row = only < 0 ? null : this.lastRow(only);
    if (row === null) return null;
    const eta = quota.eta[row];
    const used = quota.spot_in_use[row];
    const word = quota.forecaster[row]! >= 0 ? "eta" : "level";
    return {
      hours: quota.guarantee_hours[row]!,
      quota: quota.quota[row] ?? null,
      detail: `${number(used ?? 0)} in use${eta === null || eta === undefined ? "" : `, ${word} ${eta.toFixed(2)}`}`,
    };
  }

  /** The quotas of all pools together. */
  private quotaSum(): { hours: number; quota: number | null; detail: string } | null {
    const { quota } = this.app.recording.wire;
    const rows = this.quotaPools().map((pool) => this.lastRow(pool)).filter((row): row is number => row !== null);
    if (!rows.length) return null;
    const sum = (column: (number | null)[]) => rows.reduce<number | null>((total, row) => (total === null || column[row] === null ? null : total + column[row]!), 0);
    return { hours: quota.guarantee_hours[rows[0]!]!, quota: sum(quota.quota), detail: `${number(sum(quota.spot_in_use) ?? 0)} in use, of ${plural(rows.length, "pool")}` };
  }

  /** Pools that have a quota, the largest first. */
  private quotaPools(): number[] {
    const { recording } = this.app;
    return [...recording.wire.models.keys()].filter((pool) => quotaRows(recording, pool) !== null).sort((a, b) => recording.poolGpus[b]! - recording.poolGpus[a]!);
  }

  /** The row of the quota log that holds now, of one pool. */
  private lastRow(pool: number): number | null {
    const { recording, time } = this.app;
    const rows = quotaRows(recording, pool)?.rows ?? [];
    return rows[countUpTo(rows, time, (row) => recording.wire.quota.time[row]!) - 1] ?? null;
  }

  private poolTable(uses: Use[]): HTMLElement {
    const { app } = this;
    const { models } = app.recording.wire;
    const rows = models.map((name, at) => ({ name, use: uses[at]! }));
    if (models.length > 1) rows.push({ name: "all", use: uses.at(-1)! });
    return table("Pools", [
      { head: "Pool", cell: ({ name }) => el("a", { href: partLink({ pool: name === "all" ? "" : name }) }, name) },
      { head: "What its GPUs do", left: true, cell: ({ name, use }) => bar(name, use) },
      { head: "GPUs", cell: ({ use }) => number(use.gpus) },
      { head: "HP", cell: ({ use }) => number(use.hp) },
      { head: "Spot", cell: ({ use }) => number(use.spot) },
      { head: "Reserved", title: "held for HP tasks while those that make room for them stop", cell: ({ use }) => number(use.reserved) },
      { head: "Idle", cell: ({ use }) => number(use.idle) },
      { head: "Closed", title: "idle GPUs of nodes that failed or are cordoned", cell: ({ use }) => number(use.closed) },
      ...(app.recording.wire.spot_nodes.time.length ? [{ head: "Kept from spot", title: "the idle GPUs of nodes that are closed to spot tasks after evictions, or reserved for one of them", cell: ({ use }: { use: Use }) => number(use.kept) }] : []),
      { head: "Useful", title: "in use, and the work is kept", cell: ({ use }) => number(use.hp + use.spot - use.wasted) },
      { head: "Waiting HP", cell: ({ use }) => number(use.waitingHp) },
      { head: "Waiting spot", cell: ({ use }) => number(use.waitingSpot) },
    ], rows, ({ name }) => ({ "data-pool": name }));
  }

  private draw(pool: number, from: number, to: number): void {
    const { recording } = this.app;
    const series = poolSeries(recording, pool, from, to, BINS);
    const bin = length((to - from) / BINS);
    this.gpus.set(series.time, useLines(series, this.capacity(pool), series.time.length), `Averages of ${bin}. Drag to look closer, click to go to a moment.`);
    this.evictions.set(series.time, [{ label: "evictions", colour: "--spot", values: series.evictions, steps: true, fill: true }], `Counted per ${bin}.`);
    const only = this.app.onlyPool(pool);
    const pools = only < 0 ? this.quotaPools().slice(0, MOST_QUOTAS) : [];
    const some = only < 0 ? pools.length > 0 : this.drawQuota(this.quota, only, series, from, to);
    this.quota.figure.hidden = this.correction.figure.hidden = only < 0 || !some;
    half(this.evictions.figure, !this.correction.figure.hidden);
    this.noQuota.hidden = some;
    if (!some) fill(this.noQuota, "There is no quota log for this period: gfs simulate --quota-log writes one, --quota gives it to this page.");
    this.quotaPlace.hidden = !pools.length;
    fill(this.quotaPlace);
    pools.forEach((each, at) => {
      const chart = (this.quotas[at] ??= this.make(`quota-${at}`, ""));
      chart.rename(`${recording.wire.models[each]}: spot quota and HP demand`, 200);
      this.quotaPlace.append(half(chart.figure, pools.length > 1));
      this.drawQuota(chart, each, poolSeries(recording, each, from, to, BINS), from, to);
    });
  }

  private capacity(pool: number): number {
    const { poolGpus } = this.app.recording;
    return pool < 0 ? poolGpus.reduce((sum, gpus) => sum + gpus, 0) : poolGpus[pool]!;
  }

  /** Draw the quota of one pool; false if there is none. */
  private drawQuota(chart: Chart, pool: number, series: PoolSeries, from: number, to: number): boolean {
    const { recording } = this.app;
    const { quota } = recording.wire;
    const found = quotaRows(recording, pool);
    const rows = (found?.rows ?? []).filter((row) => quota.time[row]! >= from && quota.time[row]! <= to);
    if (!rows.length) return false;
    const every = Math.max(1, Math.ceil(rows.length / 1500));
    const thin = rows.filter((_, at) => at % every === 0);
    const time = thin.map((row) => quota.time[row]!);
    const pick = (column: (number | null)[]) => thin.map((row) => column[row] ?? null);
    const came = thin.map((row) => average(series, quota.time[row]!));
    const lines: Line[] = [
      { label: "bound of demand", colour: "--hp", values: pick(quota.demand), dash: [5, 4], fill: "demand expected", band: true },
      { label: "demand expected", colour: "--hp", values: pick(quota.expected_demand), dash: [1, 3] },
      { label: "HP demand that came", colour: "--hp", values: came },
      { label: "spot quota", colour: "--spot", values: pick(quota.quota), steps: true, dash: [5, 4] },
      { label: "spot in use", colour: "--spot", values: pick(quota.spot_in_use), steps: true },
    ];
    const known = lines.filter((line) => line.values.some((value) => value !== null));
    const forecast = known.some((line) => line.label === "demand expected");
    const band = known.find((line) => line.band);
    if (!forecast && band) {
      for (const name of ["fill", "band"] as const) delete band[name];
      band.label = "HP and its reserve";
    }
    chart.set(time, known, `Guarantee of ${number(found!.hours)} h. ${forecast
      ? `The band is what the forecast expects of HP demand, up to the bound that it should stay below for ${number(found!.hours)} h.`
      : "No forecast: spot tasks get what HP tasks and their reserve leave."} Demand: HP GPUs running or queued.`);
    if (chart !== this.quota) return true;
    const adaptive = thin.every((row) => quota.forecaster[row]! < 0);
    this.correction.set(time, [{ label: adaptive ? "level" : "eta", colour: "--ink", values: pick(quota.eta), steps: true }],
      adaptive ? "Share of the pool that is kept in reserve; 1 of a fixed quota." : "What the quota is multiplied by, moved by evictions and waits.");
    return true;
  }

  private evictionList(pool: number): HTMLElement[] {
    const { recording, time, clock } = this.app;
    const { entries, tasks } = recording.wire;
    const found = evictionsIn(recording, pool, time - DAY, time);
    const heading = el("h2", {}, "Evictions of the last 24 h");
    if (!found.length) return [heading, el("p", { class: "words" }, "None.")];
    const rows = table(`${plural(found.length, "eviction")}${found.length > SHOWN_EVICTIONS ? `, the newest ${SHOWN_EVICTIONS}` : ""}`, [
      { head: "Task", cell: (entry: number) => taskLink(tasks.name[entries.task[entry]!]!) },
      { head: "When", left: true, cell: (entry) => clock.text(entries.time[entry]!) },
      { head: "GPUs", cell: (entry) => number(tasks.gpus[entries.task[entry]!]!) },
      { head: "After", cell: (entry) => length(entries.time[entry]! - recording.runs.start[recording.entryRun[entry]!]!) },
      { head: "For", left: true, cell: (entry) => { const taker = recording.entryTaker[entry]!; return taker < 0 ? "–" : taskLink(tasks.name[taker]!); } },
      { head: "Why", left: true, cell: (entry) => el("span", { class: "why" }, recording.reason(entries.reason[entry]!)) },
    ], found.slice(0, SHOWN_EVICTIONS));
    return [heading, rows];
  }
}

function average(series: PoolSeries, time: number): number | null {
  const width = (series.time[1] ?? 1) - (series.time[0] ?? 0);
  const bin = Math.floor((time - (series.time[0]! - width / 2)) / width);
  return series.demand[Math.min(Math.max(bin, 0), series.demand.length - 1)] ?? null;
}

/** Stacked: spot upon HP, reserved upon both. */
export function useLines(series: PoolSeries, gpus: number, count: number): Line[] {
  const both = series.hp.map((hp, at) => hp + series.spot[at]!);
  const held = both.map((sum, at) => sum + series.reserved[at]!);
  return [
    { label: "reserved", colour: "--reserved", values: held, fill: "spot", shown: series.reserved },
    { label: "spot", colour: "--spot", values: both, fill: "HP", shown: series.spot },
    { label: "HP", colour: "--hp", values: series.hp, fill: true },
    { label: "useful", colour: "--ink", values: both.map((sum, at) => sum - series.wasted[at]!), dash: [3, 3] },
    { label: "all GPUs", colour: "--muted", values: new Array<number>(count).fill(gpus) },
  ];
}

function half(element: HTMLElement, is = true): HTMLElement {
  element.classList.toggle("half", is);
  return element;
}

export function tile(key: string, label: string, value: string, detail: string, good: boolean | null = null): HTMLElement {
  return el("div", { class: `tile ${good === null ? "" : good ? "good" : "bad"}`, "data-key": key },
    el("span", { class: "label" }, label), el("span", { class: "value" }, value), el("span", { class: "detail" }, detail));
}

function bar(name: string, use: Use): HTMLElement {
  const parts: [string, number][] = [["hp", use.hp], ["spot", use.spot], ["reserved", use.reserved], ["kept from spot", use.kept], ["idle", use.idle - use.kept], ["closed", use.closed]];
  const words = parts.map(([word, gpus]) => `${word} ${number(gpus)}`).join(", ");
  return el("div", { class: "bar", role: "img", "aria-label": `${name}: ${words}`, title: words },
    ...parts.filter(([, gpus]) => gpus > 0).map(([word, gpus]) => el("span", { class: word.split(" ")[0]!, style: `flex-grow:${gpus}` })));
}

export function taskLink(name: string): HTMLElement {
  return el("a", { href: partLink({ task: name }) }, name);
}
