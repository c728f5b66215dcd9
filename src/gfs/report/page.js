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
  // Charts are made of the design's light colours; on a dark page each becomes what the design has in its place.
  const now = new Map();
  const recoloured = (value) => {
    if (typeof value === "string") {
      if (tokens[value]) return now.get(value) ?? value;
      const rgba = /^rgba\((\d+),(\d+),(\d+),([\d.]+)\)$/.exec(value);
      if (!rgba) return value;
      const hex = now.get("#" + rgba.slice(1, 4).map((part) => Number(part).toString(16).padStart(2, "0")).join(""));
      return hex ? `rgba(${[1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)).join()},${rgba[4]})` : value;
    }
    if (Array.isArray(value)) return typeof value[0] === "number" ? value : value.map(recoloured);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, recoloured(part)]));
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
  const draw = (paper) => {
    now.clear();
    if (!paper) for (const [light, name] of Object.entries(tokens)) now.set(light, colour(name));
    divs.forEach((div, i) => {
      const layout = {...recoloured(picked(figures[i].layout)), template: themed(paper)};
      if (paper) layout.width = 640;  // A4 and Letter, upright; Plotly knows only the width of the window
      Plotly.react(div, figures[i].data.map(picked).map(recoloured), layout, config);
    });
  };
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
