// Two rows side by side. What is compared is in the address's hash: #a=ROW&b=ROW. Texts become text nodes, never tags.
document.addEventListener("DOMContentLoaded", () => {
  const { rows, names } = JSON.parse(document.getElementById("data").textContent);
  const named = ([place, ...values]) => Object.fromEntries(names[place].map((name, i) => [name, values[i]]));
  const selects = ["a", "b"].map((id) => document.getElementById(id));
  selects[1].append(...Array.from(selects[0].querySelectorAll("optgroup"), (group) => group.cloneNode(true)));
  const position = (select) => rows.findIndex((row) => row.id === select.value);

  const element = (tag, properties, ...content) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...content);
    return made;
  };
  const line = (texts, differs) => {
    const cells = texts.map((text, i) => (i ? element("td", {}, text) : element("th", { scope: "row" }, text)));
    return element("tr", differs ? { className: "differs" } : {}, ...cells);
  };
  const head = (first, pair) => {
    const links = pair.map((row) => element("a", { href: row.page }, `${row.title}, ${row.task}`));
    const columns = [first, ...links].map((name) => element("th", { scope: "col" }, name));
    return element("thead", {}, element("tr", {}, ...columns));
  };
  const fill = (id, first, pair, lines, none) => {
    const body = element("tbody", {}, ...(lines.length ? lines : [line([none, "", ""])]));
    document.getElementById(id).replaceChildren(head(first, pair), body);
  };
  const together = (a, b) => Array.from(new Set([...Object.keys(a), ...Object.keys(b)]), (name) => [name, a[name] ?? "–", b[name] ?? "–"]);

  const sure = document.getElementById("sure");
  const verdict = (i, j) => {
    const [a, b] = [rows[i], rows[j]];
    sure.hidden = true;
    if (i === j) return "This is one row twice.";
    if (a.section !== b.section) return `Not compared: the rows are of different sections (${a.where}; ${b.where}).`;
    if (a.task !== b.task) return `Not compared: the rows are of different tasks (${a.task}, ${b.task}).`;
    if (a.level && b.level && a.level !== b.level) return `At different ε: dpicl compare ${a.name} ${b.name} --task ${a.task} says how sure the difference is.`;
    const [from, to] = a.level ? [a, b] : [b, a]; // the page of a row at an ε has what stands at no ε as well
    sure.hidden = false;
    sure.href = from.page.includes("#") ? from.page : `${from.page}#with=${encodeURIComponent(to.id)}`;
    return `${a.title} scores ${a.score}, ${b.title} ${b.score}.`;
  };
  const show = () => {
    const [i, j] = selects.map(position);
    const ready = i >= 0 && j >= 0;
    document.getElementById("tables").hidden = !ready;
    sure.hidden = true;
    document.getElementById("verdict").textContent = ready ? verdict(i, j) : "Choose two rows.";
    if (!ready) return;
    const [a, b] = [rows[i], rows[j]];
    const numbers = together(named(a.numbers), named(b.numbers)).map((texts) => line(texts, texts[1] !== texts[2]));
    const settings = together(named(a.settings), named(b.settings)).filter(([, x, y]) => x !== y).map((texts) => line(texts, false));
    fill("numbers", "number", [a, b], numbers, "");
    fill("settings", "setting", [a, b], settings, "none");
  };
  const change = () => {
    const state = new URLSearchParams(selects.filter((select) => select.value).map((select) => [select.id, select.value]));
    history.replaceState(null, "", `#${state}`);
    show();
  };
  const read = () => {
    const state = new URLSearchParams(location.hash.slice(1));
    for (const select of selects) {
      select.value = state.get(select.id) ?? "";
      if (select.selectedIndex === -1) select.value = "";
    }
    show();
  };
  for (const select of selects) select.addEventListener("change", change);
  document.getElementById("swap").addEventListener("click", () => {
    [selects[0].value, selects[1].value] = [selects[1].value, selects[0].value];
    change();
  });
  window.addEventListener("hashchange", read);
  read();
});
