// The plan as a drawing: streams on the left, the answer on the right, with rates on the lines between. EXPLAIN has said
// where everything stands (pictures/tree_data.py).

import { amount } from "/page/plots.js";

const SVG = "http://www.w3.org/2000/svg";

function node(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function line({ x, y, text, look, length }) {
  const fitted = length === undefined ? {} : { textLength: length, lengthAdjust: "spacingAndGlyphs" };
  return node("text", { x, y, class: look ? `plan-${look}` : "", ...fitted }, text);
}

export class PlanDrawing {
  constructor(place) {
    this.place = place;
  }

  // plan: as EXPLAIN gives it
  show(plan) {
    const { width, height, boxes, edges } = plan.drawing;
    this.streams = plan.streams;
    this.rates = [];
    this.svg = node("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
    for (const edge of edges) this.edge(edge);
    for (const box of boxes) this.box(box);
    this.place.replaceChildren(this.svg);
    this.update(null, {});
  }

  edge({ path, end: [x, y], name, labels, rate }) {
    this.svg.append(node("path", { d: path }), node("path", { d: `M${x} ${y}l-7 -4v8z`, class: "plan-head" }));
    this.svg.append(...labels.map(line));
    if (rate === undefined) return;
    const text = node("text", { x: rate.x, y: rate.y, class: "rate" }, rate.text);
    this.svg.append(text);
    this.rates.push({ text, alias: name, expected: rate.text });
  }

  box({ kind, title, x, y, width, height, lines }) {
    const group = node("g", {});
    group.append(node("title", {}, title), node("rect", { x, y, width, height, rx: 5 }));
    group.append(node("rect", { x, y, width: 4, height, rx: 2, class: `plan-mark plan-${kind}` }), ...lines.map(line));
    this.svg.append(group);
  }

  // out: rows a second of the answer; by stream: of each. What is not measured yet stays as it is expected.
  update(out, byStream) {
    if (!this.svg) return;
    const told = [];
    for (const { text, alias, expected } of this.rates) {
      const stream = alias === null ? null : Object.hasOwn(this.streams, alias) ? this.streams[alias].stream : alias;
      const value = stream === null ? out : byStream[stream];
      text.textContent = value == null ? expected : `${amount.format(value)}/s`;
      if (value != null) told.push(`${stream === null ? "the answer" : stream} ${amount.format(value)} rows a second`);
    }
    this.svg.setAttribute("aria-label", `how the query runs${told.length ? `: ${told.join(", ")}` : ""}`);
  }
}
