// Filters: a row is shown when it fits all of them. Their state is the address's hash, so that a view can be shared.
document.addEventListener("DOMContentLoaded", () => {
  const bar = document.getElementById("filters");
  if (!bar) return;
  const fields = Array.from(bar.querySelectorAll("[data-filter]"));
  const rows = Array.from(document.querySelectorAll("tr[data-row]"), (element) => ({
    element,
    values: {
      ...element.closest("section.task").dataset,
      ...element.dataset,
      model: element.closest("section.group").dataset.model,
    },
  }));
  const fits = (values, name, wanted) =>
    name === "search" ? values.row.toLowerCase().includes(wanted.toLowerCase()) : values[name] === wanted;
  const holds = (element) => element.querySelector("tr[data-row]:not([hidden])") !== null;

  const apply = () => {
    const wanted = fields.map((field) => [field.dataset.filter, field.value.trim()]).filter(([, value]) => value);
    let shown = 0;
    for (const { element, values } of rows) {
      element.hidden = !wanted.every(([name, value]) => fits(values, name, value));
      shown += !element.hidden;
    }
    for (const part of document.querySelectorAll("section.task, section.group")) part.hidden = !holds(part);
    for (const table of document.querySelectorAll("table.rows")) table.parentNode.hidden = !holds(table);
    for (const group of document.querySelectorAll("section.group")) {
      const tasks = new Set(Array.from(group.querySelectorAll("section.task:not([hidden])"), (task) => task.dataset.task));
      for (const figure of group.querySelectorAll("figure[data-task]")) figure.hidden = !tasks.has(figure.dataset.task);
    }
    const text = `${shown} of ${rows.length} rows shown`;
    document.getElementById("shown").textContent = shown ? text : `${text}: no row fits all filters`;
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
