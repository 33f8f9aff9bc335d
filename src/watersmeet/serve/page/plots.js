// Lines over the last minutes, by uPlot; each is told in words too.

import { element } from "/page/rows.js";

const KINDS = [
  { title: "Rows per second", lines: ["in", "out"], of: (now, before) => [rate(now, before, "rows_in"), rate(now, before, "results")] },
  { title: "Rows kept", lines: ["rows"], of: (now) => [now.kept_rows] },
  { title: "Bytes of state", lines: ["bytes"], of: (now) => [now.state_bytes] },
  { title: "Watermark behind the newest row, seconds", lines: ["seconds"], of: (now) => [behind(now)] },
  { title: "Milliseconds per batch", lines: ["ms"], of: (now, before) => [perBatch(now, before)] },
  { title: "Late rows", lines: ["late"], of: (now) => [now.late_rows] },
];

// The sample that rates are told from. Where batches are long, as on Spark, a rate over one second would be nothing until
// the next one ends: so two batches lie between, unless that is much longer ago than batches take.
const BATCHES = 2, SHORTEST_S = 3, LONGEST_S = 60;

export function earlier(samples, n = samples.length - 1) {
  const now = samples[n], usual = 4 * (now.batch_seconds / Math.max(now.batches, 1));
  const patience = Math.min(Math.max(usual, SHORTEST_S), LONGEST_S);
  let found = n - 1;
  while (found > 0 && now.batches - samples[found].batches < BATCHES && now.time_s - samples[found].time_s < patience) found -= 1;
  return samples[found];
}

export function rate(now, before, name) {
  const seconds = before === undefined ? 0 : now.time_s - before.time_s;
  // After a restart of the server counts may begin anew.
  return seconds > 0 ? Math.max(now[name] - before[name], 0) / seconds : null;
}

export function behind(now) {
  return now.newest_us === null || now.watermark_us === null ? null : Math.max(now.newest_us - now.watermark_us, 0) / 1e6;
}

export function perBatch(now, before) {
  const batches = before === undefined ? 0 : now.batches - before.batches;
  return batches > 0 && now.batch_seconds >= before.batch_seconds ? (1000 * (now.batch_seconds - before.batch_seconds)) / batches : null;
}

const clock = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
export const whole = new Intl.NumberFormat("en");
export const amount = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

export class Plots {
  constructor(place) {
    this.place = place;
    this.plots = [];
    this.samples = [];
    const again = () => this.make();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
    new ResizeObserver(() => this.resize()).observe(place);
  }

  reset() {
    this.samples = [];
    this.make();
  }

  add(samples) {
    this.samples = [...this.samples, ...samples].slice(-900);
    if (samples.length) this.draw();
  }

  make() {
    for (const { plot } of this.plots) plot.destroy();
    this.place.replaceChildren();
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    this.plots = KINDS.map((kind) => {
      const figure = element("figure");
      const caption = element("figcaption", kind.title);
      figure.append(caption);
      this.place.append(figure);
      const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line") }, ticks: { stroke: colour("--line") } };
      const options = {
        width: this.width(figure), height: 150, cursor: { drag: { x: false, y: false } }, legend: { show: kind.lines.length > 1 },
        axes: [{ ...axis, space: 80, values: (_, ticks) => ticks.map((tick) => clock.format(1000 * tick)) }, { ...axis, size: 55, values: (_, ticks) => ticks.map((tick) => amount.format(tick)) }],
        scales: { y: { range: (_, low, high) => [Math.min(0, low ?? 0), high > 0 ? high * 1.05 : 1] } },
        series: [{}, ...kind.lines.map((label, n) => ({ label, stroke: colour(n ? "--two" : "--one"), width: 2, spanGaps: true, dash: n ? [6, 3] : undefined, points: { show: false } }))],
      };
      return { kind, figure, caption, plot: new uPlot(options, [[], ...kind.lines.map(() => [])], figure) };
    });
    this.draw();
  }

  draw() {
    const times = this.samples.map((one) => one.time_s);
    for (const { kind, figure, caption, plot } of this.plots) {
      const values = this.samples.map((one, n) => kind.of(one, earlier(this.samples, n)));
      plot.setData([times, ...kind.lines.map((_, n) => values.map((one) => one[n]))]);
      const last = values.at(-1) ?? [];
      const told = kind.lines.map((name, n) => `${last[n] == null ? "–" : amount.format(last[n])}${kind.lines.length > 1 ? ` ${name}` : ""}`);
      caption.textContent = `${kind.title}: ${told.join(", ")}`;
      figure.setAttribute("aria-label", `${kind.title}, now ${told.join(", ")}`);
    }
  }

  width(figure) {
    return Math.max(figure.clientWidth - 14, 200);
  }

  resize() {
    for (const { figure, plot } of this.plots) {
      const width = this.width(figure);
      if (Math.abs(width - plot.width) > 2) plot.setSize({ width, height: 150 });
    }
  }
}
