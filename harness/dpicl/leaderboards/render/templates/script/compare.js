// Two rows side by side. What is compared is in the address's hash: #a=ROW&b=ROW. Texts become text nodes, never tags.
document.addEventListener("DOMContentLoaded", () => {
  const { places, names } = JSON.parse(document.getElementById("data").textContent);
  const named = ([place, ...values]) => Object.fromEntries(names[place].map((name, i) => [name, values[i]]));
  const selects = ["a", "b"].map((id) => document.getElementById(id));
  selects[1].append(...Array.from(selects[0].querySelectorAll("optgroup"), (group) => group.cloneNode(true)));

  // The numbers of a row are on its page, which says them from a frame: a file:// page may read no other file.
  const pages = new Map();
  const rowsOf = (address) => new Promise((resolve) => {
    const frame = Object.assign(document.createElement("iframe"), { hidden: true, src: address });
    frame.setAttribute("sandbox", "allow-scripts");
    const done = (rows) => {
      window.removeEventListener("message", hear);
      frame.remove();
      resolve(rows);
    };
    const hear = ({ source, data }) => {
      if (source === frame.contentWindow && data?.rows) done(data.rows); // extensions of browsers speak there as well
    };
    window.addEventListener("message", hear);
    frame.addEventListener("load", () => setTimeout(done, 2000, {})); // a page that is not there says nothing
    document.body.append(frame);
  });
  const load = async (select) => {
    const [option] = select.selectedOptions;
    const [address] = option.dataset.page.split("#");
    if (!pages.has(address)) pages.set(address, rowsOf(address));
    const row = (await pages.get(address))[option.value];
    if (!row) pages.delete(address);
    return row && { ...row, id: option.value, page: option.dataset.page };
  };

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
  const verdict = (a, b) => {
    if (a.id === b.id) return "This is one row twice.";
    if (a.section !== b.section) return `Not compared: the rows are of different sections (${places[a.section]}; ${places[b.section]}).`;
    if (a.task !== b.task) return `Not compared: the rows are of different tasks (${a.task}, ${b.task}).`;
    if (a.level && b.level && a.level !== b.level) return `At different ε: dpicl compare ${a.name} ${b.name} --task ${a.task} says how sure the difference is.`;
    const [from, to] = a.level ? [a, b] : [b, a]; // the page of a row at an ε has what stands at no ε as well
    sure.hidden = false;
    sure.href = from.page.includes("#") ? from.page : `${from.page}#with=${encodeURIComponent(to.id)}`;
    return `${a.title} scores ${a.score}, ${b.title} ${b.score}.`;
  };
  const say = (text) => { document.getElementById("verdict").textContent = text; };
  let turn = 0;
  const show = async () => {
    const mine = ++turn;
    sure.hidden = true;
    document.getElementById("tables").hidden = true;
    if (!selects.every((select) => select.value)) return say("Choose two rows.");
    say("Loading …");
    const [a, b] = await Promise.all(selects.map(load));
    if (mine !== turn) return; // other rows were chosen since
    if (!a || !b) return say("The page of a row cannot be read: write the site again with dpicl board --html.");
    say(verdict(a, b));
    const numbers = together(named(a.numbers), named(b.numbers)).map((texts) => line(texts, texts[1] !== texts[2]));
    const settings = together(named(a.settings), named(b.settings)).filter(([, x, y]) => x !== y).map((texts) => line(texts, false));
    fill("numbers", "number", [a, b], numbers, "");
    fill("settings", "setting", [a, b], settings, "none");
    document.getElementById("tables").hidden = false;
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
