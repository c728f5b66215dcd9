// Queue: who waits, why, for how long, and when it started.
import type { App } from "./app";
import { el, fill, table } from "./dom";
import { expectedStart } from "./decisions";
import { length, number, plural } from "./format";
import { waitReason, waited } from "./life";
import { nextRun } from "./moment";
import { taskLink } from "./now";
import { partLink } from "./state";

const SHOWN = 100;
const SIZES = [1, 2, 4, 8, 16, 64];

export class QueueView {
  readonly root: HTMLElement;
  private readonly organizations = el("select", { id: "queue-organization" });
  private readonly classes = el("select", { id: "queue-class" }, el("option", { value: "" }, "HP and spot"), el("option", { value: "HP" }, "HP"), el("option", { value: "Spot" }, "spot"));
  private readonly sizes = el("select", { id: "queue-size" }, el("option", { value: 0 }, "any"), ...SIZES.map((size) => el("option", { value: size }, `${size} or more`)));
  private readonly search = el("input", { id: "queue-find", type: "search", autocomplete: "off" });
  private readonly found = el("p", { class: "words", role: "status" });
  private readonly rows = el("div", {});

  constructor(private readonly app: App) {
    this.organizations.addEventListener("change", () => app.go({ org: this.organizations.value }));
    this.classes.addEventListener("change", () => app.go({ class: this.classes.value }));
    this.sizes.addEventListener("change", () => app.go({ size: Number(this.sizes.value) }));
    this.search.addEventListener("input", () => app.go({ find: this.search.value }, true));
    const choice = (label: string, control: HTMLElement) => el("label", {}, el("span", {}, label), control);
    this.root = el("div", { class: "view" },
      el("div", { class: "selectors" }, choice("Organization", this.organizations), choice("Class", this.classes), choice("GPUs", this.sizes), choice("Task", this.search)),
      this.found, this.rows);
  }

  show(): void {
    const { app } = this;
    const { recording, state } = app;
    const { tasks, organizations, models } = recording.wire;
    fill(this.organizations, el("option", { value: "" }, "all"), ...[...organizations].sort().map((name) => el("option", { value: name }, name)));
    this.organizations.value = state.org;
    this.classes.value = state.class;
    this.sizes.value = String(state.size);
    if (document.activeElement !== this.search) this.search.value = state.find;
    const organization = organizations.indexOf(state.org);
    const waiting = app.moment.waiting.items.filter((task) =>
      (app.pool < 0 || tasks.model[task] === app.pool)
      && (!state.org || tasks.organization[task] === organization)
      && (!state.class || (state.class === "Spot") === Boolean(tasks.spot[task]))
      && tasks.gpus[task]! >= state.size
      && (!state.find || tasks.name[task]!.includes(state.find)));
    const rows = waiting.map((task) => ({ task, waits: waited(app, task) }));
    rows.sort((a, b) => b.waits - a.waits || a.task - b.task);
    const gpus = waiting.reduce((sum, task) => sum + tasks.gpus[task]!, 0);
    fill(this.found, `${plural(rows.length, "task")} ${rows.length === 1 ? "waits" : "wait"} for ${plural(gpus, "GPU")} in all${rows.length > SHOWN ? `; the ${SHOWN} that have waited longest` : ""}.`);
    if (!rows.length) return fill(this.rows);
    const { live } = recording.wire;
    const foreseen = recording.wire.expected.time.length > 0;
    fill(this.rows, table("Waiting tasks", [
      { head: "Task", cell: ({ task }) => taskLink(tasks.name[task]!) },
      { head: "Class", left: true, cell: ({ task }) => el("span", { class: tasks.spot[task] ? "chip spot" : "chip hp" }, tasks.spot[task] ? "spot" : "HP") },
      { head: "Organization", left: true, cell: ({ task }) => { const name = organizations[tasks.organization[task]!]!; return el("a", { href: partLink({ view: "organizations", org: name }) }, name); } },
      { head: "Pool", left: true, cell: ({ task }) => models[tasks.model[task]!]! },
      { head: "GPUs", cell: ({ task }) => number(tasks.gpus[task]!) },
      { head: "Has waited", cell: ({ waits }) => length(waits) },
      ...(foreseen ? [{ head: "Expected start", left: true, title: "when the forecast of this moment expects room for it", cell: ({ task }: { task: number }) => this.expected(task) }] : []),
      ...(live ? [] : [{ head: "Starts in", title: "as the log has it", cell: ({ task }: { task: number }) => this.startsIn(task) }]),
      { head: "Why", left: true, cell: ({ task }) => el("span", { class: "why" }, waitReason(app, task)) },
    ], rows.slice(0, SHOWN), ({ task }) => ({ "data-task": tasks.name[task]! })));
  }

  private expected(task: number): string {
    const { recording, time, clock } = this.app;
    const found = expectedStart(recording, task, time);
    if (!found) return "–";
    return found.known ? `in ${length(found.start - time)}` : `not before ${clock.hours(found.start)}`;
  }

  private startsIn(task: number): string {
    const run = nextRun(this.app.recording, task, this.app.time);
    return run < 0 ? "not in this log" : length(this.app.recording.runs.start[run]! - this.app.time);
  }
}
