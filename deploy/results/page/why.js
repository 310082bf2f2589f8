// Where the jobs' time went: stacked bars, a panel for all jobs and for each class of size.
const SPENT = {
  slot: ["no slot", "#D55E00"], share: ["fair share", "#E69F00"], data: ["waiting for data", "#F0E442"], splitting: ["splitting", "#b9a06a"],
  offer: ["no offer yet", "#999999"], again: ["lost attempts", "#CC79A7"], shuffle: ["shuffle", "#56B4E9"], run: ["run", "#0072B2"],
};
function spentOrder() { return ["slot", "share", "data", "splitting", "offer", "again", "shuffle", "run"].map((name) => R.data.spent.indexOf(name)); }

function drawTime(plot, group) {
  const policies = R.data.policies.filter((p) => p.time[group] && p.time[group].some((v) => v !== null));
  const width = Math.max(200, plot.clientWidth), high = 16, row = high + 21, height = policies.length * row + 4;
  const totals = policies.map((p) => p.time[group].reduce((sum, v) => sum + (v || 0), 0)), most = Math.max(1e-9, ...totals);
  const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `time of ${group} jobs by policy` });
  policies.forEach((policy, p) => {
    const top = p * row, span = width - 4, total = secondsText(totals[p]) + " s";
    root.append(svg("text", { x: 0, y: top + 13, class: "strong" }, fitted(policy.name, width - 12 - 7 * total.length)));
    root.append(svg("text", { x: width - 4, y: top + 13, "text-anchor": "end" }, total));
    let x = 0;
    for (const i of spentOrder()) {
      const seconds = policy.time[group][i] || 0, wide = (seconds / most) * span, [label, fill] = SPENT[R.data.spent[i]];
      if (wide <= 0) continue;
      const bar = svg("rect", { x, y: top + 18, width: wide, height: high, fill, "data-part": R.data.spent[i], "data-seconds": seconds });
      hover(bar, () => `${policy.name}, ${group} jobs\n${label}: ${secondsText(seconds)} s of ${total}`);
      root.append(bar);
      x += wide;
    }
  });
  plot.replaceChildren(root);
}

function buildTime() {
  const groups = ["all", "small", "medium", "large"].filter((g) => R.data.policies.some((p) => p.time[g] && p.time[g].some((v) => v !== null)));
  const shown = groups.length === 2 ? ["all"] : groups;
  for (const group of shown) {
    const plot = panel(document.getElementById("time"), group === "all" ? "all jobs" : `${group} jobs`);
    R.draws.push(() => drawTime(plot, group));
  }
  const used = spentOrder().filter((i) => R.data.policies.some((p) => p.time.all[i] > 0));
  legend(document.getElementById("timekeys"), used.map((i) => SPENT[R.data.spent[i]]));
}

// What led to an attempt: when its job was passed over, and why it was launched.
const LISTED = 14;
function offersOf(policy, i) {
  const a = policy.attempts, o = policy.offers, start = a.start[i], kind = policy.rows[a.row[i]][1] === "reduce" ? 1 : 0, lines = [];
  const p = o.passes, mine = [];
  for (let k = 0; k < p.job.length; k++) if (p.job[k] === a.job[i] && p.kind[k] === kind && p.from[k] <= start) mine.push(k);
  if (mine.length > LISTED) lines.push(`${mine.length - LISTED} earlier stretches of answers`);
  for (const k of mine.slice(-LISTED)) {
    const times = p.count[k] === 1 ? "" : `, said ${p.count[k]} times on ${p.nodes[k]} node${p.nodes[k] === 1 ? "" : "s"} until ${number(p.to[k] / 100)} s`;
    lines.push(`${number(p.from[k] / 100)} s: ${o.reasons[p.reason[k]]}${times}`);
  }
  if (!mine.length) lines.push("no answer passed its job over before");
  const why = o.launched[i];
  lines.push(`${number(start / 100)} s: runs here` + (why >= 0 ? `, launched as: ${o.reasons[why]}` : ""));
  return lines;
}
function showOffers(policy, i, box) {
  box.replaceChildren();
  if (i < 0) return;
  const close = el("button", { type: "button" }, "close"), [task, ...rest] = describeAttempt(policy, i).split("\n");
  close.onclick = () => box.replaceChildren();
  const list = el("ul", {}, ...offersOf(policy, i).map((text) => el("li", {}, text)));
  box.append(el("div", { class: "offers" }, close, el("b", {}, task), el("p", {}, rest.join("; ")), list));
}
