// Nodes: a map of all GPUs that scrolls and zooms; only what is seen is drawn, so that 30,000 nodes are no slower than 8.
import type { App } from "./app";
import { Cards } from "./cards";
import { el, fill, table, visible } from "./dom";
import { length, number, plural } from "./format";
import { tile, taskLink } from "./now";
import { Painter, gapOf } from "./painter";
import { partLink } from "./state";

const HEAD = 28;
const SERIES = 8;
const [SMALLEST, LARGEST] = [3, 96];

interface PoolBlock {
  name: string;
  nodes: number[];
  top: number;
  bottom: number;
}

export class NodesView {
  readonly root: HTMLElement;
  private readonly numbers = el("div", { class: "tiles" });
  private readonly canvas = el("canvas", { tabindex: 0, role: "application", "aria-roledescription": "map", id: "map" });
  private readonly spacer = el("div", { class: "spacer" });
  private readonly scroller: HTMLElement;
  private readonly colours = el("select", { id: "node-colour" }, el("option", { value: "" }, "class"), el("option", { value: "organization" }, "organization"));
  private readonly find = el("input", { id: "node-find", type: "search", autocomplete: "off", placeholder: "name" });
  private readonly legend = el("div", { class: "legend" });
  private readonly panel = el("section", { class: "panel", id: "node", "aria-label": "Node", "aria-live": "polite" });
  private cards: Cards;
  private blocks: PoolBlock[] = [];
  private size = 0;
  private columns = 1;
  private chosenSize = 0;
  private ranked = new Map<number, number>();
  private shownNode = "";

  constructor(private readonly app: App) {
    this.cards = new Cards(app.moment);
    this.scroller = el("div", { class: "map" }, this.canvas, this.spacer);
    const button = (id: string, words: string, label: string, act: () => void) => el("button", { type: "button", id, "aria-label": label, onclick: act }, words);
    this.root = el("div", { class: "view" }, this.numbers,
      el("div", { class: "selectors" }, el("label", {}, el("span", {}, "Coloured by"), this.colours), el("label", {}, el("span", {}, "Find a node"), this.find),
        el("div", { class: "buttons" }, button("zoom-out", "−", "Smaller", () => this.zoom(1 / 1.5)), button("zoom-in", "+", "Larger", () => this.zoom(1.5)), button("zoom-fit", "Fit", "Fit all nodes", () => this.zoom(0)))),
      this.legend, this.panel, this.scroller);
    this.colours.addEventListener("change", () => app.go({ colour: this.colours.value }));
    this.find.addEventListener("change", () => this.search());
    this.scroller.addEventListener("scroll", () => this.draw());
    this.scroller.addEventListener("wheel", (event) => { if (event.ctrlKey) { event.preventDefault(); this.zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2); } }, { passive: false });
    this.canvas.addEventListener("click", (event) => this.pick(event));
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => { this.layout(); this.draw(); }).observe(this.scroller);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  show(): void {
    const { app } = this;
    if (this.cards.first.length !== app.recording.wire.nodes.name.length) this.cards = new Cards(app.moment);
    this.cards.fill();
    this.rank();
    this.colours.value = app.state.colour;
    fill(this.numbers, ...this.tiles());
    this.numbers.classList.toggle("six", this.anyKept);
    this.tellLegend();
    this.layout();
    this.showNode();
    if (app.state.node !== this.shownNode) {
      this.shownNode = app.state.node;
      this.reveal();
    }
    this.draw();
  }

  /** Nodes that are looked at, by pool. */
  private pools(): { name: string; nodes: number[] }[] {
    const { nodes, models } = this.app.recording.wire;
    const pools = models.map((name) => ({ name, nodes: [] as number[] }));
    nodes.model.forEach((model, node) => pools[model]!.nodes.push(node));
    return pools.filter((pool, at) => pool.nodes.length && (this.app.pool < 0 || at === this.app.pool));
  }

  private tiles(): HTMLElement[] {
    const { nodes } = this.app.recording.wire;
    const count = { full: 0, partly: 0, idle: 0, failed: 0, cordoned: 0, all: 0, breaker: 0, reserved: 0 };
    for (const pool of this.pools()) {
      for (const node of pool.nodes) {
        count.all++;
        const kept = this.app.kept.get(node);
        if (kept !== undefined) count[kept < 0 ? "breaker" : "reserved"]++;
        const closed = this.app.closed.get(node);
        if (closed === "failed" || closed === "cordoned") count[closed]++;
        else {
          const held = this.cards.nodeHp[node]! + this.cards.nodeSpot[node]!;
          count[held <= 1e-6 ? "idle" : held >= nodes.gpus[node]! - 1e-6 ? "full" : "partly"]++;
        }
      }
    }
    return [
      tile("nodes", "Nodes", number(count.all), `${plural(nodes.gpus.reduce((a, b) => a + b, 0), "GPU")} in the cluster`),
      tile("nodes-full", "Full", number(count.full), "no GPU is free"),
      tile("nodes-partly", "Partly used", number(count.partly), "some GPUs are free"),
      tile("nodes-idle", "Idle", number(count.idle), "all GPUs are free"),
      tile("nodes-closed", "Closed", number(count.failed + count.cordoned), `${number(count.failed)} failed, ${number(count.cordoned)} cordoned`),
      ...(this.anyKept ? [tile("nodes-kept", "Kept from spot", number(count.breaker + count.reserved), `${number(count.breaker)} after evictions, ${number(count.reserved)} reserved`)] : []),
    ];
  }

  private get anyKept(): boolean {
    return this.app.recording.wire.spot_nodes.time.length > 0;
  }

  /** The organizations that hold most have colours of their own. */
  private rank(): void {
    const { recording, moment } = this.app;
    const held = new Map<number, number>();
    for (const run of moment.running.items) {
      const task = recording.runs.task[run]!;
      const owner = recording.tasks.organization[task]!;
      held.set(owner, (held.get(owner) ?? 0) + recording.tasks.gpus[task]!);
    }
    const order = [...held].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, SERIES);
    this.ranked = new Map(order.map(([owner], at) => [owner, at]));
  }

  private tellLegend(): void {
    const { organizations } = this.app.recording.wire;
    const item = (colour: string, words: string, kind = "") => el("span", { class: "item" }, el("span", { class: `key ${kind}`, style: `--key:var(${colour})` }), words);
    const owners = [...this.ranked].map(([owner, at]) => item(`--series-${at}`, organizations[owner]!));
    const used = this.app.state.colour ? [...owners, item("--rest", "others")] : [item("--hp", "HP"), item("--spot", "spot")];
    fill(this.legend, ...used, item("--reserved", "reserved"), item("--idle", "idle"), item("--ink", "cordoned", "cordoned"), item("--bad", "failed", "failed"),
      ...(this.anyKept ? [item("--ink", "closed to spot tasks after evictions", "breaker"), item("--reserved", "reserved for a spot task", "kept")] : []));
  }

  private layout(): void {
    const width = this.scroller.clientWidth;
    if (!width) return;
    const pools = this.pools();
    const count = pools.reduce((sum, pool) => sum + pool.nodes.length, 0);
    const fit = Math.sqrt((width * Math.max(320, innerHeight * 0.55)) / Math.max(count, 1));
    this.size = Math.max(SMALLEST, Math.min(LARGEST, Math.floor(this.chosenSize || Math.min(fit, 72))));
    this.columns = Math.max(1, Math.floor(width / this.size));
    let top = 0;
    this.blocks = pools.map(({ name, nodes }) => {
      const begin = top + HEAD;
      top = begin + Math.ceil(nodes.length / this.columns) * this.size + 8;
      return { name, nodes, top: begin, bottom: top };
    });
    Object.assign(this.canvas.dataset, { size: this.size, columns: this.columns, head: HEAD }); // for programs and tests
    this.spacer.style.height = `${Math.max(top, 60)}px`;
    const height = Math.round(Math.min(innerHeight * 0.7, Math.max(top, 60)));
    this.scroller.style.height = `${height}px`;
    const ratio = devicePixelRatio;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
      this.spacer.style.marginTop = `${-height}px`;
    }
  }

  private zoom(factor: number): void {
    const before = this.at(this.scroller.clientWidth / 2, this.scroller.clientHeight / 2);
    this.chosenSize = factor ? Math.max(SMALLEST, Math.min(LARGEST, this.size * factor)) : 0;
    this.layout();
    if (before >= 0) this.scrollTo(before);
    this.draw();
  }

  private place(node: number): { x: number; y: number } | null {
    for (const block of this.blocks) {
      const at = block.nodes.indexOf(node);
      if (node >= 0 && at >= 0) return { x: (at % this.columns) * this.size, y: block.top + Math.floor(at / this.columns) * this.size };
    }
    return null;
  }

  private scrollTo(node: number): void {
    const place = this.place(node);
    if (place) this.scroller.scrollTop = place.y - this.scroller.clientHeight / 2;
  }

  private reveal(): void {
    const node = this.app.recording.wire.nodes.name.indexOf(this.app.state.node);
    const place = this.place(node);
    if (!place) return;
    const { scrollTop, clientHeight } = this.scroller;
    if (place.y < scrollTop || place.y + this.size > scrollTop + clientHeight) this.scrollTo(node);
  }

  private draw(): void {
    const context = this.canvas.getContext("2d");
    if (!context || !this.blocks) return;
    const style = getComputedStyle(this.root);
    const colour = (name: string) => style.getPropertyValue(name).trim();
    const paint = new Painter(context, this.cards, this.app, this.ranked, colour);
    const { scrollTop, clientWidth, clientHeight } = this.scroller;
    const ratio = devicePixelRatio;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, clientWidth, clientHeight);
    context.translate(0, -scrollTop);
    for (const { name, nodes, top, bottom } of this.blocks) {
      if (bottom < scrollTop || top - HEAD > scrollTop + clientHeight) continue;
      context.fillStyle = colour("--muted");
      context.font = "600 13px system-ui, sans-serif";
      context.fillText(visible(`${name}: ${plural(nodes.length, "node")}`), 2, top - 9, clientWidth - 4);
      const begin = Math.max(0, Math.floor((scrollTop - top) / this.size)) * this.columns;
      const end = Math.min(nodes.length, Math.ceil((scrollTop + clientHeight - top) / this.size) * this.columns);
      for (let at = begin; at < end; at++) {
        paint.node(nodes[at]!, (at % this.columns) * this.size, top + Math.floor(at / this.columns) * this.size, this.size);
      }
    }
    const chosen = this.place(this.app.recording.wire.nodes.name.indexOf(this.app.state.node));
    if (chosen) {
      context.strokeStyle = colour("--ink");
      context.lineWidth = 2;
      const inner = this.size - gapOf(this.size);
      context.strokeRect(chosen.x, chosen.y, inner, inner);
    }
    const uses = this.app.uses();
    const use = uses[this.app.pool < 0 ? uses.length - 1 : this.app.pool]!;
    this.canvas.setAttribute("aria-label", `Map of ${plural(this.blocks.reduce((sum, block) => sum + block.nodes.length, 0), "node")}: ${number(use.hp)} GPUs held by HP, ${number(use.spot)} by spot tasks, ${number(use.idle)} idle. Arrow keys go from node to node.`);
  }

  /** The node at a place of the scroller, or -1. */
  private at(x: number, y: number): number {
    const down = y + this.scroller.scrollTop;
    const column = Math.floor(x / this.size);
    if (column >= this.columns) return -1;
    const block = this.blocks.find((each) => down >= each.top && down < each.bottom);
    return block?.nodes[Math.floor((down - block.top) / this.size) * this.columns + column] ?? -1;
  }

  private under(event: MouseEvent): number {
    const box = this.canvas.getBoundingClientRect();
    return this.at(event.clientX - box.left, event.clientY - box.top);
  }

  private pick(event: MouseEvent): void {
    const node = this.under(event);
    this.app.go({ node: node < 0 ? "" : this.app.recording.wire.nodes.name[node]! });
  }

  private hover(event: MouseEvent): void {
    const node = this.under(event);
    const { name, gpus } = this.app.recording.wire.nodes;
    this.canvas.title = node < 0 ? "" : visible(`${name[node]}: HP ${number(this.cards.nodeHp[node]!)}, spot ${number(this.cards.nodeSpot[node]!)} of ${gpus[node]} GPUs${this.app.closed.has(node) ? `, ${this.app.closed.get(node)}` : ""}${this.keptWords(node)}`);
  }

  /** Why spot tasks are kept from a node; '' if they are not. */
  private keptWords(node: number): string {
    const task = this.app.kept.get(node);
    if (task === undefined) return "";
    return task < 0 ? ", closed to spot tasks after recent evictions" : `, reserved for ${this.app.recording.tasks.name[task]}`;
  }

  private key(event: KeyboardEvent): void {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns }[event.key];
    if (event.key === "+" || event.key === "-") return this.zoom(event.key === "+" ? 1.5 : 1 / 1.5);
    if (step === undefined) return;
    event.preventDefault();
    const { name } = this.app.recording.wire.nodes;
    const order = this.blocks.flatMap((block) => block.nodes);
    const at = order.indexOf(name.indexOf(this.app.state.node));
    const next = order[at < 0 ? 0 : Math.max(0, Math.min(order.length - 1, at + step))];
    if (next !== undefined) this.app.go({ node: name[next]! }, true);
  }

  private search(): void {
    const { name } = this.app.recording.wire.nodes;
    const wanted = this.find.value.trim();
    const node = name.indexOf(wanted) >= 0 ? wanted : name.find((each) => each.includes(wanted));
    if (wanted && node !== undefined) this.app.go({ node });
  }

  private showNode(): void {
    const { recording, state, clock, time, closed } = this.app;
    const { nodes, models, tasks, organizations } = recording.wire;
    this.panel.hidden = !state.node;
    if (!state.node) return;
    const node = nodes.name.indexOf(state.node);
    const close = el("a", { href: partLink({ node: "" }), class: "close", "aria-label": "Close" }, "×");
    if (node < 0) return fill(this.panel, close, el("h2", {}, state.node), el("p", {}, "There is no node of this name."));
    const here = this.cards.on(node);
    const closedNow = closed.get(node);
    const about = `${plural(nodes.gpus[node]!, "GPU")} of ${models[nodes.model[node]!]}, ${number(this.cards.nodeHp[node]!)} held by HP, ${number(this.cards.nodeSpot[node]!)} by spot tasks${closedNow ? `; ${closedNow}` : ""}`;
    const task = this.app.kept.get(node) ?? -1;
    const kept = task < 0 ? this.keptWords(node) : el("span", {}, ", reserved for ", taskLink(tasks.name[task]!), ", which has waited too long");
    const rows = here.length ? table("Who is on it", [
      { head: "Task", cell: ({ run }: { run: number }) => taskLink(tasks.name[recording.runs.task[run]!]!) },
      { head: "Class", left: true, cell: ({ run }) => (tasks.spot[recording.runs.task[run]!] ? "spot" : "HP") },
      { head: "Organization", left: true, cell: ({ run }) => organizations[tasks.organization[recording.runs.task[run]!]!]! },
      { head: "GPUs here", left: true, cell: (each) => (each as { gpus: string }).gpus },
      { head: "Since", left: true, cell: ({ run }) => clock.text(recording.runs.start[run]!) },
      { head: "For", cell: ({ run }) => length(time - recording.runs.start[run]!) },
    ], here, ({ run }) => ({ "data-task": tasks.name[recording.runs.task[run]!]! })) : el("p", { class: "words" }, "Nothing runs on it.");
    fill(this.panel, close, el("h2", {}, state.node), el("p", { class: "words" }, about, kept), rows);
  }
}
