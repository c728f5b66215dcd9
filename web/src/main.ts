// The page: loads the recording, draws the view that the address names, and follows links, slider and keys.
import { App } from "./app";
import { el, fill, text } from "./dom";
import { plural } from "./format";
import { LifePanel } from "./life";
import { follow } from "./live";
import { NodesView } from "./nodes";
import { NowView } from "./now";
import { OrganizationsView } from "./organizations";
import { QueueView } from "./queue";
import { Recording } from "./recording";
import { type State, VIEWS, type View, fromHash } from "./state";
import { TimeBar } from "./timebar";
import { WhatIfView } from "./whatif";
import { load } from "./wire";
import "./page.css";

const TITLES: Record<View, string> = { now: "Now", nodes: "Nodes", queue: "Queue", organizations: "Organizations", whatif: "What if" };

interface ViewElement {
  root: HTMLElement;
  show(): void;
}

async function begin(): Promise<void> {
  const main = document.querySelector("main")!;
  let recording: Recording;
  try {
    recording = new Recording(await load());
  } catch (error) {
    fill(main, el("p", { class: "lead", role: "alert" }, `This recording cannot be shown: ${String(error instanceof Error ? error.message : error)}`));
    return;
  }
  let asked = false;
  const app = new App(recording, fromHash(location.hash), () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; render(); });
  });
  const bar = new TimeBar(app);
  const life = new LifePanel(app);
  const makers: Partial<Record<View, () => ViewElement>> = {
    now: () => new NowView(app), nodes: () => new NodesView(app), queue: () => new QueueView(app), organizations: () => new OrganizationsView(app),
  };
  makers.whatif = () => new WhatIfView(app);
  const made: Partial<Record<View, ViewElement>> = {};
  const place = el("div", { id: "view", tabindex: -1 });
  const links = VIEWS.filter((view) => makers[view]).map((view) => el("a", { href: `#view=${view}`, "data-view": view }, TITLES[view]));
  const nav = el("nav", { "aria-label": "Views" }, ...links);
  describe(recording);
  fill(main);
  main.append(nav, bar.root, life.root, place);

  function render(): void {
    app.seek();
    if (recording.wire.live) describe(recording);
    const view = makers[app.state.view] ? app.state.view : "now";
    const shown = (made[view] ??= makers[view]!());
    for (const link of links) {
      if (link.dataset.view === view) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (place.firstChild !== shown.root) place.replaceChildren(shown.root);
    bar.show();
    life.show();
    shown.show();
    document.documentElement.dataset.ready = String(app.time);
  }

  // A link changes only the parts of the address that it names.
  document.addEventListener("click", (event) => {
    const link = (event.target as Element).closest?.("a[href^='#']");
    if (!link || (event as MouseEvent).ctrlKey || (event as MouseEvent).metaKey || event.defaultPrevented) return;
    event.preventDefault();
    const href = link.getAttribute("href")!;
    const next = fromHash(href, app.state);
    const part = changed(app.state, next);
    app.go(part);
    if (part.task) enter(href);
    else if (part.task === "") giveBack();
  });
  // Who opens a task by keyboard goes on in its panel, and comes back to the link when it is closed.
  let opener = "";
  const enter = (href: string): void => {
    opener = href;
    requestAnimationFrame(() => { life.root.focus({ preventScroll: true }); life.root.scrollIntoView({ block: "nearest" }); });
  };
  const giveBack = (): void => {
    requestAnimationFrame(() => [...place.querySelectorAll("a")].find((link) => link.getAttribute("href") === opener)?.focus());
  };
  const readAddress = () => { app.state = fromHash(location.hash); app.go({}); };
  addEventListener("hashchange", readAddress);
  addEventListener("popstate", readAddress);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && app.state.task) { app.go({ task: "" }); giveBack(); } });
  app.go({});
  if (recording.wire.live) follow(app);
}

function changed(before: State, after: State): Partial<State> {
  const names = (Object.keys(after) as (keyof State)[]).filter((name) => !Object.is(before[name], after[name]));
  return Object.fromEntries(names.map((name) => [name, after[name]]));
}

function describe(recording: Recording): void {
  const { wire } = recording;
  const words = [wire.scheduler, plural(wire.nodes.name.length, "node"), plural(recording.poolGpus.reduce((sum, gpus) => sum + gpus, 0), "GPU"), plural(wire.tasks.name.length, "task")];
  const nodes = wire.nodes_told ? "" : "; nodes as far as the log names them";
  text(document.querySelector("header h1")!, wire.title);
  text(document.querySelector("header p")!, words.filter(Boolean).join(", ") + nodes);
  document.title = `${wire.title} - GFS`;
}

void begin();
