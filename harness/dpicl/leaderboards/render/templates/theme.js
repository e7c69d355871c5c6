// Light or dark: as the reader's system says, until the button says otherwise. Remembered where the browser allows it.
{
  const root = document.documentElement;
  root.classList.add("js");
  const remembered = () => {
    try { return localStorage.getItem("theme"); } catch { return null; } // storage may be forbidden, on file:// for one
  };
  const remember = (theme) => {
    try { localStorage.setItem("theme", theme); } catch { return; } // the choice then holds for this page alone
  };
  const stored = remembered();
  if (stored === "dark" || stored === "light") root.dataset.theme = stored;
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const system = matchMedia("(prefers-color-scheme: dark)");
    const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
    const show = () => {
      button.textContent = isDark() ? "Light" : "Dark"; // what a click gives
      button.title = `Show the page ${isDark() ? "light" : "dark"}`;
    };
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      remember(root.dataset.theme);
      show();
    });
    system.addEventListener("change", show);
    show();
  });
}
