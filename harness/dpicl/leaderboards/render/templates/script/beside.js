// A row beside another one: #with=ROW puts what is known of this pair above the table, and marks its line.
document.addEventListener("DOMContentLoaded", () => {
  const verdict = document.getElementById("verdict");
  if (!verdict) return;
  const lines = Array.from(document.querySelectorAll("tr[data-id]"));
  const show = () => {
    const wanted = new URLSearchParams(location.hash.slice(1)).get("with");
    let chosen = null;
    for (const line of lines) {
      line.toggleAttribute("aria-current", line.dataset.id === wanted);
      if (line.dataset.id === wanted) chosen = line;
    }
    verdict.textContent = chosen ? `${chosen.dataset.says}.` : "";
    if (chosen) verdict.scrollIntoView({ block: "center" });
  };
  window.addEventListener("hashchange", show);
  show();
});
