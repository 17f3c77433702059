"use strict";
// Tables that sort, filter and download; charts that show values, zoom and download. Without
// scripts the page has the same text and tables.
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
    const wanted = input.value.toLowerCase();
    let shown = 0;
    for (const row of rows) {
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = wanted ? `${shown} of ${rows.length}` : "";
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

// A chart takes the page's colours, and is drawn again when they change.
const theme = () => {
  const page = getComputedStyle(document.documentElement);
  const [ink, soft, line, accent] =
    ["--ink", "--soft", "--line", "--accent"].map((name) => page.getPropertyValue(name));
  return {
    background: "transparent",
    font: getComputedStyle(document.body).fontFamily,
    view: { stroke: null },
    axis: {
      labelColor: ink, titleColor: soft, gridColor: line, domainColor: soft, tickColor: soft,
      labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal", labelLimit: Math.min(220, document.body.clientWidth / 3.5),
    },
    axisXQuantitative: { tickCount: 8 },
    legend: { labelColor: ink, titleColor: ink, labelFontSize: 12 },
    range: { category: [accent, soft] },
    bar: { color: accent }, rect: { stroke: line, strokeWidth: 0.5 },
    line: { color: accent, strokeWidth: 1.6 }, rule: { color: accent },
    point: { color: accent, filled: true, size: 40, opacity: 1 },
    style: { ink: { color: soft, strokeWidth: 0.8 }, band: { color: accent, opacity: 0.2 },
             near: { color: accent, size: 60 } },
  };
};

const drawn = new Map();

async function draw(figure) {
  const place = drawn.get(figure)?.place ?? figure.appendChild(document.createElement("div"));
  drawn.get(figure)?.view.finalize();
  const spec = JSON.parse(figure.querySelector("script").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const { view } = await vegaEmbed(place, spec, {
    ast: true, renderer: "svg", config: theme(), downloadFileName: figure.dataset.name,
    tooltip: { theme: dark ? "dark" : "light" },
    actions: ALONE && { export: true, source: false, compiled: false, editor: false },
  });
  drawn.set(figure, { place, view });
}

const figures = document.querySelectorAll("figure[data-name]");
figures.forEach(draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => figures.forEach(draw));
