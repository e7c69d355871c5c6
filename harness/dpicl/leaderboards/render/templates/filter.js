// Filters: a line of a table, a chart or a part is shown when it fits all of them; what does not know a filter always
// stays, and so do reference baselines. Filters for tasks hide columns too. The state is the address's hash, so that a view can be shared.
document.addEventListener("DOMContentLoaded", () => {
  const bar = document.getElementById("filters");
  if (!bar) return;
  const fields = Array.from(bar.querySelectorAll("[data-filter]"));
  const whole = ["task", "model"]; // what a baseline must fit too
  const ends = new Set(["0", "∞"]);
  const fits = (data, name, wanted) => {
    if (data[name] === undefined) return true;
    if (data.kind === "reference baselines" && !whole.includes(name)) return true;
    const label = name === "row" && wanted.match(/^"(.*)"$/); // in quotation marks: the whole name
    if (label) return data.row.startsWith(`${label[1]} `);
    if (name === "row") return data.row.toLowerCase().includes(wanted.toLowerCase());
    return data[name] === wanted || (name === "epsilon" && ends.has(data.epsilon));
  };
  const apply = () => {
    const wanted = fields.map((field) => [field.dataset.filter, field.value.trim()]).filter(([, value]) => value);
    const shown = (data) => wanted.every(([name, value]) => fits(data, name, value));
    for (const one of document.querySelectorAll("main tr[data-row], main figure, main section[data-model]")) {
      if (one.contains(bar)) one.classList.toggle("out", !shown(one.dataset)); // the filters stay
      else one.toggleAttribute("hidden", !shown(one.dataset));
    }
    for (const head of document.querySelectorAll("main th[data-task]")) {
      const hidden = !shown(head.dataset);
      const column = head.cellIndex;
      for (const line of head.closest("table").rows) if (line.cells[column]) line.cells[column].hidden = hidden;
    }
    const lines = Array.from(document.querySelectorAll("main table.sortable tr[data-row]")).filter((line) => line.dataset.kind !== "reference baselines");
    const left = lines.filter((line) => line.offsetParent !== null);
    const named = (some) => new Set(some.map((line) => line.dataset.row)).size;
    const text = `${named(left)} of ${named(lines)} rows shown`;
    document.getElementById("shown").textContent = left.length ? text : `${text}: none fits all filters`;
    return new URLSearchParams(fields.filter((field) => field.value.trim() !== field.dataset.first).map((field) => [field.dataset.filter, field.value.trim()])).toString();
  };
  const change = () => history.replaceState(null, "", `#${apply()}`);
  const read = () => {
    if (location.hash.length > 1 && !location.hash.includes("=")) return; // the address of a part of the page
    const state = new URLSearchParams(location.hash.slice(1));
    for (const field of fields) {
      field.value = state.get(field.dataset.filter) ?? field.dataset.first;
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
  read();
  apply();
});
