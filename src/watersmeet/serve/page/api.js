// What the page asks of the server. The token stays in this tab.

const KEY = "watersmeet token";

export class NeedsToken extends Error {}

export function setToken(token) {
  sessionStorage.setItem(KEY, token);
}

function headers(more = {}) {
  const token = sessionStorage.getItem(KEY);
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

async function checked(response) {
  if (response.status === 401) throw new NeedsToken();
  if (response.ok) return response;
  const told = await response.json().catch(() => ({}));
  throw new Error(told.error ?? `the server answered ${response.status}`);
}

export async function read(path) {
  return (await checked(await fetch(path, { headers: headers(), cache: "no-store" }))).json();
}

export function queryPath(name, what = "") {
  return `/queries/${encodeURIComponent(name)}${what}`;
}

// Server-sent events by fetch, as EventSource cannot send a token. Goes on behind the last id after a break.
export async function listen(path, signal, onEvent) {
  let last = null;
  while (!signal.aborted) {
    try {
      const asked = last === null ? {} : { "Last-Event-ID": last };
      const response = await checked(await fetch(path, { headers: headers(asked), signal, cache: "no-store" }));
      for await (const event of events(response.body)) {
        if (event.id !== undefined) last = event.id;
        onEvent(event);
      }
    } catch (error) {
      if (signal.aborted || error instanceof NeedsToken) return;
    }
    await new Promise((done) => setTimeout(done, 1000));
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (text + value).split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const event = { event: "message" };
      for (const line of part.split("\n")) {
        const colon = line.indexOf(": ");
        if (colon > 0) event[line.slice(0, colon)] = line.slice(colon + 2);
      }
      if (event.data !== undefined) yield { ...event, data: JSON.parse(event.data) };
    }
  }
}
