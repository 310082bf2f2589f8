// The slots of all nodes over time, on one canvas: a row a slot, a box an attempt.
export const COLORS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#8c6bb1"];
const LEFT = 74, FOOT = 18, SPAN_S = 120, LEAST_S = 30;

export const jobOf = (attempt) => attempt.split("_").slice(0, 2).join("_");
export const colorOf = (job) => COLORS[(parseInt(job.split("_")[1], 10) || 0) % COLORS.length];
export const kindOf = (attempt) => (attempt.split("_")[2] === "r" ? "reduce" : "map");

// Where each slot's row is: nodes in their order, maps above reduces.
export function rowsOf(specs) {
  const rows = [];
  for (const spec of specs) {
    for (let i = 0; i < spec.map_slots; i++) rows.push([spec.node, "map"]);
    for (let i = 0; i < spec.reduce_slots; i++) rows.push([spec.node, "reduce"]);
  }
  return rows;
}

// Attempts as [attempt, node, start, end or null]: gives each the first slot of its node and kind that is free.
export function place(rows, attempts) {
  const free = rows.map(() => -Infinity), slots = new Map();
  rows.forEach(([node, kind], i) => {
    const key = node + " " + kind;
    if (!slots.has(key)) slots.set(key, []);
    slots.get(key).push(i);
  });
  const boxes = [];
  for (const [attempt, node, start, end, state] of [...attempts].sort((a, b) => a[2] - b[2])) {
    const mine = slots.get(node + " " + kindOf(attempt)) || [];
    if (!mine.length) continue;
    let row = mine.find((i) => free[i] <= start + 0.01);
    if (row === undefined) row = mine.reduce((best, i) => (free[i] < free[best] ? i : best), mine[0]);
    free[row] = end === null ? Infinity : end;
    boxes.push({ attempt, row, start, end, state });
  }
  return boxes;
}

export function drawLanes(canvas, specs, attempts, faults, now) {
  const rows = rowsOf(specs), high = Math.max(3, Math.min(13, Math.floor(520 / Math.max(1, rows.length))));
  const wide = canvas.clientWidth || 600, tall = rows.length * high + FOOT, ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(wide * ratio) || canvas.height !== Math.round(tall * ratio)) {
    canvas.width = Math.round(wide * ratio);
    canvas.height = Math.round(tall * ratio);
    canvas.style.height = tall + "px";
  }
  const pen = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
  const css = (name) => style.getPropertyValue(name), to = Math.max(LEAST_S, now), from = Math.max(0, to - SPAN_S);
  const x = (t) => LEFT + ((t - from) / (to - from)) * (wide - LEFT - 4);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, wide, tall);
  pen.font = "11px system-ui, sans-serif";
  let last = null, free = 0;
  rows.forEach(([node], i) => {
    pen.fillStyle = css("--sheet");
    pen.fillRect(LEFT, i * high, wide - LEFT - 4, high - 1);
    if (node !== last && i * high >= free) {
      pen.fillStyle = css("--ink");
      pen.fillText(node, 0, i * high + 10, LEFT - 6);
      free = i * high + 12;
    }
    last = node;
  });
  const seen = attempts.filter((a) => a[3] === null || a[3] >= from);
  for (const box of place(rows, seen)) {
    const left = Math.max(LEFT, x(box.start)), right = x(box.end === null ? now : box.end);
    pen.globalAlpha = box.end === null || box.state === "succeeded" ? 1 : 0.4;
    pen.fillStyle = colorOf(jobOf(box.attempt));
    pen.fillRect(left, box.row * high, Math.max(1, right - left - 0.5), high - 1);
  }
  pen.globalAlpha = 1;
  pen.fillStyle = css("--bad");
  for (const [t] of faults) if (t >= from) pen.fillRect(x(t), 0, 2, rows.length * high);
  pen.fillStyle = css("--soft");
  const every = wide < 500 ? 40 : 20;
  for (let t = Math.ceil(from / every) * every; t <= to - 5; t += every) pen.fillText(t + " s", x(t), tall - 4);
}
