"use strict";
// Sorting by a click on a column head, filtering by text; tables that are wider than the screen say so. Nothing leaves the page.
const wider = () => {
  for (const box of document.querySelectorAll(".table")) {
    const inside = box.querySelector(".scroll");
    box.classList.toggle("wider", inside.scrollWidth > inside.clientWidth + 1);
  }
};
wider();
window.addEventListener("resize", wider);
document.querySelectorAll("details").forEach((box) => box.addEventListener("toggle", wider));
for (const box of document.querySelectorAll(".table")) {
  const body = box.querySelector("tbody");
  const heads = Array.from(box.querySelectorAll("th"));
  const value = (row, k) => {
    const cell = row.cells[k];
    return cell.dataset.value === undefined ? cell.textContent : cell.dataset.value === "" ? NaN : Number(cell.dataset.value);
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") {
      return Number.isNaN(a) ? 1 : Number.isNaN(b) ? -1 : a - b;
    }
    return String(a).localeCompare(String(b));
  };
  heads.forEach((head, k) => head.querySelector("button").addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    heads.forEach((h) => h.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = Array.from(body.rows);
    rows.sort((a, b) => (down ? -1 : 1) * compare(value(a, k), value(b, k)));
    body.append(...rows);
  }));
  const search = box.querySelector("input[type=search]");
  if (search) {
    search.addEventListener("input", () => {
      const wanted = search.value.toLowerCase();
      for (const row of body.rows) { row.hidden = !row.textContent.toLowerCase().includes(wanted); }
    });
  }
}
