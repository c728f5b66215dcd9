// Time series on uPlot: one look, one time axis, a line at the moment that is looked at, values in the legend.
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { el, fill, text } from "./dom";
import { type Clock, DAY, number } from "./format";

export interface Line {
  label: string;
  /** Name of a CSS colour variable. */
  colour: string;
  values: (number | null)[];
  /** The area below is filled, down to the line with this label or to 0; `band`: lightly, as a range. */
  fill?: true | string;
  band?: boolean;
  dash?: number[];
  steps?: boolean;
  /** What the legend shows in place of the drawn value (of a stack: the part, not the sum). */
  shown?: (number | null)[];
  unit?: string;
}

export interface ChartOptions {
  id: string;
  title: string;
  caption: string;
  height?: number;
  onPick: (time: number) => void;
  onZoom: (from: number, to: number) => void;
}

const INCREMENTS = [60, 300, 900, 1800, 3600, 7200, 10800, 21600, 43200, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY, 84 * DAY, 364 * DAY];

/** A chart's figure; `data` is what it shows, for programs and tests. */
export class Chart {
  private readonly title: HTMLElement;
  readonly figure: HTMLElement & { data?: { time: number[]; lines: Line[] } };
  private readonly place = el("div", { class: "plot", role: "img" });
  private readonly legend = el("div", { class: "legend" });
  private readonly caption: HTMLElement;
  private readonly marker = el("div", { class: "marker" });
  private plot: uPlot | null = null;
  private time: number[] = [];
  private lines: Line[] = [];
  private at = NaN;
  private hovered: number | null = null;
  private width = 0;

  constructor(private options: ChartOptions, private readonly clock: Clock) {
    this.caption = el("figcaption", {}, options.caption);
    this.title = el("h3", {}, options.title);
    this.figure = el("figure", { id: options.id, class: "chart" }, this.title, this.legend, this.place, this.caption);
    new ResizeObserver(() => this.resize()).observe(this.place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  set(time: number[], lines: Line[], caption?: string): void {
    this.time = time;
    this.lines = lines;
    this.figure.data = { time, lines };
    if (caption !== undefined) fill(this.caption, caption);
    this.draw();
    this.tell();
  }

  /** Use the chart for something else. */
  rename(title: string, height: number): void {
    this.options = { ...this.options, title, height };
    text(this.title, title);
  }

  /** Move the line of the moment. */
  mark(time: number): void {
    this.at = time;
    this.tell();
    this.moveMarker();
  }

  private moveMarker(): void {
    if (!this.plot) return;
    const left = this.plot.valToPos(this.at, "x");
    const inside = left >= 0 && left <= this.plot.over.clientWidth;
    this.marker.hidden = !inside;
    if (inside) this.marker.style.left = `${left}px`;
  }

  private resize(): void {
    const width = this.place.clientWidth;
    if (!width || width === this.width) return;
    this.width = width;
    if (this.plot) this.plot.setSize({ width, height: this.options.height ?? 220 });
    else this.draw();
    this.mark(this.at);
  }

  private colour(name: string): string {
    return getComputedStyle(this.figure).getPropertyValue(name).trim() || "#888";
  }

  private draw(): void {
    this.plot?.destroy();
    this.plot = null;
    this.width = this.place.clientWidth;
    if (!this.width || !this.time.length) return;
    const [ink, grid] = [this.colour("--muted"), this.colour("--grid")];
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const { offset } = this.clock;
    const position = new Map(this.lines.map((line, index) => [line.label, index + 1]));
    const bands: uPlot.Band[] = this.lines.flatMap((line, index) =>
      typeof line.fill === "string" ? [{ series: [index + 1, position.get(line.fill)!] as [number, number], fill: this.faded(line.colour, line.band ? 0.16 : 0.7) }] : []);
    this.plot = new uPlot(
      {
        width: this.width,
        height: this.options.height ?? 220,
        legend: { show: false },
        padding: [8, 8, 0, 0],
        cursor: {
          y: false,
          drag: { x: true, y: false, dist: 8 },
          points: { size: 6 },
        },
        scales: { x: { time: false }, y: { range: (_u, low, high) => [Math.min(0, low), high > 1e-9 ? high * 1.06 : 1] } },
        axes: [
          {
            ...axis,
            space: 70,
            size: 30,
            incrs: INCREMENTS,
            splits: (_u, _i, low, high, step) => {
              const found: number[] = [];
              for (let tick = Math.ceil((low + offset) / step) * step - offset; tick <= high; tick += step) found.push(tick);
              return found;
            },
            values: (_u, ticks) => ticks.map((tick) => this.clock.tick(tick)),
          },
          { ...axis, size: 52, values: (_u, ticks) => ticks.map(number) },
        ],
        bands,
        series: [
          {},
          ...this.lines.map((line): uPlot.Series => ({
            label: line.label,
            stroke: this.colour(line.colour),
            width: 1.5,
            ...(line.fill === true ? { fill: this.faded(line.colour, 0.7) } : {}),
            ...(line.dash ? { dash: line.dash } : {}),
            ...(line.steps ? { paths: uPlot.paths.stepped!({ align: 1 }) } : {}),
            points: { show: false },
            spanGaps: false,
          })),
        ],
        hooks: {
          draw: [() => this.moveMarker()], // scales are known only then
          setCursor: [(plot) => { this.hovered = plot.cursor.idx ?? null; this.tell(); }],
          setSelect: [
            (plot) => {
              const { left, width } = plot.select;
              if (width > 8) this.options.onZoom(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
            },
          ],
        },
      },
      [this.time, ...this.lines.map((line) => line.values)] as uPlot.AlignedData,
      this.place,
    );
    this.plot.ctx.canvas.setAttribute("aria-hidden", "true"); // the figure around it has the words
    this.plot.over.append(this.marker);
    this.plot.over.addEventListener("click", (event) => {
      const left = event.clientX - this.plot!.over.getBoundingClientRect().left;
      this.options.onPick(this.plot!.posToVal(left, "x"));
    });
  }

  private faded(name: string, opacity: number): string {
    return `color-mix(in srgb, ${this.colour(name)} ${Math.round(100 * opacity)}%, transparent)`;
  }

  /** The legend: values where the pointer is, else at the moment. */
  private tell(): void {
    let index = this.hovered;
    if (index === null) {
      index = this.time.length - 1;
      while (index > 0 && this.time[index]! > this.at) index--;
    }
    const when = this.time[index];
    const items = this.lines.map((line) => {
      const value = (line.shown ?? line.values)[index];
      const told = value === null || value === undefined ? "–" : `${number(value)}${line.unit ?? ""}`;
      return el("span", { class: "item" }, el("span", { class: `key ${line.band ? "band" : line.dash ? (line.dash[0]! < 2 ? "dotted" : "dashed") : line.fill ? "" : "line"}`, style: `--key:var(${line.colour})` }), `${line.label} `, el("b", {}, told));
    });
    fill(this.legend, ...items);
    const words = this.lines.map((line) => `${line.label} ${number((line.shown ?? line.values)[index] ?? NaN)}`);
    this.place.setAttribute("aria-label", `${this.options.title}${when === undefined ? "" : `, ${this.clock.text(when)}`}: ${words.join(", ")}`);
  }
}
