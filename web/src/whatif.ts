// What if: the recorded day simulated with something else, both side by side.
import type { App } from "./app";
import { Chart } from "./chart";
import { el, fill, table } from "./dom";
import { percent, plural } from "./format";
import { useLines } from "./now";
import { Recording } from "./recording";
import { poolSeries } from "./series";
import { type Wire, recordingText } from "./wire";

const BINS = 400;
const ASK_AGAIN = 400;

interface Run {
  key: string;
  title: string;
  state: "running" | "done" | "failed";
  share: number;
  error: string;
  left_out: number;
  headings: string[];
  recorded: string[];
  variant: string[];
  better: number[];
  day: string;
}

export class WhatIfView {
  readonly root: HTMLElement;
  private readonly form: HTMLFormElement;
  private readonly status = el("p", { class: "words", role: "status", id: "whatif-status" });
  private readonly outcome = el("div", { id: "whatif-outcome" });
  private readonly charts = el("div", { class: "grid" });
  private readonly before: Chart;
  private readonly after: Chart;
  private other: Recording | null = null;
  private drawn = "";
  private asked = 0;

  constructor(private readonly app: App) {
    const { schedulers, quotas, scheduler, promise } = app.recording.wire;
    const choice = (name: string, label: string, control: HTMLElement) => { control.setAttribute("name", name); control.id = `whatif-${name}`; return el("label", {}, el("span", {}, label), control); };
    const options = (names: string[], chosen: string, first: string) => el("select", {}, first ? el("option", { value: "" }, first) : null, ...names.map((name) => el("option", { value: name, selected: name === chosen }, name)));
    const numeric = (least: number, most: number, step: number, hint: string) => el("input", { type: "number", min: least, max: most, step, placeholder: hint });
    this.form = el("form", { class: "selectors" },
      choice("scheduler", "Scheduler", options(schedulers, scheduler || "gfs", "")),
      choice("quota", "Spot quota", options(quotas, "", "the scheduler's own")),
      choice("quota_share", "Share of a fixed quota", numeric(0, 1, 0.01, "0.35")),
      choice("p", "Promise p", numeric(0.5, 0.999, 0.001, String(promise))),
      choice("nodes", "Nodes", el("select", {}, ...[0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5].map((share) => el("option", { value: share, selected: share === 1 }, percent(share))))),
      el("button", { type: "submit", id: "whatif-run" }, "Simulate"));
    this.form.addEventListener("submit", (event) => { event.preventDefault(); void this.run(); });
    const chart = (id: string, title: string) => {
      const made = new Chart({ id, title, caption: "", onPick: (t) => app.go({ t }), onZoom: (from, to) => app.go({ from, to }) }, app.clock);
      made.figure.classList.add("half");
      return made;
    };
    this.before = chart("whatif-before", "Recorded: GPUs in use");
    this.after = chart("whatif-after", "What if: GPUs in use");
    this.charts.append(this.before.figure, this.after.figure);
    this.charts.hidden = true;
    const about = app.recording.wire.live
      ? "Simulates what was recorded of this cluster up to now with another scheduler, quota or number of nodes, in a process of its own: decisions go on. Only GPUs count; what runs now counts as done, what waits as withdrawn."
      : "Simulates the recorded jobs with another scheduler, quota or number of nodes. Everything else stays as it was recorded.";
    const parts = schedulers.length ? [el("p", { class: "words" }, about), this.form, this.status, this.outcome, this.charts] : howTo();
    this.root = el("div", { class: "view" }, ...parts);
  }

  show(): void {
    const { app, other } = this;
    this.charts.hidden = !other;
    if (!other) return;
    const [from, to] = [app.range()[0], Math.max(app.range()[1], Number.isNaN(app.state.to) ? other.last : 0)];
    const key = `${app.pool} ${from} ${to} ${other.wire.title}`;
    if (key !== this.drawn) {
      this.drawn = key;
      for (const [chart, recording] of [[this.before, app.recording], [this.after, other]] as const) {
        const pool = app.pool < 0 ? -1 : recording.wire.models.indexOf(app.state.pool);
        const series = poolSeries(recording, pool, from, to, BINS);
        const gpus = pool < 0 ? recording.poolGpus.reduce((sum, each) => sum + each, 0) : recording.poolGpus[pool]!;
        chart.set(series.time, useLines(series, gpus, series.time.length));
      }
    }
    for (const chart of [this.before, this.after]) chart.mark(app.time);
  }

  private async run(): Promise<void> {
    const turn = ++this.asked;
    const asked = new URLSearchParams([...new FormData(this.form)].map(([name, value]) => [name, String(value)]));
    fill(this.status, "Simulating ...");
    for (;;) {
      const answer = await fetch(`api/v1/whatif?${asked}`).catch(() => null);
      if (turn !== this.asked) return;
      const told = (await answer?.json().catch(() => null)) as (Run & { error: string }) | null;
      if (!told || !answer?.ok || told.state === "failed") return fill(this.status, told?.error ?? "The server does not answer.");
      if (told.state === "done") return this.tell(told);
      if (told.day) asked.set("day", told.day);
      fill(this.status, `Simulating: ${percent(told.share)} ...`);
      await new Promise((done) => setTimeout(done, ASK_AGAIN));
    }
  }

  private async tell(run: Run): Promise<void> {
    this.other = new Recording(JSON.parse(await recordingText(run.key)) as Wire);
    this.drawn = "";
    const rows = run.headings.map((heading, at) => ({ heading, recorded: run.recorded[at]!, variant: run.variant[at]!, better: run.better[at]! }));
    const best = (text: string, is: boolean) => el("span", { class: is ? "better" : null }, text, is ? " ★" : null);
    fill(this.status, `${run.title}${run.left_out ? `; ${plural(run.left_out, "task")} fit on no such cluster and were left out` : ""}. `, el("a", { href: `?${new URLSearchParams({ variant: run.key })}`, target: "_blank", rel: "noopener" }, "Look at this run"));
    fill(this.outcome, table("Recorded and what if (★: better)", [
      { head: "Figure", cell: (row: (typeof rows)[number]) => row.heading },
      { head: "recorded", cell: (row) => best(row.recorded, row.better < 0) },
      { head: "what if", cell: (row) => best(row.variant, row.better > 0) },
    ], rows));
    this.app.go({});
  }
}

/** A page that cannot simulate says who can. */
function howTo(): HTMLElement[] {
  const alone = document.getElementById("recording") !== null;
  return [
    el("p", { class: "lead" }, alone ? "This page is one file and holds no simulator." : "The jobs and nodes of this run were not given."),
    el("p", { class: "words" }, "To run the same jobs with another scheduler, spot quota, promise or number of nodes, and to see both runs side by side, serve the run with its trace:"),
    el("pre", { tabindex: 0 }, "gfs view events.csv --jobs jobs.csv --nodes nodes.csv"),
    el("p", { class: "words" }, "The page that opens has a form here. For many variants at once: gfs compare, gfs sweep."),
  ];
}
