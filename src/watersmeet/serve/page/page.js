// The page: one query at a time, its numbers every second, its answer as it changes.

import { listen, NeedsToken, queryPath, read, setToken } from "/page/api.js";
import { PlanDrawing } from "/page/plan.js";
import { amount, behind, earlier, perBatch, Plots, rate, whole } from "/page/plots.js";
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
  $("rows-title").textContent = current.presents ? "Answer now" : current.answer === "changes" ? "Latest changes" : "Latest rows";
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
    if (query.presents || query.rows_missing || query.failure) return;
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
    const states = new Set(queries.map((one) => one.state)), failures = queries.filter((one) => one.failure);
    const late = queries.filter((one) => one.metrics.late_rows > 0).map((one) => `${one.name} has ${amount.format(one.metrics.late_rows)} late rows`);
    const now = ["running", "stopping", "waiting"].find((state) => states.has(state)) ?? "ended";
    const counted = failures.length ? [`${failures.map((one) => one.name).join(", ")} failed`] : [];
    say([...counted, ...(failures.length === queries.length ? [] : [now]), ...late].join("; "), failures.length > 0);
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
  const now = plots.samples.at(-1), before = now && earlier(plots.samples);
  const found = queries.find((one) => one.name === query.name) ?? query;
  if (now) {
    tiles(found, now, before);
    const byStream = Object.fromEntries(Object.keys(now.taken).map((name) => [name, before ? rate({ ...now, n: now.taken[name] }, { ...before, n: before.taken[name] ?? 0 }, "n") : null]));
    plan.update(rate(now, before, "results"), byStream);
  }
  failure(found.failure);
  switches(found.metrics.switches ?? []);
  windowTable(found.metrics);
  streamTable(streams.filter((one) => query.streams.includes(one.name)), query.name);
  await answer(found, signal);
}

// Milliseconds in the unit that reads best.
function lasting(ms) {
  if (ms == null) return "–";
  return ms < 1000 ? `${amount.format(ms)} ms` : `${amount.format(ms / 1000)} s`;
}

function tiles(query, now, before) {
  const { metrics } = query;
  const number = (value, unit = "") => (value == null ? "–" : `${amount.format(value)}${unit}`);
  const values = {
    "Rows in": `${number(metrics.rows_in)}, ${number(rate(now, before, "rows_in"), "/s")}`,
    "Rows out": `${number(metrics.results)}, ${number(rate(now, before, "results"), "/s")}`,
    "Watermark (UTC)": instant(metrics.watermark_us),
    "Behind the newest row": number(behind(now), " s"),
    "Waiting for": metrics.still_for_s > 3 && metrics.waits_for_rows ? `${metrics.held_back_by}, ${number(metrics.still_for_s, " s")}` : "–",
    "Rows kept": number(metrics.kept_rows),
    "State": number(metrics.state_bytes, " bytes"),
    "Late rows": number(metrics.late_rows),
    ...(metrics.bad_rows ? { "Bad records": number(metrics.bad_rows) } : {}),
    "Batches": `${number(now.batches)}, ${lasting(perBatch(now, before))} each`,
    "State of the query": query.state,
    "Recall": metrics.shed_rows ? (metrics.recall === null ? "unknown" : `${(100 * metrics.recall).toFixed(1)} %${metrics.recall_is_estimate ? ", estimated" : ""}`) : "all",
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

function failure(told) {
  const text = told === null ? "" : [told.error, told.hint].filter(Boolean).join("; ");
  if ($("failure").textContent !== text) $("failure").textContent = text;
  $("failure").hidden = told === null;
}

// Orders of one join: where new rows of each stream go, which is written once if it is the same for all.
function orders(routes) {
  return routes.map((one) => one.join(" → ")).join("; ");
}

// Nanoseconds of work a second, as a share of one core.
function share(ns) {
  const percent = ns / 1e7;
  return `${percent >= 0.01 ? amount.format(percent) : "under 0.01"} % of a core`;
}

function switches(all) {
  if ($("switches").dataset.count === String(all.length) && $("switches").childElementCount) return;
  $("switches").dataset.count = all.length;
  if (!all.length) return $("switches").replaceChildren();
  const columns = [{ name: "event time (UTC)" }, { name: "from" }, { name: "to" }, { name: "because" }];
  const rows = all.slice(-20).reverse().map((one) => ({
    "event time (UTC)": instant(one.at_us),
    from: orders(one.before),
    to: orders(one.after),
    because: `as measured then, ${share(one.before_ns)} before and ${share(one.after_ns)} after`,
  }));
  const place = element("div", undefined, { class: "scroll", role: "group", "aria-label": "Changes of the join order", tabindex: "0" });
  place.append(table(columns, rows, "changes of the join order, the newest first"));
  $("switches").replaceChildren(element("h4", `Changes of the join order: ${all.length}`), place);
}

function windowTable({ window_rows_by_input: rows, window_bytes_by_input: bytes }) {
  $("windows").hidden = !rows;
  if (!rows) return;
  const columns = [{ name: "window of" }, { name: "rows", type: "INT" }, { name: "bytes", type: "INT" }];
  const told = Object.keys(rows).map((name) => ({ "window of": name, rows: whole.format(rows[name]), bytes: whole.format(bytes[name]) }));
  keep($("windows"), table(columns, told, "what each window keeps"));
}

// Put a table in its place, unless it is there: where one reads or has scrolled nothing moves.
function keep(place, made) {
  if (place.firstElementChild?.isEqualNode(made)) return;
  place.replaceChildren(made);
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
  keep($("streams"), table(columns, rows, "streams that the query reads"));
}

async function answer(query, signal) {
  let rows = latest, columns = query.columns, note = `the last ${rows.length} ${query.answer === "changes" ? "changes" : "rows"}, the newest first`;
  if (query.failure) return;
  if (query.rows_missing) {
    $("rows-note").textContent = `No rows can be shown here: ${query.rows_missing}.`;
    return;
  }
  if (query.presents) {
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
