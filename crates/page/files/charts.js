// Small charts of the last hour.
import { h, svg } from "./dom.js";

const MINUTES = 60;

/**
 * Bars, one a minute.
 * @param {string} title
 * @param {string} shown the sum, as text
 * @param {{at: number, value: number, part?: number}[]} minutes
 */
export function minutesChart(title, shown, minutes) {
  const now = Math.floor(Date.now() / 60000) * 60;
  const most = Math.max(1, ...minutes.map((minute) => minute.value));
  const bars = minutes.flatMap((minute) => {
    const slot = MINUTES - 1 - Math.round((now - minute.at) / 60);
    if (slot < 0 || slot >= MINUTES) return [];
    const bar = (/** @type {number} */ value, /** @type {string} */ name) => {
      const height = (value / most) * 50;
      return svg("rect", {
        x: slot * 5,
        y: 52 - height,
        width: 4,
        height: Math.max(height, value > 0 ? 1 : 0),
        class: name,
      });
    };
    return [bar(minute.value, ""), ...(minute.part ? [bar(minute.part, "failed")] : [])];
  });
  const label = `${title}: ${shown}; at most ${Math.round(most)} a minute in the last hour`;
  return h(
    "section",
    { class: "card" },
    h("h2", null, title),
    h("div", { class: "number" }, shown),
    svg(
      "svg",
      { class: "chart", viewBox: "0 0 300 56", preserveAspectRatio: "none", role: "img", "aria-label": label },
      svg("line", { x1: 0, y1: 53, x2: 300, y2: 53 }),
      ...bars,
    ),
  );
}
