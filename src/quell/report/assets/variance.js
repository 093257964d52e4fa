// Variance ratios with intervals: one small chart per measurement.
const ROW = 22;

function ratioChart(one, parent, low, high) {
  const figure = element("figure", { class: "ratio" }, parent);
  element("h3", {}, element("figcaption", {}, figure), one.title);
  element("p", { class: "quiet" }, figure.firstChild, one.where);
  const [width, left] = [340, 18 + 6.9 * Math.max(...one.rows.map((row) => row.name.length))];
  const height = ROW * one.rows.length + 40;
  const label = one.rows.map((row) => `${row.name} ${row.value === null ? "unknown" : short(row.value)}`).join(", ");
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${one.title}: ${label}` }, figure);
  const x = (value) => left + ((Math.log10(Math.min(high, Math.max(low, value))) - Math.log10(low)) / Math.log10(high / low)) * (width - left - 62);
  const decades = Math.log10(high / low);
  for (let power = Math.ceil(Math.log10(low)); power <= Math.log10(high) + 1e-9; power++) {
    const at = x(10 ** power);
    shape("line", { class: power ? "grid" : "cursor", x1: at, x2: at, y1: 0, y2: height - 34 }, svg);
    if (power % Math.ceil(decades / 5) === 0)
      shape("text", { "data-tick": "x", x: at, y: height - 20, "text-anchor": "middle" }, svg, Math.abs(power) > 2 ? `1e${power}` : `${10 ** power}`);
  }
  shape("text", { class: "axis", "data-axis": "x", x: (left + width - 62) / 2, y: height - 5, "text-anchor": "middle" }, svg, "variance, ES = 1");
  one.rows.forEach((row, i) => {
    const y = ROW * i + ROW / 2 + 2;
    shape("text", { class: "name", x: left - 10, y: y + 4, "text-anchor": "end" }, svg, row.name);
    if (row.value === null) return;
    if (row.low !== null && row.high !== null)
      shape("line", { x1: x(row.low), x2: x(row.high), y1: y, y2: y, stroke: row.colour, "stroke-width": 2 }, svg);
    shape("circle", { cx: x(row.value), cy: y, r: 4.5, fill: row.colour }, svg);
    shape("text", { x: width, y: y + 4, "text-anchor": "end" }, svg, short(Number(row.value.toPrecision(2))));
  });
}

if (DATA.variance.length) {
  const known = DATA.variance.flatMap((one) => one.rows.map((row) => row.value)).filter((value) => value > 0);
  const low = 10 ** Math.floor(Math.log10(Math.min(0.1, ...known)));
  const high = 10 ** Math.ceil(Math.log10(Math.max(2, ...known)));
  for (const one of DATA.variance) ratioChart(one, byId("ratios"), low, Math.min(high, 1e3));
}
