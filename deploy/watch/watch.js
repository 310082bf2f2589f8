// The live page: hears events, keeps what they say, and draws. Tables are drawn after an event; while attempts run,
// lanes are drawn between events as well, so that their boxes grow evenly. All text is set as text.
const { drawLanes, colorOf } = await import("./swimlane.js" + location.search);
const TOKEN = new URLSearchParams(location.search).get("token"), KEPT = 6000, DECISIONS = 200, SHOWN = 60;
const ENDED = ["succeeded", "failed", "killed", "timeout"], byId = (id) => document.getElementById(id);
const LANES_MS = 50, AHEAD_S = 1.5;
let run = null, dirty = false, drawnAt = 0;

const percent = (share) => (share === null || share === undefined ? "" : Math.round(100 * share) + " %");
const seconds = (s) => (s === null || s === undefined ? "" : s.toFixed(1) + " s");
const megabytes = (bytes) => (bytes / 2 ** 20).toFixed(0) + " MiB";

function element(name, text, kind) {
  const made = document.createElement(name);
  if (text instanceof Node) made.append(text);
  else made.textContent = text === null || text === undefined ? "" : String(text);
  if (kind) made.className = kind;
  return made;
}

// Rows with a key stay the same elements, since a new button has neither the focus nor the click that began on the
// old one. Cells that are functions are made once for each row.
function table(parent, heads, rows) {
  const place = byId(parent);
  if (!rows.length) return place.replaceChildren(element("p", "nothing yet"));
  let made = place.querySelector("table");
  if (!made) {
    made = document.createElement("table");
    const head = made.createTHead().insertRow();
    for (const text of heads) head.append(element("th", text));
    made.createTBody();
    place.replaceChildren(made);
  }
  const body = made.tBodies[0], known = new Map([...body.rows].filter((row) => row.dataset.key).map((row) => [row.dataset.key, row]));
  rows.forEach(({ cells, kind, key }, i) => {
    const row = known.get(key) || document.createElement("tr");
    if (key) row.dataset.key = key;
    row.className = kind || "";
    cells.forEach((cell, at) => {
      const old = row.cells[at];
      if (typeof cell === "function" ? !old : !old || cell instanceof Node || old.textContent !== String(cell ?? "")) {
        const next = element("td", typeof cell === "function" ? cell() : cell);
        if (old) old.replaceWith(next);
        else row.append(next);
      }
    });
    // A row that has the focus is never moved, which would lose it: those before it are.
    while (body.rows[i] && body.rows[i] !== row && !body.rows[i].contains(document.activeElement)) body.rows[i].remove();
    if (body.rows[i] !== row) body.insertBefore(row, body.rows[i] || null);
  });
  while (body.rows.length > rows.length) body.rows[rows.length].remove();
}

function begin(all) {
  run = { ...all, jobs: new Map(all.jobs.map((j) => [j.job, j])), nodes: new Map(all.nodes.map((n) => [n.node, n])) };
  byId("tools").hidden = all.page.read_only;
  byId("submits").hidden = !all.page.submits;
  byId("node").replaceChildren(...all.specs.map((spec) => element("option", spec.node)));
  Object.assign(run, { heard: performance.now(), pace: 0 });
  dirty = true;
}

function step(news) {
  if (!run || news.seq <= run.seq) return;
  const at = performance.now();
  if (at > run.heard) run.pace = Math.max(0, (news.now - run.now) / (at - run.heard));
  Object.assign(run, { seq: news.seq, now: news.now, heard: at });
  for (const job of news.jobs) run.jobs.set(job.job, job);
  for (const node of news.nodes) run.nodes.set(node.node, node);
  run.ended = run.ended.concat(news.ended).slice(-KEPT);
  run.decisions = run.decisions.concat(news.decisions).slice(-DECISIONS);
  run.faults = run.faults.concat(news.faults);
  dirty = true;
}

// The run's time: that of the last event, and on from there at the pace of the events.
function timeNow() { return run.now + run.pace * Math.min(performance.now() - run.heard, 1000 * AHEAD_S); }
function runningNow() { return [...run.nodes.values()].flatMap((n) => n.running.map(([attempt, since]) => [attempt, n.node, since, null, "running"])); }

function draw(at) {
  requestAnimationFrame(draw);
  if (!run) return;
  const running = dirty || at - drawnAt >= LANES_MS ? runningNow() : [];
  if (dirty || running.length) {
    drawLanes(byId("lanes"), run.specs, run.ended.concat(running), run.faults, timeNow());
    drawnAt = at;
  }
  if (dirty) drawText(running.length);
  dirty = false;
}

function drawText(running) {
  const about = run.about, of = about.of_policies ? ` (run ${about.of_policies[0]} of ${about.of_policies[1]})` : "";
  byId("title").textContent = (about.policy || "schedbed") + of;
  const jobs = [...run.jobs.values()];
  byId("facts").textContent = `${seconds(run.now)}, ${jobs.filter((j) => ENDED.includes(j.state)).length} of ${jobs.length} jobs ended, ${running} attempts running`;
  drawQueues(jobs);
  drawJobs(jobs);
  drawNodes();
  const rows = run.decisions.slice(-SHOWN).reverse();
  table("decisions", ["time", "answer", "task", "node", "reason"], rows.map(([t, answer, job, task, node, reason]) => ({ cells: [seconds(t), answer, task || job, node, reason] })));
  drawResults();
  drawDown();
}

const until = (end) => (end === null ? "" : ` until ${seconds(end)}`);
const MASTERS = { jobtracker: "The JobTracker", namenode: "The NameNode" };

function drawDown() {
  const text = Object.entries(run.down).map(([name, end]) => `${MASTERS[name]} is down${until(end)}.`).join(" ");
  if (byId("down").textContent !== text) byId("down").textContent = text;
}

function drawQueues(jobs) {
  const queues = new Map();
  for (const job of jobs.filter((j) => !ENDED.includes(j.state))) {
    const queue = queues.get(job.queue) || [0, 0, 0];
    const at_work = job.maps_running + job.reduces_running;
    queue[0] += 1;
    queue[1] += at_work;
    queue[2] += Math.max(0, job.maps + job.reduces - job.maps_done - job.reduces_done - at_work);
    queues.set(job.queue, queue);
  }
  table("queues", ["queue", "jobs", "tasks running", "tasks waiting"], [...queues].map(([name, counts]) => ({ cells: [name, ...counts] })));
}

function drawJobs(jobs) {
  const order = jobs.filter((j) => !ENDED.includes(j.state)).concat(jobs.filter((j) => ENDED.includes(j.state)).reverse()).slice(0, 40);
  table("jobs", ["", "job", "name", "user", "maps", "reduces", "state", ""], order.map((job) => {
    const mark = element("span", "\u25a0");
    mark.style.color = colorOf(job.job);
    const state = job.reason ? `${job.state}: ${job.reason}` : job.state;
    return { key: job.job, cells: [mark, job.job, job.name, job.user, `${job.maps_done} of ${job.maps}`, `${job.reduces_done} of ${job.reduces}`, state, ENDED.includes(job.state) ? "" : () => killButton(job)] };
  }));
}

function killButton(job) {
  if (run.page.read_only) return "";
  const button = element("button", "Kill");
  button.type = "button";
  button.setAttribute("aria-label", `Kill ${job.job}`);
  button.addEventListener("click", () => {
    const now = run.jobs.get(job.job) || job;
    ask(`Kill ${job.job} (${job.name} of ${job.user})? Its ${now.maps_running + now.reduces_running} running attempts end, and it cannot go on later.`, "Kill", () => change("kill", { job: job.job }));
  });
  return button;
}

// The second step of what cannot be undone. Cancel has the focus, and Escape cancels, too.
function ask(question, yes, act) {
  byId("question").textContent = question;
  byId("yes").textContent = yes;
  byId("yes").onclick = () => { byId("sure").close(); act(); };
  byId("sure").showModal();
  byId("no").focus();
}

// A text over a bar that is full at the limit.
function gauge(share, text) {
  const made = element("span", text, share > 1 ? "gauge over" : "gauge");
  made.style.setProperty("--share", `${Math.min(100, 100 * (share || 0))}%`);
  return made;
}

function drawNodes() {
  const rows = run.specs.map((spec) => {
    const node = run.nodes.get(spec.node);
    const limits = [`${spec.cpu_rate.toFixed(2)} cores`, `${megabytes(spec.disk_bps)}/s`, `${megabytes(spec.network_bps)}/s`];
    const held = (run.held[spec.node] || []).map(([what, end]) => what + until(end)).join("; ");
    if (!node) return { key: spec.node, kind: held && "lost", cells: [spec.node, spec.rack, held, ...limits, megabytes(spec.memory_bytes), ""] };
    const used = [node.cpu_util, node.disk_util, node.net_util].map((share, i) => gauge(share, `${percent(share)} of ${limits[i]}`));
    const memory = gauge(node.memory_bytes / spec.memory_bytes, `${megabytes(node.memory_bytes)} of ${megabytes(spec.memory_bytes)}`);
    return { key: spec.node, kind: node.state === "alive" && !held ? "" : "lost", cells: [spec.node, spec.rack, held || node.state, ...used, memory, node.running.length] };
  });
  table("nodes", ["node", "rack", "state", "CPU", "disk", "network", "memory", "running"], rows);
}

function drawResults() {
  const counts = (jobs) => Object.entries(jobs).map(([state, n]) => `${n} ${state}`).join(", ");
  const rows = run.results.map((r) => ({ cells: [r.policy, (r.repeat || 0) + 1, r.state, seconds(r.makespan_s), seconds(r.completion_s), percent(r.local), counts(r.jobs)] }));
  table("results", ["policy", "repeat", "state", "makespan", "mean completion", "maps on their node", "jobs"], rows);
}

async function change(path, body) {
  const said = byId("said");
  said.className = "";
  said.textContent = "...";
  try {
    const answer = await fetch(path, { method: "POST", headers: { Authorization: "Bearer " + TOKEN, "Content-Type": "application/json" }, body: JSON.stringify(body) });
    const told = await answer.json();
    said.textContent = told.said || told.error;
    said.className = answer.ok ? "" : "bad";
  } catch (error) {
    said.textContent = String(error);
    said.className = "bad";
  }
}

byId("no").addEventListener("click", () => byId("sure").close());
byId("tools").addEventListener("submit", (event) => event.preventDefault());
byId("inject").addEventListener("click", () => {
  const kind = byId("fault").value, node = byId("node").value, lasts = byId("for").value, hosts = run.about.hosts || {};
  const fault = lasts ? { [kind]: node, for: lasts } : { [kind]: node };
  const hit = kind === "kill_host" ? run.specs.map((spec) => spec.node).filter((each) => hosts[each] === hosts[node]) : [node];
  const about = byId("fault").selectedOptions[0].title;
  ask(`${kind}${lasts ? ` for ${lasts}` : ""} on ${hit.join(", ")}: ${about}.`, "Inject", () => change("fault", { fault }));
});
byId("submit").addEventListener("click", () => {
  try {
    change("submit", { job: JSON.parse(byId("job").value) });
  } catch (error) {
    byId("said").textContent = `not JSON: ${error.message}`;
    byId("said").className = "bad";
  }
});

const source = new EventSource("events" + location.search);
source.addEventListener("all", (event) => begin(JSON.parse(event.data)));
source.addEventListener("step", (event) => step(JSON.parse(event.data)));
source.addEventListener("condition", (event) => {
  const news = JSON.parse(event.data);
  if (!run || news.seq <= run.seq) return;
  Object.assign(run, { seq: news.seq, now: Math.max(run.now, news.now), held: news.held, down: news.down, pace: news.down.jobtracker === undefined ? run.pace : 0 });
  dirty = true;
});
source.addEventListener("results", (event) => { if (run) { run.results = JSON.parse(event.data).results; dirty = true; } });
source.addEventListener("over", (event) => {
  source.close();
  if (JSON.parse(event.data).report) location.replace("report" + location.search);
  else byId("facts").textContent = "the run is over";
});
source.onerror = () => { byId("facts").textContent = "the run does not answer"; };
window.addEventListener("resize", () => { dirty = true; });
requestAnimationFrame(draw);
