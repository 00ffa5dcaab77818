// @ts-check
// Before the first paint: the theme that was chosen. A classic script, so that no page flashes.
try {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* a browser may keep nothing */ }
