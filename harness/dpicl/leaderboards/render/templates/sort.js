// Sorting: a click on a column's head sorts by it, the best score first; a second click turns the order. Empty cells stay at the end.
{
  const valueOf = (cell) => {
    const given = cell.dataset.value;
    if (given === undefined) return cell.textContent.trim().toLowerCase();
    if (given === "") return null;
    return given === "inf" ? Infinity : Number(given);
  };
  const sortBy = (header) => {
    const body = header.closest("table").tBodies[0];
    const column = Array.from(header.parentNode.children).indexOf(header);
    const now = header.getAttribute("aria-sort");
    const rising = now === null ? header.dataset.best !== "high" : now === "descending";
    const keyed = Array.from(body.rows, (row) => [row.classList.contains("absent") ? null : valueOf(row.cells[column]), row]);
    keyed.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return (a < b ? -1 : a > b ? 1 : 0) * (rising ? 1 : -1);
    });
    body.append(...keyed.map(([, row]) => row));
    for (const other of header.parentNode.children) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", rising ? "ascending" : "descending");
  };
  document.addEventListener("DOMContentLoaded", () => {
    for (const button of document.querySelectorAll("table.sortable thead button")) {
      button.addEventListener("click", () => sortBy(button.closest("th")));
    }
  });
}
