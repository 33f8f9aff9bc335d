// Tables. Whatever comes from the server is text, never markup.

const NUMBERS = /INT|DOUBLE|FLOAT|REAL|DECIMAL/;

export function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

export function shown(value) {
  if (value === null || value === undefined) return "NULL";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

// columns: [{name, type}], rows: objects by those names
export function table(columns, rows, caption) {
  const made = element("table");
  made.append(element("caption", caption, { class: "skip" }));
  const head = element("tr");
  for (const { name, type } of columns) {
    head.append(element("th", name, { scope: "col", title: type ?? "", class: sideOf(type) }));
  }
  const top = element("thead");
  top.append(head);
  const body = element("tbody");
  for (const row of rows) {
    const line = element("tr");
    for (const { name, type } of columns) {
      const text = shown(Object.hasOwn(row, name) ? row[name] : null);
      line.append(element("td", text, { class: sideOf(type), title: text }));
    }
    body.append(line);
  }
  made.append(top, body);
  return made;
}

function sideOf(type) {
  return NUMBERS.test(type ?? "") && !/[[(]/.test(type.replace(/DECIMAL\(.*\)/, "")) ? "number" : "";
}
