"use strict";
// Data, numbers and small drawing helpers.
const DATA = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes, put at the end of a parent; text is never read as HTML. */
function element(name, attributes = {}, parent = null, text = null, space = null) {
  const made = space ? document.createElementNS(space, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

const shape = (name, attributes, parent, text = null) => element(name, attributes, parent, text, SVG);
const colourOf = (method) => method.colour || "currentColor";

/** 1234.5 -> 1,235; 0.01234 -> 0.0123; 3e37 -> 3.0e37 */
function short(value) {
  const size = Math.abs(value);
  if (size >= 1e6 || (size > 0 && size < 1e-3)) return value.toExponential(1).replace("e+", "e");
  if (size >= 100) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(3)));
}

/** Steps on an axis: 20k, 1.5M. */
function brief(value) {
  for (const [size, unit] of [[1e6, "M"], [1e3, "k"]])
    if (Math.abs(value) >= size) return Number((value / size).toPrecision(4)) + unit;
  return String(Number(value.toPrecision(4)));
}

/** Round numbers from low to high, about `count` of them and never fewer than three. */
function ticks(low, high, count) {
  if (!(high > low)) return [low];
  for (let wanted = count; ; wanted++) {
    const raw = (high - low) / wanted;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].find((n) => n * power >= raw) * power;
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(k * step);
    if (found.length >= Math.min(3, count)) return found;
  }
}

/** How a scale bends values, and back. wide: linear up to 1000 and logarithmic beyond, on both sides. */
const BENDS = {
  linear: [(v) => v, (v) => v],
  log: [(v) => Math.log10(Math.max(v, 1e-9)), (v) => 10 ** v],
  wide: [(v) => Math.sign(v) * Math.log10(1 + Math.abs(v) / 1000), (v) => Math.sign(v) * (10 ** Math.abs(v) - 1) * 1000],
};

/** A scale from values to pixels. */
function scale(low, high, from, to, kind = "linear") {
  const [bend, unbend] = BENDS[kind];
  const [a, b] = [bend(low), bend(high)];
  const span = b - a || 1;
  const at = (value) => from + ((bend(value) - a) / span) * (to - from);
  at.kind = kind;
  at.invert = (pixel) => unbend(a + ((pixel - from) / (to - from)) * span);
  at.ticks = (count) => {
    if (kind === "linear") return ticks(low, high, count);
    if (kind === "wide") return ticks(a, b, count).map(unbend).map((v) => Number(v.toPrecision(1)));
    if (b - a < 1) return ticks(low, high, count);
    const powers = ticks(Math.floor(a), Math.ceil(b), Math.max(count, 1)).filter(Number.isInteger).map((k) => 10 ** k);
    const within = (values) => values.filter((v) => v >= low * 0.999 && v <= high * 1.001);
    return within(powers).length > 2 ? powers : within(powers.flatMap((p) => [p, 2 * p, 5 * p]));
  };
  return at;
}

/** The value of a line at x; null outside it. */
function interpolate(xs, ys, x) {
  if (!xs.length || x < xs[0] || x > xs[xs.length - 1]) return null;
  let right = xs.findIndex((value) => value >= x);
  if (right <= 0) return ys[0];
  const share = (x - xs[right - 1]) / (xs[right] - xs[right - 1]);
  return ys[right - 1] + share * (ys[right] - ys[right - 1]);
}
