// Numbers, lengths of time and moments as people read them.
import type { Recording } from "./recording";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
export const DAY = 86400;

export function number(value: number): string {
  return Math.abs(value) >= 100 || Number.isInteger(value) ? whole.format(value) : tenths.format(value);
}

/** To four digits, for figures that are compared. */
export function precise(value: number): string {
  return Number(value.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 8 });
}

export function percent(share: number): string {
  return Number.isFinite(share) ? `${(100 * share).toFixed(1)}%` : "–";
}

export function length(seconds: number): string {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 3570) return `${Math.round(seconds / 60)} min`;
  if (seconds < 2 * DAY) {
    const minutes = Math.round(seconds / 60);
    return minutes % 60 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${minutes / 60} h`;
  }
  return `${tenths.format(seconds / DAY)} days`;
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${number(count)} ${count === 1 ? one : many}`;
}

/** Moments of a recording: dates in the zone of the reader where they are known, else days since second 0. */
export class Clock {
  private readonly full: Intl.DateTimeFormat;
  private readonly date: Intl.DateTimeFormat;
  private readonly hour: Intl.DateTimeFormat;
  readonly begin: number | null;

  constructor(recording: Recording) {
    this.begin = recording.wire.begin;
    this.full = new Intl.DateTimeFormat(undefined, {
      weekday: "short", year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit",
      second: "2-digit", hourCycle: "h23",
    });
    this.date = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
    this.hour = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  }

  /** Seconds from a midnight of the reader to second 0. */
  get offset(): number {
    if (this.begin === null) return 0;
    return this.begin - new Date(this.begin * 1000).getTimezoneOffset() * 60;
  }

  text(time: number): string {
    if (this.begin !== null) return this.full.format(new Date((this.begin + time) * 1000));
    const second = Math.floor(time);
    return `day ${Math.floor(second / DAY) + 1}, ${two(second / 3600 % 24)}:${two(second / 60 % 60)}:${two(second % 60)}`;
  }

  /** The hour of a moment, with its day where no date is known. */
  hours(time: number): string {
    if (this.begin !== null) return this.hour.format(new Date((this.begin + time) * 1000));
    return this.text(time).slice(0, -3);
  }

  /** For an axis: hours, and at midnight the day. */
  tick(time: number): string {
    const midnight = (time + this.offset) % DAY === 0;
    if (this.begin !== null) return (midnight ? this.date : this.hour).format(new Date((this.begin + time) * 1000));
    return midnight ? `day ${time / DAY + 1}` : `${two((time / 3600) % 24)}:${two((time / 60) % 60)}`;
  }
}

function two(value: number): string {
  return String(Math.floor(value)).padStart(2, "0");
}
