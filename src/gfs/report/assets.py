"""Style sheet and script of the HTML pages."""

from typing import Final

STYLE: Final = """
:root {
  --paper:#fff; --card:#f7f8fa; --ink:#1b2430; --muted:#5d6b7e; --line:#dfe4ea; --grid:#e8ecf1;
  --good:#0b7a5b; --bad:#b4371f; --best:#e3f5ee; color-scheme:light dark;
}
@media (prefers-color-scheme:dark) {
  :root {
    --paper:#12161c; --card:#1a2029; --ink:#e6eaf0; --muted:#9aa7b8; --line:#2c3542; --grid:#29313d;
    --good:#4fd1a5; --bad:#ff8d73; --best:#15352b;
  }
}
*{box-sizing:border-box}
body {
  margin:0; background:var(--paper); color:var(--ink);
  font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
  -webkit-text-size-adjust:100%;
}
header,main{max-width:1200px;margin:0 auto;padding:0 24px}
header{padding-top:40px}
h1{font-size:clamp(1.55rem,4vw,2.2rem);line-height:1.15;margin:0 0 6px;letter-spacing:-.02em}
h1,header p{overflow-wrap:anywhere}
header p{margin:0;color:var(--muted)}
section{margin:36px 0 0;padding-top:24px;border-top:1px solid var(--line)}
h2{font-size:1.3rem;margin:0 0 14px;letter-spacing:-.01em}
h3{font-size:1rem;margin:0 0 4px}
.grid{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:20px}
.grid>*{grid-column:1/-1;margin:0;min-width:0}
.grid>.half{grid-column:auto}
.lead{font-size:1.12rem;max-width:62em}
.words{max-width:62em;color:var(--muted)}
figure {
  background:var(--card); border:1px solid var(--line); border-radius:10px; padding:16px 16px 12px;
  break-inside:avoid;
}
figcaption,.note{color:var(--muted);font-size:.86rem}
figcaption{margin-top:6px}
.note{white-space:pre-line}
.unit{white-space:nowrap}
.note{margin-top:-12px}
.chart{width:100%}
.selectors {
  display:flex; flex-wrap:wrap; gap:10px 18px; position:sticky; top:0; z-index:5; padding:10px 0;
  background:var(--paper); border-bottom:1px solid var(--line);
}
.selectors label{display:flex;flex-direction:column;min-width:0;max-width:100%}
.selectors span{color:var(--muted);font-size:.86rem}
.selectors select {
  font:inherit; color:var(--ink); background:var(--card); border:1px solid var(--line); border-radius:6px;
  padding:5px 8px; max-width:100%;
}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(200px,1fr));gap:14px}
.tile {
  background:var(--card); border:1px solid var(--line); border-left:4px solid var(--muted);
  border-radius:8px; padding:12px 16px; display:flex; flex-direction:column; break-inside:avoid;
}
.tile.good{border-left-color:var(--good)}
.tile.bad{border-left-color:var(--bad)}
.tile .label{color:var(--muted);font-size:.86rem}
.tile .value{font-size:1.7rem;font-weight:650;line-height:1.25;font-variant-numeric:tabular-nums}
.tile .detail{font-size:.88rem;color:var(--muted)}
.tile.good .detail{color:var(--good)}
.tile.bad .detail{color:var(--bad)}
.table{overflow-x:auto;border:1px solid var(--line);border-radius:10px}
table{border-collapse:collapse;width:100%;font-size:.92rem;font-variant-numeric:tabular-nums}
th,td{padding:8px 12px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line)}
thead th {
  color:var(--muted); font-weight:600; vertical-align:bottom; white-space:normal;
  background:var(--card);
}
th.text,td.text{text-align:left}
th:first-child{text-align:left;position:sticky;left:0;background:var(--card)}
th[title]:not([title=""]){text-decoration:underline dotted var(--line);text-underline-offset:3px;cursor:help}
caption{text-align:left;font-weight:650;padding:10px 12px 2px}
.dense table{font-size:.82rem}
.dense th,.dense td{padding:7px 6px}
tr.recommended>*{font-weight:700;color:var(--good)}
tr.missed>*{color:var(--muted)}
tbody tr:last-child>*{border-bottom:0}
td.best{color:var(--good);font-weight:700;background:var(--best)}
details{border:1px solid var(--line);border-radius:8px;padding:8px 14px}
summary{cursor:pointer}
pre{overflow-x:auto;font-size:.84rem;margin:8px 0}
main{padding-bottom:60px}
@media (max-width:720px) {
  header,main{padding-left:14px;padding-right:14px}
  header{padding-top:24px}
  .grid>.half{grid-column:1/-1}
  .grid{gap:14px}
  figure{padding:12px 8px 10px}
  h3,figcaption{padding:0 6px}
  .selectors{gap:8px 10px;padding:8px 0}
  .selectors label{flex:1 1 42%}
  .selectors select{width:100%;padding:5px 4px}
  .tiles{grid-template-columns:repeat(2,minmax(0,1fr));gap:10px}
  .tile{padding:10px 12px}
  .tile .value{font-size:1.3rem}
  th,td{padding:7px 9px}
}
@media print {
  :root {
    --paper:#fff; --card:#fff; --ink:#000; --muted:#444; --line:#bbb; --grid:#ddd; --good:#0b6b50;
    --bad:#a02c16; --best:#eee;
  }
  body{font-size:11pt}
  section{break-before:auto}
  .table{overflow:visible}
  .grid>.half{grid-column:1/-1}
  .selectors{position:static}
  .selectors select{appearance:none;border:0;padding:0;background:none;font-weight:650}
  th,td{padding:4px 6px}
}
"""

SCRIPT: Final = r"""
(() => {
  const divs = [...document.querySelectorAll(".chart")];
  const config = {responsive: true, displayModeBar: false};
  const narrow = () => window.innerWidth < 720;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const themed = (paper) => {
    const ink = paper ? "#222" : colour("--ink"), grid = paper ? "#ddd" : colour("--grid");
    const out = structuredClone(template), size = narrow() ? 11 : 13;
    Object.assign(out.layout.font, {color: ink, size});
    for (const axis of [out.layout.xaxis, out.layout.yaxis]) {
      Object.assign(axis, {gridcolor: grid, zerolinecolor: grid, linecolor: grid});
      axis.title.font.size = size;
    }
    if (narrow()) out.layout.xaxis.nticks = 6;
    return out;
  };
  const chosen = {};
  // `meta` has what the reader chooses: path of a property -> values, nested as the selectors are named.
  const picked = (part) => {
    const {meta, ...rest} = part, out = structuredClone(rest);
    for (const [path, {pick, of}] of Object.entries(meta || {})) {
      const keys = path.split("."), last = keys.pop();
      const place = keys.reduce((inner, key) => inner[key] ??= {}, out);
      place[last] = pick.reduce((inner, name) => inner[chosen[name]], of);
    }
    return out;
  };
  const draw = (paper) => divs.forEach((div, i) => {
    const layout = {...picked(figures[i].layout), template: themed(paper)};
    if (paper) layout.width = 640;  // A4 and Letter, upright; Plotly knows only the width of the window
    Plotly.react(div, figures[i].data.map(picked), layout, config);
  });
  for (const select of document.querySelectorAll("select[data-selector]")) {
    const choose = () => { chosen[select.dataset.selector] = Number(select.value); };
    choose();
    select.addEventListener("change", () => { choose(); draw(false); });
  }
  draw(false);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(false));
  addEventListener("beforeprint", () => draw(true));
  addEventListener("afterprint", () => draw(false));
})();
"""
