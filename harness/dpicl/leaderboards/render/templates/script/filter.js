// Filters: a row is shown when it fits all of them, and so are its line in rankings and its marks in plots. Reference baselines
// always stay. The state is the address's hash, so that a view can be shared.
document.addEventListener("DOMContentLoaded", () => {
  const bar = document.getElementById("filters");
  if (!bar) return;
  const fields = Array.from(bar.querySelectorAll("[data-filter]"));
  const BASELINES = "reference baselines";
  const rows = Array.from(document.querySelectorAll("tr[data-row]"), (element) => ({
    element,
    values: {
      ...element.closest("section.task").dataset,
      ...element.dataset,
      model: element.closest("section.group").dataset.model,
    },
  }));
  const ofWhole = new Set(["task", "taskkind", "model"]); // what a baseline must fit too
  const fits = (values, name, wanted) => {
    if (name === "search") return (values.row ?? "").toLowerCase().includes(wanted.toLowerCase());
    return values[name] === wanted;
  };
  const shown = (values, wanted) =>
    wanted.every(([name, value]) => (values.kind === BASELINES && !ofWhole.has(name)) || fits(values, name, value));
  const holds = (part) => part.querySelector("tr[data-row]:not([hidden])") !== null;
  const tell = (element, hidden) => element.toggleAttribute("hidden", hidden); // of SVG too

  // What a plot or a ranking does not know of a mark (its kind, say) is asked of the rows that are left.
  const parts = (wanted) => {
    const left = new Set(rows.filter(({ element }) => !element.hidden).map(({ values }) => values.row));
    const epsilon = wanted.find(([name]) => name === "epsilon")?.[1];
    const fitsLevel = (own) => !epsilon || !own || own === epsilon || own === "0" || own === "∞";
    for (const mark of document.querySelectorAll("svg [data-row]")) {
      const { row, kind, epsilon: own } = mark.dataset;
      const known = kind === BASELINES || Array.from(left).some((name) => name === row || name.split(" ")[0] === row);
      tell(mark, !(known && fitsLevel(own)));
    }
    for (const line of document.querySelectorAll("tr[data-standing]")) {
      const { standing, epsilon: own, kind } = line.dataset;
      tell(line, kind !== BASELINES && !(left.has(standing) && (!epsilon || own === epsilon || own === "0")));
    }
    const tasks = new Set(rows.filter(({ element }) => !element.hidden).map(({ values }) => values.task));
    for (const ranking of document.querySelectorAll(".ranking")) tell(ranking, !ranking.dataset.tasks.split(" ").some((task) => tasks.has(task)));
    for (const figure of document.querySelectorAll("figure")) {
      const { task, epsilon: own } = figure.dataset;
      tell(figure, (task !== undefined && !tasks.has(task)) || (epsilon && own !== undefined && own !== epsilon));
    }
    for (const answer of document.querySelectorAll(".answer tr[data-tasks]")) {
      tell(answer, !answer.dataset.tasks.split(" ").some((task) => tasks.has(task)));
    }
    for (const level of document.querySelectorAll(".answer > [data-level]")) {
      tell(level, Boolean(epsilon) && level.dataset.level !== epsilon);
      if (epsilon && level.tagName === "DETAILS") level.open = level.dataset.level === epsilon;
    }
  };

  const apply = () => {
    const wanted = fields.map((field) => [field.dataset.filter, field.value.trim()]).filter(([, value]) => value);
    let count = 0;
    for (const { element, values } of rows) {
      element.hidden = !shown(values, wanted);
      count += !element.hidden && values.kind !== BASELINES;
    }
    for (const section of document.querySelectorAll("section.task")) {
      const own = rows.filter(({ element, values }) => values.kind !== BASELINES && section.contains(element));
      if (own.length && own.every(({ element }) => element.hidden)) {
        for (const { element } of rows) if (section.contains(element)) element.hidden = true;
      }
    }
    for (const part of document.querySelectorAll("section.task, section.group")) part.hidden = !holds(part);
    for (const table of document.querySelectorAll("table.rows")) table.parentNode.hidden = !holds(table);
    parts(wanted);
    const every = rows.filter(({ values }) => values.kind !== BASELINES).length;
    const text = `${count} of ${every} ${every === 1 ? "row" : "rows"}`;
    document.getElementById("shown").textContent = text + (count ? ", plus the reference baselines" : ": no row fits all filters");
    return new URLSearchParams(wanted).toString();
  };
  const change = () => history.replaceState(null, "", `#${apply()}`);
  const read = () => {
    if (location.hash.length > 1 && !location.hash.includes("=")) return; // the address of a part of the page
    const state = new URLSearchParams(location.hash.slice(1));
    for (const field of fields) {
      field.value = state.get(field.dataset.filter) ?? "";
      if (field.selectedIndex === -1) field.value = ""; // a value that is not here
    }
    apply();
  };

  for (const field of fields) field.addEventListener(field.tagName === "SELECT" ? "change" : "input", change);
  document.getElementById("reset").addEventListener("click", () => {
    for (const field of fields) field.value = "";
    change();
  });
  window.addEventListener("hashchange", read);
  apply();
  read();
});
