// What is looked at, kept in the address: a link opens the page at this moment, pool, task.

export const VIEWS = ["now", "nodes", "queue", "organizations", "whatif"] as const;
export type View = (typeof VIEWS)[number];

export interface State {
  view: View;
  /** Seconds; NaN: the end, or now. */
  t: number;
  /** Name of a pool; '': all. */
  pool: string;
  task: string;
  node: string;
  org: string;
  from: number;
  to: number;
  /** Filters of the queue. */
  class: string;
  size: number;
  find: string;
  colour: string;
}

const START: State = {
  view: "now", t: NaN, pool: "", task: "", node: "", org: "", from: NaN, to: NaN, class: "", size: 0, find: "", colour: "",
};

export function fromHash(hash: string, base: State = START): State {
  const state: State = { ...base };
  for (const [name, value] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (name === "view") state.view = VIEWS.find((view) => view === value) ?? "now";
    else if (name === "t" || name === "from" || name === "to" || name === "size") {
      const told = value === "" ? NaN : Number(value);
      state[name] = Number.isFinite(told) ? told : START[name];
    } else if (name in START) state[name as "pool"] = value;
  }
  return state;
}

export function toHash(state: Partial<State>): string {
  const told = new URLSearchParams();
  for (const name of Object.keys(START) as (keyof State)[]) {
    const value = state[name];
    if (value === undefined || Object.is(value, START[name])) continue;
    told.set(name, typeof value === "number" ? String(Math.round(value * 1000) / 1000) : value);
  }
  return `#${told}`;
}

/** A link that changes a part of what is looked at: see `followLinks`. */
export function partLink(part: Partial<State>): string {
  const told = new URLSearchParams();
  for (const [name, value] of Object.entries(part)) told.set(name, Number.isNaN(value) ? "" : String(value));
  return `#${told}`;
}
