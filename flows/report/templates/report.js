"use strict";
// Tables that sort, filter and download; pictures that say what is under the pointer. Without
// scripts the page reads the same.
const textOf = (cell) => cell.dataset.value ?? cell.textContent.trim();

// The number that a text begins with, as in "1,204" or "-0.67 ± 0.03"; NaN where it begins with none.
const leading = (text) =>
  parseFloat((/^[+-]?(\d[\d,]*)?\.?\d+(e[+-]?\d+)?/i.exec(text) ?? [""])[0].replaceAll(",", ""));

function compare(a, b) {
  if ((a === "") !== (b === "")) return a === "" ? 1 : -1;
  const x = leading(a), y = leading(b);
  if (!Number.isNaN(x) && !Number.isNaN(y) && x !== y) return x - y;
  return a.localeCompare(b, undefined, { numeric: true });
}

function sortable(table, rows) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const next = { none: "ascending", ascending: "descending", descending: "none" };
      const order = next[head.ariaSort ?? "none"];
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      const sorted = [...rows];
      if (order !== "none") {
        head.ariaSort = order;
        const sign = order === "ascending" ? 1 : -1;
        sorted.sort((a, b) => sign * compare(textOf(a.cells[column]), textOf(b.cells[column])));
      }
      table.tBodies[0].append(...sorted);
    });
  });
}

function filterable(rows, tools) {
  const input = document.createElement("input");
  const count = document.createElement("span");
  input.type = "search";
  input.placeholder = "filter rows";
  input.ariaLabel = "filter the rows of this table";
  input.addEventListener("input", () => {
    const asked = input.value.toLowerCase();
    let shown = 0;
    for (const row of rows) {
      row.hidden = !row.textContent.toLowerCase().includes(asked);
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = asked ? `${shown} of ${rows.length}` : "";
  });
  tools.append(input, count);
}

// Within another page the report is in a sandbox, where nothing can be downloaded.
const ALONE = self === top;

function download(content, type, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function toolButton(text, act) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = text;
  button.addEventListener("click", act);
  return button;
}

const NUMBER = /^[+-]?((\d[\d,]*)?\.?\d+(e[+-]?\d+)?|inf|nan)\s?%?$/i;
// A spreadsheet takes a cell that begins so for a formula; a number it may take.
const plain = (text) => (/^[=+\-@\t\r]/.test(text) && !NUMBER.test(text) ? `'${text}` : text);
const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

function asCsv(table) {
  const lines = [...table.rows].filter((row) => !row.hidden)
    .map((row) => [...row.cells].map((cell) => quoted(plain(textOf(cell)))).join(","));
  return lines.join("\r\n") + "\r\n";
}

// A picture by itself: the page's colours, which it takes by name, and its marks' words go with it.
function asSvg(picture) {
  const copy = picture.cloneNode(true);
  const page = getComputedStyle(document.documentElement);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("xmlns:xlink", "http://www.w3.org/1999/xlink");
  copy.style.color = getComputedStyle(picture).color;
  copy.style.background = page.getPropertyValue("--paper");
  copy.style.setProperty("--accent", page.getPropertyValue("--accent"));
  const marks = picture.querySelectorAll(".tip");
  copy.querySelectorAll(".tip").forEach((mark, k) => {
    const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
    title.textContent = words.get(marks[k]);
    mark.prepend(title);
  });
  return new XMLSerializer().serializeToString(copy);
}

for (const table of document.querySelectorAll("table[data-name]")) {
  const rows = [...table.tBodies[0].rows];
  if (rows.length < 2) continue;
  const tools = document.createElement("div");
  tools.className = "tools";
  sortable(table, rows);
  if (rows.length > 8) filterable(rows, tools);
  if (ALONE) tools.append(toolButton("download CSV", () =>
    download(asCsv(table), "text/csv", table.dataset.name)));
  table.parentElement.before(tools);
}

for (const figure of ALONE ? document.querySelectorAll("figure[data-name]") : []) {
  const tools = document.createElement("div");
  tools.className = "tools";
  tools.append(toolButton("download SVG", () =>
    download(asSvg(figure.querySelector("svg")), "image/svg+xml", figure.dataset.name)));
  figure.append(tools);
}

// The words of a mark stand at the pointer at once; a browser by itself waits for a second.
const bubble = document.createElement("div");
bubble.className = "bubble";
bubble.hidden = true;
document.body.append(bubble);
const words = new Map();
for (const mark of document.querySelectorAll("svg .tip")) {
  const title = mark.querySelector("title");
  words.set(mark, title.textContent);
  title.remove();
}
document.addEventListener("pointermove", (event) => {
  const mark = event.target.closest?.(".tip");
  bubble.hidden = !mark;
  if (!mark) return;
  bubble.textContent = words.get(mark);
  const room = document.documentElement.clientWidth - bubble.offsetWidth - 8;
  bubble.style.left = `${Math.max(4, Math.min(event.clientX + 12, room))}px`;
  bubble.style.top = `${Math.max(4, event.clientY - bubble.offsetHeight - 10)}px`;
});
