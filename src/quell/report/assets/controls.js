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

/** Switches for all that the chosen group has, and one for all of them. */
function chips(parent, set, things) {
  for (const one of parent.querySelectorAll("button")) one.remove();
  set.clear();
  for (const one of things) chip(parent, set, one.name, one.title, one.dash === undefined ? undefined : colourOf(one), one.dash);
  if (things.length < 3) return;
  element("button", { type: "button" }, parent, "all / none").addEventListener("click", () => {
    const all = [...parent.querySelectorAll(".chip")];
    const on = all.some((one) => one.getAttribute("aria-pressed") === "false");
    for (const one of all) {
      on ? set.add(one.dataset.name) : set.delete(one.dataset.name);
      one.setAttribute("aria-pressed", on);
    }
    show();
  });
}

/** Draw what is chosen, hide the rest. */
function show() {
  let visible = 0;
  for (const panel of panels) {
    const on = choice.tasks.has(panel.task.name) && panel.curves().length > 0;
    panel.figure.hidden = !on;
    visible += on;
    if (on) panel.draw();
  }
  byId("nothing").hidden = visible > 0;
}

function choose(group) {
  choice.group = group;
  for (const one of document.querySelectorAll("[data-group]")) one.hidden = Number(one.dataset.group) !== group;
  const there = new Set(DATA.series.filter((series) => series.group === group).map((series) => series.task));
  chips(byId("methods"), choice.methods, DATA.methods[group]);
  chips(byId("tasks"), choice.tasks, DATA.tasks.filter((task) => there.has(task.name)));
  for (const panel of panels) panel.zoom(null);
  show();
}

function startCurves() {
  DATA.groups.forEach((name, i) => element("option", { value: i }, byId("group"), `${name} (${DATA.sizes[i]} run${DATA.sizes[i] === 1 ? "" : "s"})`));
  byId("group").parentElement.hidden = DATA.groups.length < 2;
  byId("group").addEventListener("change", (event) => choose(Number(event.target.value)));
  byId("metric").addEventListener("change", (event) => ((choice.metric = event.target.value), show()));
  byId("seeds").addEventListener("change", (event) => ((choice.seeds = event.target.checked), show()));
  for (const task of DATA.tasks) panels.push(new Panel(task, byId("panels"), choice));
  byId("group").value = DATA.start;
  choose(DATA.start);
  if (panels.length === 1) panels[0].enlarge();
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
