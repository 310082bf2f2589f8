// The swim-lane of slots: a canvas for each policy, one row a slot, one box an attempt.
const STATE_NAMES = ["succeeded", "failed", "killed", "lost"];

function laneGeometry(policy, width) {
  const rows = policy.rows, nodes = new Set(rows.map((row) => row[0])).size;
  const high = Math.max(3, Math.min(14, Math.floor(560 / Math.max(1, rows.length))));
  const gap = nodes <= 60 ? 4 : 1, tops = [], labels = [];
  let y = 4, last = null;
  for (const [node, kind] of rows) {
    if (node !== last) {
      if (last !== null) y += gap;
      labels.push([node, y]);
      last = node;
    }
    tops.push(y);
    y += high;
  }
  return { high, tops, labels, height: y + 30, bottom: y, left: width < 500 ? 46 : 92, width };
}

function drawLanes(policy, canvas, plot) {
  const width = plot.clientWidth, g = laneGeometry(policy, width), [from, to] = timeRange(), pen = penOf(canvas, width, g.height);
  timeScale(g, from, to);
  drawRows(pen, policy, g);
  pen.save();
  pen.beginPath();
  pen.rect(g.left, 0, width - g.left - 8, g.bottom);
  pen.clip();
  drawAttempts(pen, policy, g);
  drawFaults(pen, policy, g);
  pen.restore();
  drawTimeAxis(pen, g, from, to);
  canvas.geometry = g;
}

function drawRows(pen, policy, g) {
  policy.rows.forEach(([, kind], i) => {
    pen.fillStyle = css("--sheet");
    pen.globalAlpha = kind === "reduce" ? 1 : 0.55;
    pen.fillRect(g.left, g.tops[i], g.width - g.left - 8, g.high - (g.high > 5 ? 1 : 0));
  });
  pen.globalAlpha = 1;
  let free = 0;
  for (const [node, y] of g.labels) {
    if (y < free) continue;
    pen.fillStyle = css("--ink");
    pen.textAlign = "left";
    const shown = fittedPen(pen, node, g.left - 6), wide = pen.measureText(shown).width;
    pen.fillText(shown, 0, y + 6);
    if (g.left - wide > 48) {
      pen.fillStyle = css("--soft");
      const at = Math.max(34, wide + 8);
      pen.fillText(fittedPen(pen, "rack " + (policy.racks[node] || "?"), g.left - at - 4), at, y + 6);
    }
    free = y + 13;
  }
}

function attemptColour(policy, a, i, by) {
  const job = a.job[i];
  if (by === "place") return a.place[i] < 0 ? OTHERS : PLACE_COLOURS[a.place[i]];
  if (by === "user") return job < 0 ? OTHERS : groupColour("user", R.data.jobs[job].user);
  return color(job);
}

function drawAttempts(pen, policy, g) {
  const a = policy.attempts, by = document.getElementById("color").value, high = g.high - (g.high > 5 ? 1 : 0);
  const [from, to] = timeRange(), hatch = hatching(pen, css("--hatch"));
  for (let i = 0; i < a.row.length; i++) {
    const start = a.start[i] / 100, end = start + a.lasts[i] / 100;
    if (end < from || start > to) continue;
    const x = g.x(start), y = g.tops[a.row[i]], wide = Math.max(0.8, g.x(end) - x - (g.x(end) - x > 3 ? 0.7 : 0));
    const dim = R.hot >= 0 && a.job[i] !== R.hot;
    pen.globalAlpha = dim ? 0.12 : [1, 1, 0.75, 0.35][a.state[i]];
    pen.fillStyle = attemptColour(policy, a, i, by);
    pen.fillRect(x, y, wide, high);
    if (a.shuffled[i] > 0 && !dim) {
      pen.globalAlpha = 0.55;
      pen.fillStyle = css("--paper");
      pen.fillRect(x, y, Math.min(wide, g.x(start + a.shuffled[i] / 100) - x), high);
    }
    if (a.state[i] > 0 && !dim && wide > 2) markState(pen, a.state[i], x, y, wide, high, hatch);
  }
  pen.globalAlpha = 1;
}

function markState(pen, state, x, y, wide, high, hatch) {
  pen.globalAlpha = 1;
  if (state === 2) {
    pen.fillStyle = hatch;
    pen.fillRect(x, y, wide, high);
    return;
  }
  pen.strokeStyle = state === 1 ? "#D55E00" : css("--soft");
  pen.lineWidth = state === 1 ? 2 : 1;
  pen.setLineDash(state === 3 ? [3, 2] : []);
  pen.strokeRect(x + 0.8, y + 0.8, wide - 1.6, high - 1.6);
  pen.setLineDash([]);
}

function hatching(pen, shade) {
  const tile = el("canvas", { width: 6, height: 6 }), ink = tile.getContext("2d");
  ink.strokeStyle = shade;
  ink.lineWidth = 1.4;
  ink.beginPath();
  for (const shift of [-6, 0, 6]) { ink.moveTo(shift, 6); ink.lineTo(shift + 6, 0); }
  ink.stroke();
  return pen.createPattern(tile, "repeat");
}

function drawFaults(pen, policy, g) {
  for (const [t, , target, until] of policy.faults) {
    const spans = target.replace(/^.* on /, "").split(",").map((node) => policy.rows.flatMap((row, i) => (row[0] === node ? [i] : [])))
      .filter((rows) => rows.length).map((rows) => [g.tops[rows[0]] - 2, g.tops[rows[rows.length - 1]] + g.high + 2]);
    pen.fillStyle = css("--bad");
    for (const [top, foot] of spans.length ? spans : [[0, g.bottom]]) {
      if (until !== null) {
        pen.globalAlpha = 0.15;
        pen.fillRect(g.x(t), top, g.x(until) - g.x(t), foot - top);
      }
      pen.globalAlpha = 1;
      pen.fillRect(g.x(t) - 1, top, 2, foot - top);
    }
  }
}

function drawTimeAxis(pen, g, from, to) {
  pen.fillStyle = css("--soft");
  pen.strokeStyle = css("--soft");
  pen.textAlign = "center";
  pen.beginPath();
  pen.moveTo(g.left, g.bottom + 1.5);
  pen.lineTo(g.width - 8, g.bottom + 1.5);
  for (const t of ticks(from, to, g.width / 90)) {
    pen.moveTo(g.x(t), g.bottom + 1.5);
    pen.lineTo(g.x(t), g.bottom + 6);
    pen.fillText(number(t), g.x(t), g.bottom + 13);
  }
  pen.stroke();
  pen.fillText("time since the run's start [s]", (g.left + g.width) / 2, g.bottom + 25);
}

function attemptAt(policy, g, event, canvas) {
  const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
  const row = g.tops.findIndex((top) => y >= top && y < top + g.high), a = policy.attempts;
  if (row < 0 || x < g.left) return -1;
  for (let i = a.row.length - 1; i >= 0; i--) {
    if (a.row[i] !== row) continue;
    const start = g.x(a.start[i] / 100);
    if (x >= start - 1.5 && x <= Math.max(start + 2, g.x((a.start[i] + a.lasts[i]) / 100))) return i;
  }
  return -1;
}

function describeAttempt(policy, i) {
  const a = policy.attempts, job = R.data.jobs[a.job[i]] || { job: "?", name: "?", user: "?" }, row = policy.rows[a.row[i]];
  const task = `${job.job}_${row[1][0]}_${String(a.index[i]).padStart(6, "0")}_${a.number[i]}`;
  const lines = [task, `${job.name} of ${job.user}, ${row[1]} on ${row[0]}` + (a.place[i] >= 0 ? `, ${PLACE_NAMES[a.place[i]]}` : "")];
  lines.push(`${number(a.start[i] / 100)} s, took ${number(a.lasts[i] / 100)} s` + (a.shuffled[i] > 0 ? ` (shuffle ${number(a.shuffled[i] / 100)} s)` : ""));
  lines.push(STATE_NAMES[a.state[i]] + (a.extra[i] ? ", speculative" : "") + (a.reason[i] >= 0 ? `: ${policy.reasons[a.reason[i]]}` : ""));
  return lines.join("\n");
}

function describeFault(policy, g, event, canvas) {
  const t = g.time(event.clientX - canvas.getBoundingClientRect().left), near = (g.time(4) - g.time(0));
  return policy.faults.filter((f) => Math.abs(f[0] - t) < near)
    .map(([at, kind, target, until]) => `fault at ${number(at)} s: ${kind} ${target}` + (until !== null ? ` until ${number(until)} s` : "")).join("\n");
}

function buildSlots(policy, parent) {
  const title = policy.name + (policy.left_out ? ` (${policy.left_out} attempts too short to see are left out)` : "");
  const plot = panel(parent, title), canvas = el("canvas", { role: "img", "aria-label": `slots over time under ${policy.name}` }), box = el("div", {});
  plot.append(canvas);
  plot.after(box);
  hover(canvas, (event) => {
    const i = attemptAt(policy, canvas.geometry, event, canvas);
    return i >= 0 ? describeAttempt(policy, i) : describeFault(policy, canvas.geometry, event, canvas);
  });
  canvas.addEventListener("click", (event) => {
    if (plot.dataset.dragged) { delete plot.dataset.dragged; return; }
    const i = attemptAt(policy, canvas.geometry, event, canvas);
    showOffers(policy, i, box);
    if (i >= 0 && policy.attempts.job[i] !== R.hot) follow(policy.attempts.job[i]);
  });
  brush(plot, (x) => Math.max(0, canvas.geometry.time(x)));
  R.draws.push(() => drawLanes(policy, canvas, plot));
}

function buildLanes() {
  const parent = document.getElementById("lanes"), keys = el("div", { id: "lanekeys" });
  for (const policy of R.data.policies) (policy.bands ? buildBands : buildSlots)(policy, parent);
  parent.append(keys);
  sharedLegend("lanekeys", laneEntries, () => (document.getElementById("color").value === "job" ? (job) => job !== undefined && follow(job) : undefined));
}

// The names that are drawn: with bands those of the bands, with slots those of the attempts in view.
function laneEntries() {
  const by = document.getElementById("color").value;
  if (R.data.policies.some((p) => p.bands)) return bandNames(by).map((name) => [groupLabel(by, name), bandColour(by, name), by === "job" ? JOB_INDEX.get(name) : undefined]);
  if (by === "place") return PLACE_NAMES.map((name, i) => [name, PLACE_COLOURS[i]]).concat([["reduces, no input", OTHERS]]);
  const drawn = drawnJobs();
  if (by === "user") return R.data.users.filter((user) => drawn.some((i) => R.data.jobs[i].user === user)).map((user) => [user, groupColour("user", user)]);
  return drawn.map((i) => [R.data.jobs[i].name, color(i), i]);
}
function drawnJobs() {
  const [from, to] = timeRange(), found = new Set();
  for (const { attempts: a } of R.data.policies)
    for (let i = 0; i < a.job.length; i++) if (a.job[i] >= 0 && a.start[i] / 100 <= to && (a.start[i] + a.lasts[i]) / 100 >= from) found.add(a.job[i]);
  return [...found].sort((a, b) => a - b);
}
