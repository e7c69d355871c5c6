
"use strict";
// Sorting: a click on a column's head sorts by it, a second click turns the order. Empty cells stay at the end.
function valueOf(cell) {
  const given = cell.dataset.value;
  if (given === undefined) return cell.textContent.trim().toLowerCase();
  if (given === "") return null;
  return given === "inf" ? Infinity : Number(given);
}
function sortBy(header) {
  const table = header.closest("table");
  const column = Array.from(header.parentNode.children).indexOf(header);
  const rising = header.getAttribute("aria-sort") !== "ascending";
  const body = table.tBodies[0];
  const keyed = Array.from(body.rows, (row) => [row.classList.contains("absent") ? null : valueOf(row.cells[column]), row]);
  keyed.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return (a < b ? -1 : a > b ? 1 : 0) * (rising ? 1 : -1);
  });
  body.append(...keyed.map(([, row]) => row));
  for (const other of header.parentNode.children) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", rising ? "ascending" : "descending");
}
for (const button of document.querySelectorAll("table.sortable thead button")) {
  button.addEventListener("click", () => sortBy(button.closest("th")));
}
// A link to a row opens it.
function openTarget() {
  const target = document.getElementById(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) {
    target.open = true;
    target.scrollIntoView();
  }
}
window.addEventListener("hashchange", openTarget);
openTarget();
