// Choosing two rows: the third takes the place of the first. The link leads to the page that compares them.
document.addEventListener("DOMContentLoaded", () => {
  const bar = document.getElementById("chosen");
  const boxes = Array.from(document.querySelectorAll("[data-choose]"));
  let chosen = boxes.filter((box) => box.checked).slice(0, 2); // a browser may remember them
  const name = (box) => box.getAttribute("aria-label").replace(/^Compare /, "");
  const show = () => {
    for (const box of boxes) box.checked = chosen.includes(box);
    bar.hidden = chosen.length === 0;
    const one = chosen.map(name).join(" and ");
    bar.querySelector("p").textContent = chosen.length < 2 ? `${one}: choose another row` : one;
    const state = new URLSearchParams(chosen.map((box, i) => ["ab"[i], box.dataset.choose]));
    const [from, to] = chosen;
    const together = to && from.dataset.level && from.dataset.level === to.dataset.level;
    bar.querySelector("a").href = together ? `rows/${from.dataset.choose}.html#with=${to.dataset.choose}` : `compare.html#${state}`;
  };
  for (const box of boxes) {
    box.addEventListener("change", () => {
      chosen = box.checked ? [...chosen, box].slice(-2) : chosen.filter((other) => other !== box);
      show();
    });
  }
  bar.querySelector("button").addEventListener("click", () => {
    chosen = [];
    show();
  });
  show();
});
