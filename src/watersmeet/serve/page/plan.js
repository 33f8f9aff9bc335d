// The plan as a drawing: what runs, from the answer at the top down to the streams, with rates on the edges.

import { amount } from "/page/plots.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDE = 190, HIGH = 40, GAP = 20, LEVEL = 76;

function node(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function short(text, most = 24) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

// What an operator takes from; a join of streams names them as its inputs.
function below(operator) {
  if (operator.below !== undefined) return operator.below;
  return Object.entries(operator.join?.inputs ?? {}).map(([name, one]) => ({ operator: one.table ? "table" : "stream", name, ...one }));
}

// Places: leaves side by side, whatever is above them in their middle.
function placed(operator, depth, next) {
  const under = below(operator).map((one) => placed(one, depth + 1, next));
  const x = under.length ? (under[0].x + under.at(-1).x) / 2 : next.x;
  if (!under.length) next.x += WIDE + GAP;
  next.depth = Math.max(next.depth, depth);
  return { operator, under, x, y: depth * LEVEL + 30 };
}

export class PlanDrawing {
  constructor(place) {
    this.place = place;
  }

  // plan: as EXPLAIN gives it; streams: of each leaf
  show(plan) {
    const next = { x: 0, depth: 0 };
    // The join that is the whole answer is told beside its operator.
    const root = placed(plan.join ? { join: plan.join, ...plan.operators } : plan.operators, 0, next);
    this.streams = plan.streams;
    this.rates = [];
    const width = Math.max(next.x - GAP, WIDE), height = next.depth * LEVEL + HIGH + 36;
    this.svg = node("svg", { width: width + 4, height, viewBox: `-2 0 ${width + 4} ${height}`, role: "img" });
    this.rate(root.x + WIDE / 2 + 6, 20, null);
    this.svg.append(node("path", { d: `M${root.x + WIDE / 2} 4V30` }));
    this.draw(root);
    this.place.replaceChildren(this.svg);
    this.update(null, {});
  }

  draw({ operator, under, x, y }) {
    for (const one of under) {
      const from = `M${one.x + WIDE / 2} ${one.y}`;
      this.svg.append(node("path", { d: `${from}V${y + HIGH + 16}H${x + WIDE / 2}V${y + HIGH}` }));
      this.draw(one);
      if (one.operator.name !== undefined) this.rate(one.x + WIDE / 2 + 6, one.y - 6, one.operator.name);
    }
    const words = operator.name === undefined ? operator.operator.replaceAll("_", " ") : this.leaf(operator);
    const group = node("g", {});
    group.append(node("title", {}, words), node("rect", { x, y, width: WIDE, height: HIGH, rx: 6 }));
    group.append(node("text", { x: x + WIDE / 2, y: y + 25, "text-anchor": "middle" }, short(words)));
    this.svg.append(group);
  }

  leaf({ operator, name, relation }) {
    const own = Object.hasOwn(this.streams, name) ? this.streams[name].stream : (relation ?? name);
    return own === name ? `${operator} ${own}` : `${operator} ${own} as ${name}`;
  }

  rate(x, y, alias) {
    const text = node("text", { x, y, class: "rate" }, "");
    this.svg.append(text);
    this.rates.push({ text, alias });
  }

  // out: rows a second of the answer; by stream: of each
  update(out, byStream) {
    if (!this.svg) return;
    const told = [];
    for (const { text, alias } of this.rates) {
      const stream = alias === null ? null : Object.hasOwn(this.streams, alias) ? this.streams[alias].stream : alias;
      const value = stream === null ? out : byStream[stream];
      text.textContent = value == null ? "" : `${amount.format(value)}/s`;
      if (value != null) told.push(`${stream === null ? "the answer" : stream} ${amount.format(value)} rows a second`);
    }
    this.svg.setAttribute("aria-label", `how the query runs${told.length ? `: ${told.join(", ")}` : ""}`);
  }
}
