"use strict";
// Shared by all plots: the data, the state (zoom, followed job), colors, axes and the tooltip.
const R = {
  data: JSON.parse(document.getElementById("data").textContent),
  view: null, // [from, to] in seconds, or null for the whole run
  hot: -1, // index of the followed job, or -1
  draws: [], // every plot's draw function
};
const OKABE = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442"];
const PLACE_COLOURS = ["#0072B2", "#56B4E9", "#E69F00"];
const PLACE_NAMES = ["node-local", "rack-local", "off-rack"];
const OTHERS = "#999999";
const DASHES = ["", "6 3", "2 3", "8 3 2 3", "4 2", "10 4"];

// The seven safe colors, then the same ones darker and lighter.
function color(i) {
  if (i < 0) return OTHERS;
  const base = OKABE[i % OKABE.length], round = Math.floor(i / OKABE.length) % 3;
  return round === 0 ? base : mix(base, round === 1 ? "#000000" : "#ffffff", 0.38);
}
function mix(a, b, share) {
  const part = (c, i) => parseInt(c.slice(1 + 2 * i, 3 + 2 * i), 16);
  return "rgb(" + [0, 1, 2].map((i) => Math.round(part(a, i) * (1 - share) + part(b, i) * share)).join(",") + ")";
}
const JOB_INDEX = new Map(R.data.jobs.map((job, i) => [job.job, i]));
const USER_INDEX = new Map(R.data.users.map((user, i) => [user, i]));
const QUEUE_INDEX = new Map([...new Set(R.data.jobs.map((job) => job.queue))].sort().map((queue, i) => [queue, i]));
function groupColour(kind, name) {
  const index = { job: JOB_INDEX, user: USER_INDEX, queue: QUEUE_INDEX }[kind].get(name);
  return index === undefined ? OTHERS : color(index);
}
function groupLabel(kind, name) {
  const index = kind === "job" ? JOB_INDEX.get(name) : undefined;
  return index === undefined ? name : R.data.jobs[index].name;
}

function css(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }
function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
function svg(tag, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}
// Text cut to a width: in SVG by a mean width of letters, on a canvas as measured.
function fitted(text, width) {
  const most = Math.max(3, Math.floor(width / 6.6));
  return text.length <= most ? text : text.slice(0, most - 1) + "…";
}
function fittedPen(pen, text, width) {
  while (text.length > 2 && pen.measureText(text).width > width) text = text.slice(0, -2) + "…";
  return text;
}
function penOf(canvas, width, height) {
  const scale = Math.min(2, window.devicePixelRatio || 1), pen = canvas.getContext("2d");
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.height = height + "px";
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  pen.textBaseline = "middle";
  return pen;
}
function timeScale(g, from, to) {
  g.x = (t) => g.left + ((t - from) / (to - from)) * (g.width - g.left - 8);
  g.time = (x) => from + ((x - g.left) / (g.width - g.left - 8)) * (to - from);
}
function panel(parent, title) {
  const plot = el("div", { class: "plot" });
  parent.append(el("div", { class: "panel" }, el("h3", {}, title), plot));
  return plot;
}

function ticks(from, to, about) {
  const rough = (to - from) / Math.max(1, about), power = 10 ** Math.floor(Math.log10(rough || 1));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough) || power;
  const made = [];
  for (let k = Math.ceil(from / step - 1e-9); k * step <= to + step * 1e-9; k++) made.push(+(k * step).toPrecision(12));
  return made;
}
function number(x) { return Math.abs(x) >= 100 || Number.isInteger(x) ? x.toFixed(0) : x.toPrecision(3).replace(/\.?0+$/, ""); }
// Seconds as the tables show them.
function secondsText(x) { return Math.abs(x) >= 100 ? x.toFixed(0) : Math.abs(x) >= 10 ? x.toFixed(1) : x.toFixed(2); }
function timeRange() { return R.view || [0, R.data.end]; }

// An SVG with axes of real pixels; `spec`: height, x and y as [from, to], xlabel, ylabel.
function frame(plot, spec) {
  const width = Math.max(200, plot.clientWidth), height = spec.height, left = 54, bottom = 32, top = 8, right = 10;
  const x = (v) => left + ((v - spec.x[0]) / (spec.x[1] - spec.x[0] || 1)) * (width - left - right);
  const y = (v) => height - bottom - ((v - spec.y[0]) / (spec.y[1] - spec.y[0] || 1)) * (height - bottom - top);
  const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
  for (const v of ticks(spec.y[0], spec.y[1], 4)) {
    root.append(svg("line", { x1: left, x2: width - right, y1: y(v), y2: y(v), stroke: css("--line"), "stroke-width": 1 }));
    root.append(svg("text", { x: left - 5, y: y(v) + 4, "text-anchor": "end" }, number(v)));
  }
  for (const v of ticks(spec.x[0], spec.x[1], width / 90)) {
    root.append(svg("line", { x1: x(v), x2: x(v), y1: height - bottom, y2: height - bottom + 4, stroke: css("--soft") }));
    root.append(svg("text", { x: x(v), y: height - bottom + 15, "text-anchor": "middle" }, number(v)));
  }
  root.append(svg("line", { x1: left, x2: width - right, y1: height - bottom, y2: height - bottom, stroke: css("--soft") }));
  root.append(svg("text", { x: (left + width - right) / 2, y: height - 3, "text-anchor": "middle" }, spec.xlabel));
  root.append(svg("text", { x: -(height - bottom + top) / 2, y: 11, transform: "rotate(-90)", "text-anchor": "middle" }, spec.ylabel));
  const id = "clip" + (frame.count = (frame.count || 0) + 1);
  const clip = svg("clipPath", { id });
  clip.append(svg("rect", { x: left, y: top - 4, width: width - left - right, height: height - bottom - top + 4 }));
  const inside = svg("g", { "clip-path": `url(#${id})` });
  root.append(clip, inside);
  plot.replaceChildren(root);
  return { root, inside, x, y, left, right, top, bottom, width, height };
}
function faultLines(f, faults) {
  for (const [t, , , until] of faults) {
    if (until !== null) f.inside.append(svg("rect", { x: f.x(t), width: Math.max(1, f.x(until) - f.x(t)), y: f.top, height: f.height - f.bottom - f.top, fill: css("--bad"), opacity: 0.1 }));
    f.inside.append(svg("line", { x1: f.x(t), x2: f.x(t), y1: f.top, y2: f.height - f.bottom, stroke: css("--bad"), "stroke-width": 1.3, "stroke-dasharray": "4 2" }));
  }
}
const NAMES_SHOWN = 40;
function legend(plot, entries, onClick) {
  const box = el("div", { class: "legend" + (onClick ? " clickable" : "") });
  for (const [label, fill, key] of entries.slice(0, NAMES_SHOWN)) {
    const entry = el("span", {}, el("i", { style: `background:${fill}` }), label);
    if (onClick) entry.onclick = () => onClick(key);
    if (onClick && R.hot >= 0 && key !== undefined && key !== R.hot) entry.classList.add("off");
    box.append(entry);
  }
  if (entries.length > NAMES_SHOWN) box.append(el("span", {}, `and ${entries.length - NAMES_SHOWN} more`));
  plot.append(box);
}
// A legend below a row of plots, drawn again with them.
function sharedLegend(id, entries, onClick) {
  const box = document.getElementById(id);
  R.draws.push(() => { box.replaceChildren(); legend(box, entries(), onClick && onClick()); });
}

const TIP = document.getElementById("tip");
function tip(event, text) {
  TIP.hidden = !text;
  if (!text) return;
  TIP.textContent = text;
  const wide = TIP.offsetWidth, high = TIP.offsetHeight;
  TIP.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - wide - 6)) + "px";
  TIP.style.top = (event.clientY + 18 + high > innerHeight ? event.clientY - high - 10 : event.clientY + 16) + "px";
}
function hover(target, describe) {
  target.addEventListener("pointermove", (event) => tip(event, describe(event)));
  target.addEventListener("pointerleave", () => tip(null, ""));
}
function redraw() { for (const draw of R.draws) draw(); }
function follow(job) {
  R.hot = R.hot === job ? -1 : job;
  document.getElementById("unpick").hidden = R.hot < 0;
  redraw();
}
function zoom(range) {
  R.view = range;
  document.getElementById("unzoom").hidden = !range;
  redraw();
}
// Dragging over a time plot zooms into the chosen time; `toTime` turns a pixel of the plot into seconds.
function brush(plot, toTime) {
  let from = null, box = null;
  plot.addEventListener("pointerdown", (event) => { if (event.pointerType === "mouse" && event.button === 0) from = event.clientX - plot.getBoundingClientRect().left; });
  plot.addEventListener("pointermove", (event) => {
    if (from === null) return;
    const at = event.clientX - plot.getBoundingClientRect().left;
    if (Math.abs(at - from) < 6 && !box) return;
    if (!box) plot.append((box = el("div", { class: "brush" })));
    box.style.left = Math.min(from, at) + "px";
    box.style.width = Math.abs(at - from) + "px";
  });
  addEventListener("pointerup", (event) => {
    if (from !== null && box) {
      const at = event.clientX - plot.getBoundingClientRect().left;
      const range = [toTime(Math.min(from, at)), toTime(Math.max(from, at))];
      if (range[1] - range[0] > R.data.end / 5000) { plot.dataset.dragged = "1"; zoom(range); }
    }
    if (box) box.remove();
    from = box = null;
  });
}
