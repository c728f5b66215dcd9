// A running cluster: what happens comes as server-sent events; after a break what was missed comes first.
import type { App } from "./app";
import { el, text } from "./dom";
import { type Patch, extend } from "./wire";

export function follow(app: App): void {
  const { wire } = app.recording;
  const told = el("p", { class: "connection", role: "status" });
  document.querySelector("header")!.append(told);
  const source = new EventSource(`api/v1/stream?after=${wire.last_id}`);
  source.onopen = () => text(told, "Live");
  source.onerror = () => {
    text(told, "The connection is lost; what is shown is of the past. It is tried again.");
    // A browser gives up where a proxy answers with an error; we do not.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => { follow(app); told.remove(); }, 3000);
  };
  source.onmessage = (event) => {
    const id = Number(event.lastEventId);
    if (id <= wire.last_id) return;
    extend(wire, id, JSON.parse(event.data as string) as Patch);
    app.recording.fold();
    app.go({}, true);
  };
  source.addEventListener("reset", () => location.reload());
}
