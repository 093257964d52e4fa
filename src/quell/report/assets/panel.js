// One task's chart: drawing, hovering, zooming, keys.
const MARGIN = { left: 58, right: 18, top: 22, bottom: 38 };

class Panel {
  constructor(task, parent, choice) {
    this.task = task;
    this.choice = choice;
    this.domain = this.cursor = this.pressed = null;
    const label = `${task.title}: learning curves`;
    this.figure = element("figure", { class: "panel", tabindex: 0, role: "group", "aria-label": label, "data-task": task.name }, parent);
    const caption = element("figcaption", {}, this.figure);
    element("h3", {}, caption, task.title);
    this.all = element("button", { type: "button", hidden: "" }, caption, "Show all");
    this.size = element("button", { type: "button", "aria-label": `Enlarge ${task.title}` }, caption, "⤢");
    this.svg = shape("svg", { class: "plot", role: "img", "aria-label": label }, this.figure);
    this.tip = element("div", { class: "tip", role: "status", hidden: "" }, this.figure);
    this.listen();
  }

  listen() {
    this.all.addEventListener("click", () => this.zoom(null));
    this.size.addEventListener("click", () => this.enlarge());
    this.svg.addEventListener("pointerdown", (event) => this.press(event));
    this.svg.addEventListener("pointermove", (event) => this.move(event));
    this.svg.addEventListener("pointerup", (event) => this.release(event));
    this.svg.addEventListener("pointercancel", () => (this.pressed = null));
    this.svg.addEventListener("pointerleave", () => this.pressed === null && this.point(null));
    this.svg.addEventListener("dblclick", () => this.zoom(null));
    this.figure.addEventListener("keydown", (event) => event.target === this.figure && this.key(event));
    this.figure.addEventListener("focusout", () => this.point(null));
    new ResizeObserver(() => this.draw()).observe(this.svg);
  }

  /** Curves of the methods that are switched on. */
  curves() {
    const { group, metric, methods } = this.choice;
    return DATA.methods[group].filter((method) => methods.has(method.name)).flatMap((method) => {
      const found = DATA.series.find((s) => s.group === group && s.task === this.task.name && s.method === method.name);
      const curve = found && curveOf(found, metric);
      return curve ? [{ method, ...curve }] : [];
    });
  }

  draw() {
    this.lines = this.curves();
    const [width, height] = [this.svg.clientWidth, this.svg.clientHeight];
    this.svg.replaceChildren();
    if (!width || !this.lines.length) return;
    const ends = this.lines.flatMap((line) => [line.xs[0], line.xs[line.xs.length - 1]]);
    this.full = [Math.min(...ends), Math.max(...ends)];
    const [low, high] = this.domain || this.full;
    this.x = scale(low, high, MARGIN.left, width - MARGIN.right);
    this.y = this.vertical(low, high, height);
    this.axes(width, height, low, high);
    const name = `clip-${DATA.tasks.indexOf(this.task)}`;
    const clip = shape("clipPath", { id: name }, shape("defs", {}, this.svg));
    const inner = { width: width - MARGIN.left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom };
    shape("rect", { x: MARGIN.left, y: MARGIN.top, ...inner }, clip);
    const layer = shape("g", { "clip-path": `url(#${name})` }, this.svg);
    for (const line of this.lines) this.line(line, layer);
    this.mark = shape("line", { class: "cursor", y1: MARGIN.top, y2: height - MARGIN.bottom, visibility: "hidden" }, this.svg);
    this.chosen = shape("rect", { class: "chosen", y: MARGIN.top, height: inner.height, visibility: "hidden" }, this.svg);
    if (this.cursor !== null) this.point(this.cursor);
  }

  /** A scale for what is visible, with a little room. */
  vertical(low, high, height) {
    const inside = (xs, ys) => ys.filter((_, i) => xs[i] >= low && xs[i] <= high);
    const seeds = () => this.lines.flatMap((line) => line.runs.flatMap((run) => inside(run.xs, run.ys)));
    const bands = this.lines.flatMap(({ xs, mean, std }) => [
      ...inside(xs, mean.map((m, i) => m - std[i])),
      ...inside(xs, mean.map((m, i) => m + std[i])),
    ]);
    const kind = this.choice.metric === "ratio" ? "log" : bands.some((value) => Math.abs(value) > 1e6) ? "wide" : "linear";
    const seen = kind !== "linear" ? seeds() : this.choice.seeds ? bands.concat(seeds()) : bands;
    const [bottom, top] = seen.length ? [Math.min(...seen), Math.max(...seen)] : [0, 1];
    const room = kind !== "linear" ? 0 : (top - bottom) * 0.05 || Math.abs(top) * 0.05 || 1;
    return scale(bottom - room, top + room, height - MARGIN.bottom, MARGIN.top, kind);
  }

  axes(width, height, low, high) {
    const name = document.querySelector(`#metric [value=${this.choice.metric}]`).textContent;
    shape("text", { class: "axis", "data-axis": "y", x: 4, y: 12 }, this.svg, name);
    const middle = { x: (MARGIN.left + width - MARGIN.right) / 2, "text-anchor": "middle" };
    shape("text", { class: "axis", "data-axis": "x", y: height - 5, ...middle }, this.svg, "environment steps");
    for (const value of this.y.ticks(height > 300 ? 8 : 4)) {
      const y = this.y(value);
      if (y < MARGIN.top - 1 || y > height - MARGIN.bottom + 1) continue;
      shape("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y, y2: y }, this.svg);
      shape("text", { "data-tick": "y", x: MARGIN.left - 6, y: y + 4, "text-anchor": "end" }, this.svg, short(value));
    }
    for (const value of ticks(low, high, Math.max(3, Math.floor(width / 90)))) {
      const x = this.x(value);
      shape("line", { class: "grid", x1: x, x2: x, y1: height - MARGIN.bottom, y2: height - MARGIN.bottom + 4 }, this.svg);
      shape("text", { "data-tick": "x", x, y: height - MARGIN.bottom + 15, "text-anchor": "middle" }, this.svg, brief(value));
    }
  }

  line({ method, runs, xs, common, mean, std }, layer) {
    const colour = colourOf(method);
    const path = (across, up) => across.map((x, i) => `${this.x(x).toFixed(1)},${this.y(up[i]).toFixed(1)}`);
    const look = { fill: "none", stroke: colour, "stroke-dasharray": method.dash };
    if (this.choice.seeds)
      for (const run of runs) shape("polyline", { points: path(run.xs, run.ys).join(" "), ...look, opacity: 0.45 }, layer);
    else if (this.y.kind === "linear") { // a band on a bent scale says nothing
      const upper = path(xs, mean.map((m, i) => m + std[i]));
      const lower = path(xs, mean.map((m, i) => m - std[i])).reverse();
      shape("polygon", { points: [...upper, ...lower].join(" "), fill: colour, opacity: 0.15 }, layer);
    }
    const [points, all] = [path(xs, mean), xs.filter((x) => x <= common).length];
    shape("polyline", { points: points.slice(0, all).join(" "), ...look, "stroke-width": 2, "data-method": method.name }, layer);
    if (all < xs.length) shape("polyline", { points: points.slice(all - 1).join(" "), ...look, "stroke-width": 2, opacity: 0.45 }, layer);
    if (xs.length === 1) shape("circle", { cx: this.x(xs[0]), cy: this.y(mean[0]), r: 3, fill: colour }, layer);
  }

  /** Show the values at a step, or nothing. */
  point(step) {
    this.cursor = step;
    if (!this.mark || !this.lines.length) return;
    const shown = step === null ? [] : this.lines.map((line) => ({ line, at: statisticsAt(line.runs, step) })).filter(({ at }) => at);
    this.mark.setAttribute("visibility", shown.length ? "visible" : "hidden");
    this.tip.hidden = !shown.length;
    if (!shown.length) return;
    const pixel = this.x(step);
    this.mark.setAttribute("x1", pixel);
    this.mark.setAttribute("x2", pixel);
    this.tip.replaceChildren();
    this.tip.dataset.step = step;
    element("div", {}, this.tip, `${Math.round(step).toLocaleString("en")} steps`);
    const table = element("table", {}, this.tip);
    for (const { line, at } of shown.sort((a, b) => b.at.mean - a.at.mean)) {
      const row = element("tr", { "data-method": line.method.name, "data-value": at.mean }, table);
      const head = element("th", { scope: "row" }, row, "● ");
      head.style.color = colourOf(line.method);
      element("th", {}, row, line.method.title);
      element("td", {}, row, (at.count > 1 ? `${short(at.mean)} ± ${short(at.std)}` : short(at.mean)) + (at.count < line.runs.length ? ` (${at.count} of ${line.runs.length} seeds)` : ""));
    }
    const room = this.figure.clientWidth - this.tip.offsetWidth - 4;
    const beside = pixel + 24 > room ? pixel - this.tip.offsetWidth - 6 : pixel + 24;
    this.tip.style.left = `${Math.min(Math.max(4, beside), Math.max(4, room))}px`;
    const above = this.svg.getBoundingClientRect().top - this.figure.getBoundingClientRect().top;
    this.tip.style.top = `${above + 8}px`;
  }

  stepAt(event) {
    const pixel = event.clientX - this.svg.getBoundingClientRect().left;
    const [low, high] = this.domain || this.full;
    return Math.min(high, Math.max(low, this.x.invert(pixel)));
  }

  press(event) {
    if (!this.x || event.button) return;
    this.pressed = this.stepAt(event);
    this.svg.setPointerCapture(event.pointerId);
    this.point(this.pressed);
  }

  move(event) {
    if (!this.x) return;
    const step = this.stepAt(event);
    this.point(step);
    if (this.pressed === null) return;
    const [from, to] = [this.x(this.pressed), this.x(step)].sort((a, b) => a - b);
    this.chosen.setAttribute("x", from);
    this.chosen.setAttribute("width", to - from);
    this.chosen.setAttribute("visibility", "visible");
  }

  release(event) {
    if (this.pressed === null) return;
    const ends = [this.pressed, this.stepAt(event)].sort((a, b) => a - b);
    this.pressed = null;
    this.chosen.setAttribute("visibility", "hidden");
    if (this.x(ends[1]) - this.x(ends[0]) > 8) this.zoom(ends);
  }

  zoom(domain) {
    const wide = domain && this.full && domain[0] <= this.full[0] && domain[1] >= this.full[1];
    this.domain = wide ? null : domain;
    this.all.hidden = !this.domain;
    this.draw();
  }

  enlarge() {
    const large = this.figure.classList.toggle("large");
    this.size.setAttribute("aria-label", `${large ? "Shrink" : "Enlarge"} ${this.task.title}`);
    this.draw();
  }

  key(event) {
    if (!this.x) return;
    const [low, high] = this.domain || this.full;
    const here = this.cursor ?? (low + high) / 2;
    const within = (value) => Math.min(this.full[1], Math.max(this.full[0], value));
    const around = (factor) => this.zoom([within(here - (high - low) * factor), within(here + (high - low) * factor)]);
    const actions = {
      ArrowLeft: () => this.point(Math.max(low, here - (high - low) / 50)),
      ArrowRight: () => this.point(Math.min(high, here + (high - low) / 50)),
      Home: () => this.point(low),
      End: () => this.point(high),
      "+": () => around(0.25),
      "=": () => around(0.25),
      "-": () => around(1),
      0: () => this.zoom(null),
      Escape: () => (this.zoom(null), this.point(null)),
      Enter: () => this.enlarge(),
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[event.key]();
  }
}
