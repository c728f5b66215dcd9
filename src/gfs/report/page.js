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
