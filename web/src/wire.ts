// What the server tells: see src/gfs/dashboard/wire.py, which is the contract.

export interface Wire {
  version: number;
  title: string;
  scheduler: string;
  promise: number;
  promise_told: boolean;
  begin: number | null;
  live: boolean;
  now: number | null;
  last_id: number;
  rules: Rules;
  models: string[];
  organizations: string[];
  nodes: { name: string[]; model: number[]; gpus: number[] };
  nodes_told: boolean;
  tasks: {
    name: string[];
    organization: number[];
    model: number[];
    spot: number[];
    gpus: number[];
    guarantee: number[];
    checkpoint: number[];
  };
  entries: { time: number[]; event: number[]; task: number[]; run: number[]; reason: number[]; pods: number[] };
  reasons: string[];
  pods: { node: number[]; cards: number[]; gpus: number[] };
  cards: string[];
  node_events: { time: number[]; node: number[]; event: string[] };
  quota: QuotaColumns;
  forecasts: { time: number[]; model: number[]; organization: number[]; expected: number[]; bound: number[] };
  spot_nodes: { time: number[]; node: number[]; closed: number[]; task: number[] };
  expected: { time: number[]; task: number[]; start: (number | null)[]; known: number[] };
  options: { time: number[]; task: number[]; node: number[]; victims: number[][]; cost: number[]; waste: number[]; chosen: number[] };
  schedulers: string[];
  quotas: string[];
}

export interface Rules {
  restart_overhead: number;
  restart_overhead_large: number;
  small_task_gpus: number;
  resume_overhead: number;
  checkpoint_on_grace: boolean;
}

export interface QuotaColumns {
  time: number[];
  model: number[];
  guarantee_hours: number[];
  quota: (number | null)[];
  spot_in_use: (number | null)[];
  eta: (number | null)[];
  demand: (number | null)[];
  expected_demand: (number | null)[];
  organization: number[];
  organization_demand: (number | null)[];
  forecaster: number[];
  forecasters: string[];
}

/** What a live recording gains: columns that continue those that are there. */
export type Patch = Pick<Wire, "models" | "organizations" | "nodes" | "tasks" | "entries" | "reasons" | "pods" | "cards" | "node_events" | "quota" | "forecasts" | "spot_nodes" | "expected" | "options"> & { now: number };

/** Lengthen a recording by what came. */
export function extend(wire: Wire, id: number, patch: Patch): void {
  const { now, ...parts } = patch;
  for (const [name, part] of Object.entries(parts)) lengthen(wire[name as keyof Wire], part);
  wire.now = now;
  wire.last_id = id;
}

function lengthen(target: unknown, part: unknown): void {
  if (Array.isArray(target) && Array.isArray(part)) for (const value of part) target.push(value);
  else for (const [name, column] of Object.entries(part as object)) lengthen((target as Record<string, unknown>)[name], column);
}

/** The recording of this page: inside it (an exported page), or asked of the server. */
export async function load(): Promise<Wire> {
  const inside = document.getElementById("recording");
  const variant = new URLSearchParams(location.search).get("variant");
  const told = inside ? await unpacked(inside.textContent ?? "") : await recordingText(variant ?? "");
  const wire = JSON.parse(told) as Wire;
  if (wire.version !== 1) throw new Error(`this page reads recordings of version 1, not ${wire.version}`);
  return wire;
}

/** The recording of a server as it comes; `variant`: of a what-if run. */
export function recordingText(variant: string): Promise<string> {
  return asked(variant ? `api/v1/recording?${new URLSearchParams({ variant })}` : "api/v1/recording");
}

async function asked(path: string): Promise<string> {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${answer.statusText}`);
  return answer.text();
}

async function unpacked(base64: string): Promise<string> {
  const bytes = Uint8Array.from(atob(base64.trim()), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}
