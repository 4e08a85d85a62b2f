"use strict";
// Without this script the page is complete; it adds hover, sorting, filters and complete prints.
(() => {
  const tip = document.getElementById("tip");
  const all = (query, root = document) => [...root.querySelectorAll(query)];

  // the same feature everywhere on the page
  const byFeature = new Map();
  for (const part of all("[data-f]"))
    for (const key of part.dataset.f.split(" "))
      byFeature.set(key, [...(byFeature.get(key) || []), part]);
  let hot = [];
  const heat = (keys) => {
    hot.forEach((part) => part.classList.remove("hot"));
    hot = keys.flatMap((key) => byFeature.get(key) || []);
    hot.forEach((part) => part.classList.add("hot"));
  };

  const show = (words, event) => {
    tip.textContent = words;
    tip.hidden = false;
    const room = 14, box = tip.getBoundingClientRect();
    const right = event.clientX + room + box.width > innerWidth;
    const x = right ? event.clientX - room - box.width : event.clientX + room;
    const below = event.clientY + room + box.height > innerHeight;
    const y = below ? event.clientY - room - box.height : event.clientY + room;
    tip.style.left = `${Math.max(4, x)}px`;
    tip.style.top = `${Math.max(4, y)}px`;
  };
  const hide = () => { tip.hidden = true; heat([]); };

  const matrices = new Map();
  const matrixWords = (part, event) => {
    if (!matrices.has(part)) matrices.set(part, JSON.parse(part.dataset.names));
    const names = matrices.get(part), n = names.length, box = part.getBoundingClientRect();
    const at = (share) => Math.min(n - 1, Math.max(0, Math.floor(share * n)));
    const row = at((event.clientY - box.top) / box.height);
    const column = at((event.clientX - box.left) / box.width);
    const start = 2 * (row * n + column);
    const value = Number(part.dataset.values.slice(start, start + 2)) / 100;
    if (row === column) return names[row];
    return `${names[row]}\n${names[column]}\n${part.dataset.unit} ${value.toFixed(2)}`;
  };

  document.addEventListener("pointermove", (event) => {
    const target = event.target instanceof Element ? event.target : null;
    const matrix = target && target.closest(".matrix");
    if (matrix) return show(matrixWords(matrix, event), event);
    const part = target && target.closest("[data-f], [data-tip]");
    if (!part) return hide();
    heat((part.dataset.f || "").split(" ").filter(Boolean));
    if (part.dataset.tip) show(part.dataset.tip, event); else tip.hidden = true;
  });
  document.addEventListener("pointerleave", hide);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  document.addEventListener("scroll", hide, { passive: true });

  // sorting by the head of a column
  const valueOf = (cell) => cell.dataset.o === undefined ? cell.textContent : Number(cell.dataset.o);
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") {
      if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
      return a - b;
    }
    return String(a).localeCompare(String(b), undefined, { numeric: true });
  };
  for (const table of all("table")) {
    const body = table.tBodies[0], heads = all("thead th", table);
    if (body.rows.length < 2) continue;
    heads.forEach((head, column) => {
      if (!head.textContent) return;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        heads.forEach((each) => each.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up === 1 ? "ascending" : "descending");
        const rows = [...body.rows].map((row) => [valueOf(row.cells[column]), row]);
        rows.sort((a, b) => {
          const empty = Number(Number.isNaN(a[0])) - Number(Number.isNaN(b[0]));
          return empty || up * compare(a[0], b[0]);
        });
        body.append(...rows.map((pair) => pair[1]));
      });
    });
    if (!table.classList.contains("long")) continue;
    const label = document.createElement("label"), field = document.createElement("input");
    const count = document.createElement("span");
    label.className = "filter";
    field.type = "search";
    count.setAttribute("role", "status");
    label.append("Filter rows:", field);
    const box = document.createElement("div");
    box.append(label, count);
    count.className = "filter";
    table.parentElement.before(box);
    const rows = [...body.rows].map((row) => [row.textContent.toLowerCase(), row]);
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase();
      let shown = 0;
      for (const [text, row] of rows) {
        row.hidden = !text.includes(words);
        shown += !row.hidden;
      }
      count.textContent = words ? `${shown} of ${rows.length} rows` : "";
    });
  }

  // a print shows everything
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = all("details:not([open])");
    closed.forEach((part) => { part.open = true; });
  });
  addEventListener("afterprint", () => closed.forEach((part) => { part.open = false; }));
})();
