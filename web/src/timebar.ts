// The slider over the recorded period, play and the pool that is looked at.
import type { App } from "./app";
import { el, fill, text } from "./dom";
import { length } from "./format";

const SPEEDS = [60, 600, 3600, 6 * 3600, 24 * 3600];
const STEPS = 10_000;

export class TimeBar {
  readonly root: HTMLElement;
  private readonly slider = el("input", { type: "range", min: 0, max: STEPS, step: 1, id: "time", "aria-label": "Time" });
  private readonly shown = el("output", { class: "moment", for: "time" });
  private readonly play = el("button", { type: "button", id: "play", "aria-pressed": "false" }, "Play");
  private readonly speed = el("select", { id: "speed", "aria-label": "Speed of play" });
  private readonly pools = el("select", { id: "pool", "aria-label": "Pool" });
  private readonly whole = el("button", { type: "button", id: "whole" }, "Whole period");
  private readonly end = el("button", { type: "button", id: "end" });
  private playing = false;
  private last = 0;

  constructor(private readonly app: App) {
    for (const speed of SPEEDS) this.speed.append(el("option", { value: speed, selected: speed === 3600 }, `${length(speed)} a second`));
    this.slider.addEventListener("input", () => app.go({ t: this.timeOf(Number(this.slider.value)) }));
    this.play.addEventListener("click", () => this.toggle());
    this.pools.addEventListener("change", () => app.go({ pool: this.pools.value }));
    this.whole.addEventListener("click", () => app.go({ from: NaN, to: NaN }));
    this.end.addEventListener("click", () => this.toEnd());
    text(this.end, app.recording.wire.live ? "Now" : "End");
    this.root = el("div", { class: "timebar", role: "group", "aria-label": "Moment" },
      this.play, this.slider, this.end, this.shown, this.whole, el("label", {}, el("span", {}, "Speed"), this.speed), el("label", {}, el("span", {}, "Pool"), this.pools));
    document.addEventListener("keydown", (event) => this.key(event));
  }

  private timeOf(step: number): number {
    const [from, to] = this.app.range();
    return step >= STEPS ? to : from + ((to - from) * step) / STEPS;
  }

  show(): void {
    const { app } = this;
    const [from, to] = app.range();
    const time = app.time;
    if (document.activeElement !== this.slider || Math.abs(this.timeOf(Number(this.slider.value)) - time) > (to - from) / STEPS) {
      this.slider.value = String(Math.round((STEPS * (time - from)) / (to - from)));
    }
    const words = app.clock.text(time);
    text(this.shown, words);
    this.slider.setAttribute("aria-valuetext", words);
    this.whole.hidden = Number.isNaN(app.state.from) && Number.isNaN(app.state.to);
    const { models } = app.recording.wire;
    fill(this.pools, el("option", { value: "" }, "all pools"), ...models.map((name) => el("option", { value: name }, name)));
    this.pools.value = app.state.pool;
    (this.pools.parentElement as HTMLElement).hidden = models.length < 2;
  }

  /** The end of the period; live, what comes is followed. */
  private toEnd(): void {
    this.app.go({ t: this.app.recording.wire.live ? NaN : this.app.range()[1] });
  }

  toggle(): void {
    this.playing = !this.playing;
    text(this.play, this.playing ? "Pause" : "Play");
    this.play.setAttribute("aria-pressed", String(this.playing));
    if (!this.playing) return;
    const [from, to] = this.app.range();
    if (this.app.time >= to) this.app.go({ t: from });
    this.last = performance.now();
    requestAnimationFrame((now) => this.advance(now));
  }

  private advance(now: number): void {
    if (!this.playing) return;
    const [, to] = this.app.range();
    const time = Math.min(to, this.app.time + (Number(this.speed.value) * Math.max(0, now - this.last)) / 1000);
    this.last = now;
    this.app.go({ t: time });
    if (time >= to) this.toggle();
    else requestAnimationFrame((next) => this.advance(next));
  }

  /** Space plays, arrows step by a thousandth, with shift by a twentieth; not while something is typed or chosen. */
  private key(event: KeyboardEvent): void {
    const at = event.target as HTMLElement;
    if (/^(INPUT|SELECT|BUTTON|A|TEXTAREA|CANVAS|SUMMARY)$/.test(at.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
    const [from, to] = this.app.range();
    const step = ((to - from) / 1000) * (event.shiftKey ? 50 : 1);
    if (event.key === " ") this.toggle();
    else if (event.key === "ArrowLeft") this.app.go({ t: this.app.time - step });
    else if (event.key === "ArrowRight") this.app.go({ t: this.app.time + step });
    else if (event.key === "Home") this.app.go({ t: from });
    else if (event.key === "End") this.toEnd();
    else return;
    event.preventDefault();
  }
}
