// What is shown: group, metric, methods, tasks, seeds; light or dark.
const choice = { group: 0, metric: "return", seeds: false, methods: new Set(), tasks: new Set() };
const byId = (id) => document.getElementById(id);
const panels = [];

/** A switch for one name of a set. */
function chip(parent, set, name, label, colour, dash) {
  const button = element("button", { type: "button", class: "chip", "aria-pressed": "true", "data-name": name }, parent);
  if (colour !== undefined) {
    const swatch = shape("svg", { width: 20, height: 8, "aria-hidden": "true" }, button);
    shape("line", { x1: 0, x2: 20, y1: 4, y2: 4, stroke: colour, "stroke-width": 3, "stroke-dasharray": dash }, swatch);
  }
  button.append(label);
  set.add(name);
  button.addEventListener("click", () => {
    set.has(name) ? set.delete(name) : set.add(name);
    button.setAttribute("aria-pressed", set.has(name));
    show();
  });
}

/** One button that switches all chips of a set on or off. */
function allOrNone(parent, set) {
  const button = element("button", { type: "button" }, parent, "all / none");
  button.addEventListener("click", () => {
    const chips = [...parent.querySelectorAll(".chip")];
    const on = chips.some((one) => one.getAttribute("aria-pressed") === "false");
    for (const one of chips) {
      on ? set.add(one.dataset.name) : set.delete(one.dataset.name);
      one.setAttribute("aria-pressed", on);
    }
    show();
  });
}

/** Hide switches for what the chosen group does not have. */
function fit(parent, field) {
  const there = new Set(DATA.series.filter((series) => series.group === choice.group).map((series) => series[field]));
  for (const one of parent.querySelectorAll(".chip")) one.hidden = !there.has(one.dataset.name);
}

/** Draw what is chosen, hide the rest. */
function show() {
  fit(byId("methods"), "method");
  fit(byId("tasks"), "task");
  let visible = 0;
  for (const panel of panels) {
    const on = choice.tasks.has(panel.task.name) && panel.curves().length > 0;
    panel.figure.hidden = !on;
    visible += on;
    if (on) panel.draw();
  }
  byId("nothing").hidden = visible > 0;
}

function startCurves() {
  DATA.groups.forEach((name, i) => element("option", { value: i }, byId("group"), name));
  byId("group").parentElement.hidden = DATA.groups.length < 2;
  byId("group").addEventListener("change", (event) => {
    choice.group = Number(event.target.value);
    for (const panel of panels) panel.zoom(null);
    show();
  });
  byId("metric").addEventListener("change", (event) => ((choice.metric = event.target.value), show()));
  byId("seeds").addEventListener("change", (event) => ((choice.seeds = event.target.checked), show()));
  for (const method of DATA.methods)
    chip(byId("methods"), choice.methods, method.name, method.name.toUpperCase(), colourOf(method), method.dash);
  for (const task of DATA.tasks) chip(byId("tasks"), choice.tasks, task.name, task.label);
  if (DATA.methods.length > 2) allOrNone(byId("methods"), choice.methods);
  if (DATA.tasks.length > 2) allOrNone(byId("tasks"), choice.tasks);
  for (const task of DATA.tasks) panels.push(new Panel(task, byId("panels"), choice));
  if (panels.length === 1) panels[0].enlarge();
  show();
}

function startTheme() {
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const name = () => (byId("theme").textContent = isDark() ? "Light" : "Dark");
  byId("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
  name();
}

startTheme();
if (byId("panels")) startCurves();
