// Elements without markup: text is always text, whatever names it holds.

type Child = Node | string | number | null | undefined | false;
type Props = { [name: string]: string | number | boolean | null | undefined | ((event: Event) => void) };

/** What would steer the direction of writing or is no visible character, written out. */
// eslint-disable-next-line no-control-regex
const UNSAFE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

export function visible(text: string): string {
  return text.replace(UNSAFE, (c) => {
    const code = c.charCodeAt(0);
    return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

/** An element with properties (`onclick` and the like are listeners) and children. */
export function el<K extends keyof HTMLElementTagNameMap>(tag: K, props: Props = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = String(value);
    else if (name === "style") element.style.cssText = String(value); // an attribute would be inline style, which the page forbids itself
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(parent: Element, children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : visible(String(child)));
  }
}

/** Put these in place of what an element holds; what is equal already stays, so that focus and selection do. */
export function fill(parent: Element, ...children: Child[]): void {
  const fresh = document.createElement("div");
  append(fresh, children);
  if (parent.innerHTML !== fresh.innerHTML) parent.replaceChildren(...fresh.childNodes);
}

export function text(element: Element, value: string): void {
  const shown = visible(value);
  if (element.textContent !== shown) element.textContent = shown;
}

export interface Column<Row> {
  head: string;
  title?: string;
  left?: boolean;
  cell: (row: Row) => Child;
}

export function table<Row>(caption: string, columns: Column<Row>[], rows: Row[], attributes?: (row: Row) => Props): HTMLElement {
  const head = el("tr", {}, ...columns.map((c) => el("th", { scope: "col", class: c.left ? "text" : null, title: c.title }, c.head)));
  const body = rows.map((row) =>
    el("tr", attributes?.(row) ?? {}, ...columns.map((c, at) =>
      at ? el("td", { class: c.left ? "text" : null }, c.cell(row)) : el("th", { scope: "row", class: "text" }, c.cell(row)))));
  return el("div", { class: "table" }, el("table", {}, el("caption", {}, caption), el("thead", {}, head), el("tbody", {}, ...body)));
}
