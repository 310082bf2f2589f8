// Slots of large clusters: a band for each rack, filled by how much of its slots was in use, by job, user or locality.
const PLACE_INDEX = new Map(PLACE_NAMES.map((name, i) => [name, i]));
function bandColour(by, name) {
  if (by === "place") return PLACE_INDEX.has(name) ? PLACE_COLOURS[PLACE_INDEX.get(name)] : OTHERS;
  return groupColour(by, name);
}
function bandGeometry(bands, width) {
  const high = Math.max(10, Math.min(26, Math.floor(260 / bands.names.length)));
  return { high, left: width < 500 ? 74 : 92, width, bottom: 4 + high * bands.names.length, height: 34 + high * bands.names.length };
}
function drawBands(policy, canvas, plot) {
  const bands = policy.bands, by = document.getElementById("color").value, { names, series } = bands[by];
  const width = plot.clientWidth, g = bandGeometry(bands, width), [from, to] = timeRange(), pen = penOf(canvas, width, g.height);
  timeScale(g, from, to);
  const step = R.data.end / bands.bins;
  let free = 0;
  bands.names.forEach((name, n) => {
    const top = 4 + n * g.high, full = g.high - 2;
    pen.fillStyle = css("--sheet");
    pen.fillRect(g.left, top, width - g.left - 8, full);
    for (let k = 0; k < bands.bins; k++) {
      const a = Math.max(g.x(k * step), g.left), b = Math.min(g.x((k + 1) * step), width - 8);
      let y = top + full;
      if (b <= a) continue;
      names.forEach((group, i) => {
        const part = Math.min((series[n][i][k] / 100) * full, y - top);
        if (part <= 0) return;
        pen.globalAlpha = R.hot >= 0 && by === "job" && JOB_INDEX.get(group) !== R.hot ? 0.15 : 1;
        pen.fillStyle = bandColour(by, group);
        pen.fillRect(a, y - part, b - a + 0.4, part);
        y -= part;
      });
    }
    pen.globalAlpha = 1;
    if (top < free) return;
    pen.fillStyle = css("--ink");
    pen.textAlign = "left";
    pen.fillText(fittedPen(pen, name, g.left - 6), 0, top + full / 2);
    free = top + 12;
  });
  pen.fillStyle = css("--bad");
  for (const [t] of policy.faults) if (t >= from && t <= to) pen.fillRect(g.x(t) - 0.7, 4, 1.4, g.bottom - 4);
  drawTimeAxis(pen, g, from, to);
  canvas.geometry = g;
}
function buildBands(policy, parent) {
  const plot = panel(parent, policy.name), canvas = el("canvas", { role: "img", "aria-label": `slots in use by rack under ${policy.name}` });
  plot.append(canvas);
  hover(canvas, (event) => {
    const bands = policy.bands, g = canvas.geometry, box = canvas.getBoundingClientRect(), t = g.time(event.clientX - box.left);
    const n = Math.floor((event.clientY - box.top - 4) / g.high), k = Math.floor((t / R.data.end) * bands.bins);
    if (n < 0 || n >= bands.names.length || k < 0 || k >= bands.bins) return "";
    const by = document.getElementById("color").value, { names, series } = bands[by];
    const parts = names.map((name, i) => [groupLabel(by, name), series[n][i][k]]).filter(([, v]) => v > 0).map(([name, v]) => `${name}: ${v} %`);
    return [`${bands.names[n]} (${bands.nodes[n]} nodes, ${bands.slots[n]} slots) at ${number(t)} s`, ...parts].join("\n");
  });
  brush(plot, (x) => Math.max(0, canvas.geometry.time(x)));
  R.draws.push(() => drawBands(policy, canvas, plot));
}
function bandNames(by) { return [...new Set(R.data.policies.flatMap((p) => p.bands[by].names))]; }
