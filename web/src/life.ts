// The life of one task as a line in time: waits, runs, evictions, and who took its place.
import type { App } from "./app";
import { optionsOf } from "./decisions";
import { el, fill, table } from "./dom";
import { length, number, plural, precise } from "./format";
import { nextRun, waitingSince } from "./moment";
import { CANCEL, EVICT, FINISH, LOST, SUSPEND } from "./recording";
import { partLink } from "./state";
import { taskLink } from "./now";

interface Step {
  what: string;
  kind: "wait" | "run";
  from: number;
  to: number;
  open: boolean;
  nodes: string[];
  why: string;
  taker: number;
  after: string;
  task: number;
}

const ENDED: Record<number, string> = { [FINISH]: "finished", [EVICT]: "evicted", [LOST]: "lost", [CANCEL]: "cancelled", [SUSPEND]: "suspended" };
const MOST_NODES = 4;

export class LifePanel {
  readonly root = el("section", { id: "life", class: "panel", "aria-label": "Task", tabindex: -1, hidden: true });

  constructor(private readonly app: App) {}

  show(): void {
    const { app } = this;
    const name = app.state.task;
    this.root.hidden = !name;
    if (!name) return;
    const task = app.recording.task(name);
    const close = el("a", { href: partLink({ task: "" }), class: "close", "aria-label": "Close" }, "×");
    if (task < 0) return fill(this.root, close, el("h2", {}, name), el("p", {}, "The log has no task of this name."));
    const { tasks, organizations, models } = app.recording.wire;
    const about = `${tasks.spot[task] ? "Spot" : "HP"} task of ${organizations[tasks.organization[task]!]}, ${plural(tasks.gpus[task]!, "GPU")} of ${models[tasks.model[task]!]}${tasks.spot[task] ? `, guarantee ${length(tasks.guarantee[task]!)}` : ""}`;
    const steps = this.steps(task);
    fill(this.root, close, el("h2", {}, name), el("p", { class: "words" }, about), this.line(steps), this.list(steps));
  }

  private steps(task: number): Step[] {
    const { recording } = this.app;
    const { runs } = recording;
    const steps: Step[] = [];
    const last = recording.last;
    const wait = (from: number, to: number, open: boolean, why: string, after = "") => {
      if (to > from) steps.push({ what: "waits", kind: "wait", from, to, open, nodes: [], why, taker: -1, after, task });
    };
    let since = recording.submitted[task]!;
    for (const run of recording.runsOf[task]!) {
      const start = runs.start[run]!;
      wait(runs.queued[run]!, start, false, recording.reason(runs.whyWaited[run]!));
      const open = !Number.isFinite(runs.end[run]!);
      const end = open ? last : runs.end[run]!;
      const nodes = new Set<string>();
      for (let pod = runs.firstPod[run]!; pod < runs.firstPod[run]! + runs.pods[run]!; pod++) nodes.add(recording.wire.nodes.name[recording.wire.pods.node[pod]!]!);
      steps.push({ what: `runs${runs.number[run]! > 1 ? ` again (${runs.number[run]})` : ""}`, kind: "run", from: start, to: end, open, nodes: [...nodes], why: recording.reason(runs.whyEnded[run]!), taker: runs.taker[run]!, task, after: open ? "" : ENDED[runs.how[run]!]! });
      since = end;
    }
    const over = recording.over[task]!;
    if (recording.cancelledWaiting[task]) wait(since, over, false, "", "cancelled");
    else if (over === Infinity && !(steps.at(-1)?.open ?? false)) wait(since, last, true, this.app.reasons.get(recording.tasks.name[task]!) ?? "");
    return steps;
  }

  private line(steps: Step[]): HTMLElement {
    const first = steps[0]?.from ?? 0;
    const last = Math.max(steps.at(-1)?.to ?? 1, first + 1);
    const share = (time: number) => `${(100 * (time - first)) / (last - first)}%`;
    const parts = steps.map((step) => el("a", {
      class: `part ${step.kind} ${step.after}`, href: partLink({ t: step.from }), style: `left:${share(step.from)};width:${share(first + step.to - step.from)}`,
      title: `${step.what} ${length(step.to - step.from)}`, "aria-label": `${step.what} for ${length(step.to - step.from)}${step.after ? `, then ${step.after}` : ""}`,
    }));
    const now = this.app.time;
    const marker = now >= first && now <= last ? el("span", { class: "marker", style: `left:${share(now)}` }) : null;
    return el("div", { class: "lifeline" }, ...parts, marker);
  }

  /** The alternatives that were weighed when a run was evicted. */
  private weighed(step: Step): HTMLElement | null {
    const { recording } = this.app;
    const { options, nodes, tasks } = recording.wire;
    const rows = step.taker < 0 ? [] : optionsOf(recording, step.taker, step.task, step.to);
    if (!rows.length) return null;
    const names = (row: number) => options.victims[row]!.flatMap((victim, at) => [at ? ", " : "", taskLink(tasks.name[victim]!)]);
    const shown = table(`What was weighed (${recording.wire.scheduler || "cheapest first"})`, [
      { head: "Node", cell: (row: number) => (options.node[row]! < 0 ? "–" : el("a", { href: partLink({ view: "nodes", node: nodes.name[options.node[row]!]! }) }, nodes.name[options.node[row]!]!)) },
      { head: "Would be evicted", left: true, cell: (row) => el("span", {}, ...names(row)) },
      { head: "Work lost", title: "GPU-hours since the last checkpoints", cell: (row) => `${number(options.waste[row]! / 3600)} GPU-h` },
      { head: "Cost", title: "by the rule of the scheduler: the lowest is taken", cell: (row) => precise(options.cost[row]!) },
      { head: "Taken", left: true, cell: (row) => (options.chosen[row] ? "★ taken" : "") },
    ], rows, (row) => ({ class: options.chosen[row] ? "recommended" : null }));
    return el("details", { class: "weighed" }, el("summary", {}, `${plural(rows.length, "way")} to make room ${rows.length === 1 ? "was" : "were"} weighed`), shown);
  }

  private list(steps: Step[]): HTMLElement {
    const { clock, recording } = this.app;
    const items = steps.map((step) => {
      const where = step.nodes.slice(0, MOST_NODES).flatMap((node, at) => [at ? ", " : " on ", el("a", { href: partLink({ view: "nodes", node }) }, node)]);
      const more = step.nodes.length > MOST_NODES ? ` and ${step.nodes.length - MOST_NODES} more` : "";
      const end = step.after ? `, then ${step.after}` : step.open ? ", and still does" : "";
      const taker = step.taker >= 0 ? el("span", {}, " in favour of ", taskLink(recording.tasks.name[step.taker]!)) : null;
      return el("li", { class: step.kind },
        el("a", { href: partLink({ t: step.from }) }, clock.text(step.from)), ` ${step.what} ${length(step.to - step.from)}`, ...where, more, end, taker,
        step.why ? el("span", { class: "why" }, step.why) : null, this.weighed(step));
    });
    return el("ol", { class: "steps" }, ...items.length ? items : [el("li", {}, "was submitted; nothing more is recorded")]);
  }
}

/** Why a task that waits does: what the log says when the wait ends. */
export function waitReason(app: App, task: number): string {
  const run = nextRun(app.recording, task, app.time);
  return run < 0 ? (app.reasons.get(app.recording.tasks.name[task]!) ?? "") : app.recording.reason(app.recording.runs.whyWaited[run]!);
}

export function waited(app: App, task: number): number {
  return app.time - waitingSince(app.recording, task, app.time);
}
