// The other plots: completion times, locality, running tasks, fair shares and node utilization.
function line(points) { return points.map(([x, y], i) => (i ? "L" : "M") + x.toFixed(1) + " " + y.toFixed(1)).join(""); }

const SPREADS = { completion: ["completion time [s]", "s"], wait: ["wait for the first task [s]", "s"], slowdown: ["slowdown: completion over the time alone [x]", "x"] };
function drawCdf(of, plot) {
  const policies = R.data.policies, [xlabel, unit] = SPREADS[of], known = policies.filter((p) => p.spread[of].length), least = of === "slowdown" ? 1 : 0;
  const top = Math.max(least + 1e-3, ...known.map((p) => p.spread[of][p.spread[of].length - 1])), right = least + (top - least) * 1.02;
  const f = frame(plot, { height: 190, x: [least, right], y: [0, 100], xlabel, ylabel: "jobs [%]" });
  policies.forEach((policy, i) => {
    const values = policy.spread[of], n = values.length, points = [[f.x(least), f.y(0)]];
    if (!n) return;
    values.forEach((v, k) => points.push([f.x(v), f.y((100 * k) / n)], [f.x(v), f.y((100 * (k + 1)) / n)]));
    points.push([f.x(right), f.y(100)]);
    f.inside.append(svg("path", { d: line(points), fill: "none", stroke: color(i), "stroke-width": 2, "stroke-dasharray": DASHES[i % DASHES.length] }));
  });
  hover(f.root, (event) => {
    const share = (event.clientX - f.root.getBoundingClientRect().left - f.left) / (f.width - f.left - f.right), at = least + share * (right - least);
    if (share < 0 || share > 1) return "";
    const within = (p) => (100 * p.spread[of].filter((v) => v <= at).length) / p.spread[of].length;
    return [`at most ${number(at)} ${unit}`, ...known.map((p) => `${p.name}: ${within(p).toFixed(0)} % of jobs`)].join("\n");
  });
}
function buildSpreads() {
  const parent = document.getElementById("spreads"), box = el("div", { class: "legend" });
  R.data.policies.forEach((policy, i) => {
    const mark = svg("svg", { width: 26, height: 8, style: "width:26px" });
    mark.append(svg("line", { x1: 0, x2: 26, y1: 4, y2: 4, stroke: color(i), "stroke-width": 2, "stroke-dasharray": DASHES[i % DASHES.length] }));
    box.append(el("span", {}, mark, policy.name));
  });
  for (const of of Object.keys(SPREADS).filter((name) => R.data.policies.some((p) => p.spread[name].length))) {
    const plot = el("div", { class: "plot", "data-spread": of });
    parent.append(plot);
    R.draws.push(() => drawCdf(of, plot));
  }
  parent.append(box);
}

function drawLocality() {
  const plot = document.getElementById("locality"), policies = R.data.policies;
  const width = Math.max(200, plot.clientWidth), high = 17, rowsHigh = high * 2 + 27, height = policies.length * rowsHigh + 4;
  const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
  const left = 44, span = width - left - 6;
  policies.forEach((policy, p) => {
    const top = p * rowsHigh;
    root.append(svg("text", { x: 0, y: top + 13, class: "strong" }, fitted(policy.name, width)));
    ["tasks", "bytes"].forEach((by, b) => {
      const y = top + 19 + b * (high + 2);
      root.append(svg("text", { x: 0, y: y + 12 }, by));
      let x = left;
      policy.locality[by].forEach((share, k) => {
        const wide = (share || 0) * span;
        if (wide <= 0) return;
        root.append(svg("rect", { x, y, width: wide, height: high, fill: PLACE_COLOURS[k] }));
        if (wide > 42) root.append(svg("text", { x: x + wide / 2, y: y + 12.5, "text-anchor": "middle", style: `fill:${k === 0 ? "#fff" : "#111"}` }, (100 * share).toFixed(1) + " %"));
        x += wide;
      });
      if (x === left) root.append(svg("text", { x: left, y: y + 12 }, "no maps with input"));
    });
  });
  plot.replaceChildren(root);
  legend(plot, PLACE_NAMES.map((name, i) => [name, PLACE_COLOURS[i]]));
}

// Bins that touch the view; the middle of bin k is at (k + 0.5) * step.
function binTimes() { const step = R.data.end / R.data.bins; return Array.from({ length: R.data.bins }, (_, k) => (k + 0.5) * step); }

function drawAreas(policy, plot, top) {
  const kind = document.getElementById("group").value, { names, series } = policy.areas[kind], times = binTimes();
  const f = frame(plot, { height: 220, x: timeRange(), y: [0, top], xlabel: "time [s]", ylabel: "running tasks" });
  let below = new Array(times.length).fill(0);
  names.forEach((name, i) => {
    const above = below.map((b, k) => b + series[i][k]);
    const points = times.map((t, k) => [f.x(t), f.y(above[k])]).concat(times.map((t, k) => [f.x(t), f.y(below[k])]).reverse());
    const job = kind === "job" ? JOB_INDEX.get(name) : undefined, dim = R.hot >= 0 && kind === "job" && job !== R.hot;
    f.inside.append(svg("path", { d: line(points) + "Z", fill: groupColour(kind, name), opacity: dim ? 0.15 : 0.92, stroke: css("--paper"), "stroke-width": 0.4 }));
    below = above;
  });
  faultLines(f, policy.faults);
  timeHover(f, (k) => names.map((name, i) => [groupLabel(kind, name), series[i][k]]).filter(([, v]) => v > 0.005).map(([name, v]) => `${name}: ${number(v)}`));
}

function drawShares(policy, plot, top) {
  const { users, series, jain } = policy.shares, times = binTimes();
  const f = frame(plot, { height: 200, x: timeRange(), y: [0, top], xlabel: "time [s]", ylabel: "ratio to fair share" });
  f.inside.append(svg("path", { d: gapped(f, times, jain), fill: "none", stroke: OTHERS, "stroke-width": 4, opacity: 0.45 }));
  f.inside.append(svg("line", { x1: f.left, x2: f.width, y1: f.y(1), y2: f.y(1), stroke: css("--soft"), "stroke-dasharray": "3 3" }));
  users.forEach((user, i) => f.inside.append(svg("path", { d: gapped(f, times, series[i]), fill: "none", stroke: groupColour("user", user), "stroke-width": 1.6 })));
  faultLines(f, policy.faults);
  timeHover(f, (k) => users.map((user, i) => [user, series[i][k]]).concat([["Jain's index", jain[k]]]).filter(([, v]) => v !== null).map(([name, v]) => `${name}: ${v.toFixed(2)}`));
}
function gapped(f, times, values) {
  let path = "", open = false;
  values.forEach((v, k) => {
    if (v !== null) path += (open ? "L" : "M") + f.x(times[k]).toFixed(1) + " " + f.y(v).toFixed(1);
    open = v !== null;
  });
  return path;
}
function timeHover(f, describe) {
  const [from, to] = timeRange();
  hover(f.root, (event) => {
    const share = (event.clientX - f.root.getBoundingClientRect().left - f.left) / (f.width - f.left - f.right);
    if (share < 0 || share > 1) return "";
    const t = from + share * (to - from), k = Math.min(R.data.bins - 1, Math.floor((t / R.data.end) * R.data.bins));
    return [`at ${number(t)} s`, ...describe(k).slice(0, 16)].join("\n");
  });
}

// The mean and the busiest node over time, below the dashed line of the limit.
function drawUse(policy, plot) {
  const resource = document.getElementById("resource").value, mean = policy.use[resource + "_mean"], most = policy.use[resource + "_most"], times = binTimes();
  const top = Math.max(115, 1.05 * Math.max(0, ...most.map((v) => v || 0)));
  const f = frame(plot, { height: 130, x: timeRange(), y: [0, top], xlabel: "time [s]", ylabel: "of limit [%]" });
  f.inside.append(svg("path", { d: gapped(f, times, most), fill: "none", stroke: color(1), "stroke-width": 1 }));
  f.inside.append(svg("path", { d: gapped(f, times, mean), fill: "none", stroke: css("--accent"), "stroke-width": 2 }));
  f.root.append(svg("line", { class: "limit", x1: f.left, x2: f.width - f.right, y1: f.y(100), y2: f.y(100), stroke: css("--bad"), "stroke-width": 1.3, "stroke-dasharray": "6 3" }));
  f.root.append(svg("text", { x: f.width - f.right, y: f.y(100) - 4, "text-anchor": "end" }, fitted(`limit of a node: ${policy.limits[resource]}`, f.width - f.left - f.right)));
  timeHover(f, (k) => [["mean", mean[k]], ["busiest node", most[k]]].map(([name, v]) => `${name}: ${v === null ? "silent" : v + " %"}`));
}

function drawHeat(policy, plot, canvas) {
  const resource = document.getElementById("resource").value, { nodes } = policy.use, values = policy.use[resource];
  const width = plot.clientWidth, left = policy.bands ? 74 : 54, high = Math.max(3, Math.min(20, Math.floor(180 / Math.max(1, nodes.length))));
  const [from, to] = timeRange(), g = { left, width, bottom: nodes.length * high, high, height: nodes.length * high + 34 };
  const pen = penOf(canvas, width, g.height);
  timeScale(g, from, to);
  const step = R.data.end / R.data.bins, hatch = hatching(pen, css("--soft")), every = Math.ceil(13 / high);
  nodes.forEach((node, n) => {
    pen.globalAlpha = 1;
    pen.fillStyle = css("--ink");
    if (n % every === 0) pen.fillText(fittedPen(pen, node, left - 6), 0, n * high + Math.max(6, high / 2));
    values[n].forEach((value, k) => {
      const a = Math.max(g.x(k * step), left), b = Math.min(g.x((k + 1) * step), width - 8);
      if (b <= a || k * step > policy.end) return;
      pen.globalAlpha = value === null ? 0.35 : Math.min(1, value / 100);
      pen.fillStyle = value === null ? hatch : css("--accent");
      pen.fillRect(a, n * high, b - a + 0.4, high - (high > 4 ? 1 : 0));
    });
  });
  pen.globalAlpha = 1;
  pen.fillStyle = css("--bad");
  for (const [t] of policy.faults) if (t >= from && t <= to) pen.fillRect(g.x(t) - 0.7, 0, 1.4, g.bottom);
  drawTimeAxis(pen, g, from, to);
  canvas.geometry = g;
}

function buildHeat(policy, parent) {
  const plot = panel(parent, policy.name), canvas = el("canvas", { role: "img", "aria-label": `node utilization under ${policy.name}` });
  const lines = el("div", { class: "plot" });
  plot.before(lines);
  plot.append(canvas);
  R.draws.push(() => drawUse(policy, lines));
  hover(canvas, (event) => {
    const g = canvas.geometry, box = canvas.getBoundingClientRect(), t = g.time(event.clientX - box.left);
    const n = Math.floor((event.clientY - box.top) / g.high), k = Math.floor((t / R.data.end) * R.data.bins);
    const value = (policy.use[document.getElementById("resource").value][n] || [])[k];
    return value === undefined ? "" : `${policy.use.nodes[n]} at ${number(t)} s: ` + (value === null ? "silent" : `${value} %`);
  });
  R.draws.push(() => drawHeat(policy, plot, canvas));
}

function highest(policies, series) {
  let top = 1;
  for (const policy of policies) {
    const many = series(policy);
    for (let k = 0; k < R.data.bins; k++) top = Math.max(top, many.stacked ? many.stacked.reduce((sum, s) => sum + s[k], 0) : Math.max(...many.beside.map((s) => s[k] || 0), 0));
  }
  return top * 1.05;
}

function buildCharts() {
  const policies = R.data.policies;
  buildSpreads();
  R.draws.push(drawLocality);
  const tasks = highest(policies, (p) => ({ stacked: p.areas.user.series }));
  const ratio = Math.min(6, highest(policies, (p) => ({ beside: p.shares.series })));
  for (const policy of policies) {
    const areas = panel(document.getElementById("areas"), policy.name);
    R.draws.push(() => drawAreas(policy, areas, tasks));
    const shares = panel(document.getElementById("shares"), policy.name);
    R.draws.push(() => drawShares(policy, shares, ratio));
    buildHeat(policy, document.getElementById("heat"));
  }
}

function areaEntries() {
  const kind = document.getElementById("group").value, names = [...new Set(R.data.policies.flatMap((p) => p.areas[kind].names))];
  return names.map((name) => [groupLabel(kind, name), groupColour(kind, name), kind === "job" ? JOB_INDEX.get(name) : undefined]);
}
function shareEntries() { return [...new Set(R.data.policies.flatMap((p) => p.shares.users))].map((user) => [user, groupColour("user", user)]); }

buildTime();
buildLanes();
buildCharts();
sharedLegend("areakeys", areaEntries, () => (document.getElementById("group").value === "job" ? (job) => job !== undefined && follow(job) : undefined));
sharedLegend("sharekeys", shareEntries);
for (const id of ["color", "group", "resource"]) document.getElementById(id).addEventListener("change", redraw);
document.getElementById("unzoom").addEventListener("click", () => zoom(null));
document.getElementById("unpick").addEventListener("click", () => follow(R.hot));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
let resizing = 0, lastWidth = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === lastWidth) return;
  lastWidth = innerWidth;
  clearTimeout(resizing);
  resizing = setTimeout(redraw, 120);
});
redraw();
