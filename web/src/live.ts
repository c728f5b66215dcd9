// A running cluster: what happens comes as server-sent events; after a break what was missed comes first.
import type { App } from "./app";
import { el, fill, text } from "./dom";
import { type Patch, extend } from "./wire";

const ASK_EVERY = 5000;
const MOST_REASONS = 200;

interface Status {
  leads: boolean;
  leader: string;
  refused: number;
  training: number;
  history: string;
  shadow: object | null;
  pools: { pool: string; caution: string; quota: { guarantee_hours: number; why: string }[] }[];
}

export function follow(app: App): void {
  const { wire } = app.recording;
  const told = el("p", { class: "connection", role: "status" });
  const notes = el("ul", { class: "notes" });
  document.querySelector("header")!.append(told, notes);
  const connect = (): void => {
    const source = new EventSource(`api/v1/stream?after=${wire.last_id}`);
    source.onopen = () => text(told, "Live");
    source.onerror = () => {
      text(told, "The connection is lost; what is shown is of the past. It is tried again.");
      // A browser gives up where a proxy answers with an error; we do not.
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, ASK_EVERY);
    };
    source.onmessage = (event) => {
      const id = Number(event.lastEventId);
      if (id <= wire.last_id) return;
      extend(wire, id, JSON.parse(event.data as string) as Patch);
      app.recording.fold();
      app.go({}, true);
    };
    source.addEventListener("reset", () => location.reload());
  };
  connect();
  const ask = async (): Promise<void> => {
    try {
      const status = (await (await fetch("api/v1/status")).json()) as Status;
      fill(notes, ...sentences(status).map((sentence) => el("li", {}, sentence)));
      const { class: kind, org, pool } = app.state;
      const asked = new URLSearchParams({ limit: String(MOST_REASONS), kind, organization: org, pool });
      const queue = (await (await fetch(`api/v1/queue?${asked}`)).json()) as { waiting: { task: string; reason: string }[] };
      app.reasons = new Map(queue.waiting.map(({ task, reason }) => [task, reason]));
      app.go({}, true);
    } catch {
      // The stream says that the connection is lost.
    }
    setTimeout(() => void ask(), ASK_EVERY);
  };
  void ask();
}

function sentences(status: Status): string[] {
  const found = [`${status.leader || "Nobody"} leads; ${status.refused} pods are refused.`];
  if (!status.leads) found.push("This replica stands by: ask the one that leads.");
  if (status.shadow) found.push("A shadow: it binds and evicts nothing.");
  if (status.training) found.push("A forecaster is being trained; decisions go on.");
  if (status.history) found.push(`${status.history}.`);
  for (const { pool, caution, quota } of status.pools) {
    if (caution) found.push(`${pool}: ${caution}.`);
    for (const row of quota) if (row.why) found.push(`${pool}, quota for ${row.guarantee_hours} h: ${row.why}.`);
  }
  return found;
}
