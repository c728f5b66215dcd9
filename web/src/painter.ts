// How a node of the map is painted: its GPUs by who holds them, and marks for what keeps tasks away from it.
import type { App } from "./app";
import type { Cards } from "./cards";

/** From this size of a node on its GPUs are drawn one by one. */
const APART = 12;

/** Draws nodes: large ones GPU by GPU, small ones as one square whose colour says how much of them is used. */
export class Painter {
  private readonly hp: string;
  private readonly spot: string;
  private readonly idle: string;
  private readonly mixed = new Map<number, string>();
  private readonly byOwner: boolean;

  constructor(
    private readonly context: CanvasRenderingContext2D,
    private readonly cards: Cards,
    private readonly app: App,
    private readonly ranked: Map<number, number>,
    private readonly colour: (name: string) => string,
  ) {
    this.hp = colour("--hp");
    this.spot = colour("--spot");
    this.idle = colour("--idle");
    this.byOwner = app.state.colour === "organization";
  }

  node(node: number, x: number, y: number, size: number): void {
    const closed = this.app.closed.get(node);
    const inner = size - gapOf(size);
    if (size < APART) this.small(node, x, y, inner);
    else this.large(node, x, y, inner);
    if (closed) this.closed(closed, x, y, inner);
    const kept = this.app.kept.get(node);
    if (kept !== undefined && !closed) this.kept(kept < 0, x, y, inner);
  }

  private small(node: number, x: number, y: number, size: number): void {
    const gpus = this.app.recording.wire.nodes.gpus[node]!;
    if (this.byOwner) {
      const first = this.cards.first[node]!;
      let last = -1;
      for (let slot = first; slot < first + gpus && last < 0; slot++) last = this.cards.run[slot]!;
      this.context.fillStyle = last < 0 ? this.idle : this.owner(last);
    } else {
      const [hp, spot] = [Math.round((8 * this.cards.nodeHp[node]!) / gpus), Math.round((8 * this.cards.nodeSpot[node]!) / gpus)];
      this.context.fillStyle = this.mix(hp, spot);
    }
    this.context.fillRect(x, y, size, size);
  }

  /** Eighths of HP and spot in one colour. */
  private mix(hp: number, spot: number): string {
    const key = hp * 16 + spot;
    let found = this.mixed.get(key);
    if (!found) {
      const parts = [[this.hp, hp], [this.spot, spot], [this.idle, Math.max(0, 8 - hp - spot)]] as [string, number][];
      const total = parts.reduce((sum, [, weight]) => sum + weight, 0);
      const sum = [0, 0, 0];
      for (const [colour, weight] of parts) rgb(colour).forEach((value, at) => (sum[at]! += (value * weight) / total));
      found = `rgb(${sum.map(Math.round).join()})`;
      this.mixed.set(key, found);
    }
    return found;
  }

  private large(node: number, x: number, y: number, size: number): void {
    const gpus = this.app.recording.wire.nodes.gpus[node]!;
    const across = 2 ** Math.ceil(Math.log2(gpus) / 2);
    const down = Math.ceil(gpus / across);
    const [width, height] = [size / across, size / down];
    const line = Math.min(1, width / 6);
    const first = this.cards.first[node]!;
    for (let card = 0; card < gpus; card++) {
      const slot = first + card;
      const [left, top] = [x + (card % across) * width, y + Math.floor(card / across) * height];
      const [w, h] = [width - line, height - line];
      this.context.fillStyle = this.cards.reserved[slot] ? this.colour("--reserved") : this.idle;
      this.context.fillRect(left, top, w, h);
      const [hp, spot] = [this.cards.hp[slot]!, this.cards.spot[slot]!];
      if (this.byOwner) {
        if (this.cards.run[slot]! < 0) continue;
        this.context.fillStyle = this.owner(this.cards.run[slot]!);
        const share = Math.min(1, hp + spot);
        this.context.fillRect(left, top + h * (1 - share), w, h * share);
        continue;
      }
      this.context.fillStyle = this.hp;
      if (hp) this.context.fillRect(left, top + h * (1 - hp), w, h * hp);
      this.context.fillStyle = this.spot;
      if (spot) this.context.fillRect(left, top + h * (1 - hp - spot), w, h * spot);
    }
  }

  private owner(run: number): string {
    const { recording } = this.app;
    const at = this.ranked.get(recording.tasks.organization[recording.runs.task[run]!]!);
    return this.colour(at === undefined ? "--rest" : `--series-${at}`);
  }

  /** Failed: a cross; cordoned: a bar. Shapes, not only colours. */
  private closed(kind: string, x: number, y: number, size: number): void {
    const { context } = this;
    context.beginPath();
    context.rect(x + 1, y + 1, size - 2, size - 2);
    context.moveTo(x + 1, y + size - 1);
    context.lineTo(x + size - 1, y + 1);
    if (kind === "failed") {
      context.moveTo(x + 1, y + 1);
      context.lineTo(x + size - 1, y + size - 1);
    }
    this.outlined(kind === "failed" ? "--bad" : "--ink", size);
  }

  /** Stroke what was drawn, in a colour that is seen on any other: on nodes with room for it, with an edge of the page's own. */
  private outlined(colour: string, size: number): void {
    const { context } = this;
    const width = Math.max(1.5, size / 16);
    const strokes: [string, number][] = size < APART ? [[colour, 1]] : [["--paper", 2 * width], [colour, width]];
    for (const [name, wide] of strokes) {
      context.strokeStyle = this.colour(name);
      context.lineWidth = wide;
      context.stroke();
    }
  }

  /** Closed to spot tasks: a bar across the middle; reserved for one of them: a dashed frame. */
  private kept(breaker: boolean, x: number, y: number, size: number): void {
    const { context } = this;
    if (!breaker) context.setLineDash([Math.max(2, size / 8), Math.max(1.5, size / 14)]);
    context.beginPath();
    if (breaker) {
      context.moveTo(x, y + size / 2);
      context.lineTo(x + size, y + size / 2);
    } else context.rect(x + 1, y + 1, size - 2, size - 2);
    this.outlined(breaker ? "--ink" : "--reserved", size);
    context.setLineDash([]);
  }
}

/** What is left free between nodes. */
export function gapOf(size: number): number {
  return size >= APART ? Math.max(2, size * 0.08) : size > 4 ? 1 : 0;
}

function rgb(colour: string): number[] {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}
