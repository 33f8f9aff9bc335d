// The page: one query at a time, its numbers every second, its answer as it changes.

import { listen, NeedsToken, queryPath, read, setToken } from "/page/api.js";
import { PlanDrawing } from "/page/plan.js";
import { amount, behind, perBatch, Plots, rate } from "/page/plots.js";
import { element, table } from "/page/rows.js";

const EVERY_MS = 1000, SHOWN = 200, LATEST = 100;
const $ = (id) => document.getElementById(id);
const plots = new Plots($("plots"));
const plan = new PlanDrawing($("plan"));
let queries = [], current = null, leaving = new AbortController(), latest = [], isNew = false, told = "", saidAt = null;

function say(text, bad = false) {
  if (text === told) return; // or a screen reader would say it every second
  told = text;
  $("state").textContent = text;
  $("state").classList.toggle("bad", bad);
}

function instant(us) {
  return us === null ? "–" : new Date(us / 1000).toISOString().replace("T", " ").replace("Z", "");
}

function choose(name) {
  leaving.abort();
  leaving = new AbortController();
  current = queries.find((one) => one.name === name) ?? queries[0];
  history.replaceState(null, "", `#${encodeURIComponent(current.name)}`);
  latest = [];
  isNew = true;
  $("name").textContent = current.name;
  $("rows").replaceChildren();
  $("switches").replaceChildren();
  $("rows-note").textContent = "";
  $("rows-title").textContent = current.answer === "changes" ? "Answer now" : "Latest rows";
  for (const button of $("queries").querySelectorAll("button")) {
    button.setAttribute("aria-current", String(button.value === current.name));
  }
  $("main").hidden = false;
  plots.reset();
  begin(current, leaving.signal);
}

async function begin(query, signal) {
  try {
    const whole = await read(queryPath(query.name));
    if (signal.aborted) return;
    $("plan-text").textContent = whole.plan_text;
    $("sql").textContent = whole.sql.trim();
    plan.show(whole.plan);
    if (query.answer === "changes") return;
    const { rows } = await read(queryPath(query.name, `/rows?limit=${LATEST}`));
    latest = rows;
    isNew = true;
    listen(queryPath(query.name, "/changes"), signal, (event) => {
      if (event.event !== "message") return;
      latest = [...latest, ...event.data.rows].slice(-LATEST);
      isNew = true;
    });
  } catch (error) {
    failed(error);
  }
}

async function look() {
  try {
    ({ queries } = await read("/queries"));
    if ($("queries").childElementCount !== queries.length) list();
    if (current === null) choose(decodeURIComponent(location.hash.slice(1)));
    else await update(current, leaving.signal);
    const wrong = queries.filter((one) => one.metrics.late_rows > 0).map((one) => `${one.name} has ${amount.format(one.metrics.late_rows)} late rows`);
    say(["running", ...wrong].join("; "));
  } catch (error) {
    failed(error);
  }
  setTimeout(look, EVERY_MS);
}

function failed(error) {
  if (error instanceof NeedsToken) {
    $("ask").hidden = false;
    say("a token is needed", true);
  } else {
    say(error instanceof TypeError ? "the server does not answer" : error.message, true);
  }
}

function list() {
  $("queries").replaceChildren(...queries.map((one) => {
    const item = element("li"), button = element("button", one.name, { type: "button", "aria-current": "false" });
    button.value = one.name;
    button.addEventListener("click", () => choose(one.name));
    item.append(button);
    return item;
  }));
}

async function update(query, signal) {
  const last = plots.samples.at(-1);
  const { samples } = await read(queryPath(query.name, `/history?since=${last ? Math.floor(last.time_s) : 0}`));
  const { streams } = await read("/streams");
  if (signal.aborted) return;
  plots.add(samples.filter((one) => last === undefined || one.time_s > last.time_s));
  const [before, now] = plots.samples.slice(-2).length === 2 ? plots.samples.slice(-2) : [undefined, plots.samples.at(-1)];
  const found = queries.find((one) => one.name === query.name) ?? query;
  if (now) {
    tiles(found, now, before);
    const byStream = Object.fromEntries(Object.keys(now.taken).map((name) => [name, before ? rate({ ...now, n: now.taken[name] }, { ...before, n: before.taken[name] ?? 0 }, "n") : null]));
    plan.update(rate(now, before, "results"), byStream);
  }
  switches(found.metrics.switches ?? []);
  streamTable(streams.filter((one) => query.streams.includes(one.name)), query.name);
  await answer(found, signal);
}

function tiles(query, now, before) {
  const { metrics } = query;
  const number = (value, unit = "") => (value == null ? "–" : `${amount.format(value)}${unit}`);
  const values = {
    "Rows in": `${number(metrics.rows_in)}, ${number(rate(now, before, "rows_in"), "/s")}`,
    "Rows out": `${number(metrics.results)}, ${number(rate(now, before, "results"), "/s")}`,
    "Watermark (UTC)": instant(metrics.watermark_us),
    "Behind the newest row": number(behind(now), " s"),
    "Waiting for": metrics.still_for_s > 3 && metrics.held_back_by ? `${metrics.held_back_by}, ${number(metrics.still_for_s, " s")}` : "–",
    "Rows in windows": number(metrics.window_rows),
    "State": number(metrics.state_bytes, "B"),
    "Late rows": number(metrics.late_rows),
    "Batches": `${number(now.batches)}, ${number(perBatch(now, before), " ms each")}`,
    "Recall": metrics.shed_rows ? (metrics.recall === null ? "unknown" : `${(100 * metrics.recall).toFixed(1)} %`) : "all",
  };
  const key = JSON.stringify(values);
  if (key === saidAt) return;
  saidAt = key;
  $("now").replaceChildren(...Object.entries(values).map(([name, value]) => {
    const box = element("div");
    box.append(element("dt", name), element("dd", value));
    return box;
  }));
}

function switches(all) {
  if ($("switches").dataset.count === String(all.length) && $("switches").childElementCount) return;
  $("switches").dataset.count = all.length;
  if (!all.length) return $("switches").replaceChildren();
  const columns = [...new Set(all.flatMap((one) => Object.keys(one)))].map((name) => ({ name }));
  $("switches").replaceChildren(element("h4", "Changes of the join order"), table(columns, all.slice(-20), "changes of the join order"));
}

function streamTable(streams, query) {
  const columns = [{ name: "stream" }, { name: "columns" }, { name: "rows in", type: "INT" }, { name: "late", type: "INT" }, { name: "newest (UTC)" }, { name: "rows come" }];
  const rows = streams.map((one) => ({
    stream: one.name,
    columns: one.columns.map(({ name, type }) => `${name} ${type}`).join(", "),
    "rows in": one.taken_by_query[query],
    late: one.late_by_query[query],
    "newest (UTC)": instant(one.newest_us),
    "rows come": one.posted ? "by POST" : "from its source",
  }));
  $("streams").replaceChildren(table(columns, rows, "streams that the query reads"));
}

async function answer(query, signal) {
  let rows = latest, columns = query.columns, note = `the last ${rows.length} rows, the newest first`;
  if (query.answer === "changes") {
    const found = await read(queryPath(query.name, `/answer?limit=${SHOWN}`));
    if (signal.aborted) return;
    if (!isNew && $("rows").dataset.id === found.id) return;
    $("rows").dataset.id = found.id;
    columns = columns.slice(2); // without what only changes have
    rows = found.rows;
    note = found.total > rows.length ? `the first ${rows.length} of ${found.total} rows` : `${found.total} rows`;
  } else {
    if (!isNew) return;
    rows = [...latest].reverse();
  }
  isNew = false;
  $("rows-note").textContent = note;
  $("rows").replaceChildren(table(columns, rows, `the answer of ${query.name}`));
}

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  setToken($("token").value);
  $("token").value = "";
  $("ask").hidden = true;
  say("connecting …");
});
if (location.hash.startsWith("#token=")) {
  setToken(decodeURIComponent(location.hash.slice(7)));
  history.replaceState(null, "", location.pathname);
}
look();
