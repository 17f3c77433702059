"use strict";
// Tables that sort, filter, open and download; charts that show values, zoom and download; a
// switch of light and dark; terms that explain themselves. Without scripts the page has the same
// text and tables.
const root = document.documentElement;
root.classList.add("scripted");

const textOf = (cell) => cell.dataset.value ?? cell.textContent.trim();

// The number that a text begins with, as in "1,204", "-0.67 ± 0.03", "below 1 %" or "3 million";
// NaN where it begins with none.
const leading = (text) => {
  const number = /^(none\b|about |below |above |< |> )?([+-]?(?:\d[\d,]*)?\.?\d+(?:e[+-]?\d+)?)?(?: ([mb]illion))?/i;
  const [, before, digits, unit] = number.exec(text);
  if (before === "none") return 0;
  const value = parseFloat((digits ?? "").replaceAll(",", "")) * ({ million: 1e6, billion: 1e9 }[unit] ?? 1);
  const beyond = { "below ": -1, "< ": -1, "above ": 1, "> ": 1 }[before] ?? 0;
  return value + beyond * 1e-9 * Math.abs(value);
};

function compare(a, b) {
  if ((a === "") !== (b === "")) return a === "" ? 1 : -1;
  const x = leading(a), y = leading(b);
  if (!Number.isNaN(x) && !Number.isNaN(y) && x !== y) return x - y;
  return a.localeCompare(b, undefined, { numeric: true });
}

// The row below a row that opens on a click; that of an only row is open.
const details = new Map();

function openable(row, _, rows) {
  const detail = row.nextElementSibling;
  if (!detail?.classList.contains("detail")) return;
  details.set(row, detail);
  detail.classList.toggle("open", rows.length === 1);
  const button = document.createElement("button");
  button.type = "button";
  button.className = "open-row";
  button.ariaExpanded = String(detail.classList.contains("open"));
  button.append(...row.cells[0].childNodes);
  row.cells[0].append(button);
  button.addEventListener("click", () => {
    button.ariaExpanded = String(detail.classList.toggle("open"));
    detail.querySelectorAll("figure[data-name]").forEach((figure) => drawn.has(figure) || draw(figure));
  });
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
      table.tBodies[0].append(...sorted.flatMap((row) => (details.has(row) ? [row, details.get(row)] : [row])));
    });
  });
}

// What a row says with what opens below it, without the data of its charts.
function words(row) {
  const opened = details.get(row)?.cloneNode(true);
  opened?.querySelectorAll("script").forEach((data) => data.remove());
  return (row.textContent + (opened?.textContent ?? "")).toLowerCase();
}

function filterable(rows, tools) {
  const input = document.createElement("input");
  const count = document.createElement("span");
  const said = new Map(rows.map((row) => [row, words(row)]));
  input.type = "search";
  input.placeholder = "search rows";
  input.ariaLabel = "search the rows of this table";
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    let shown = 0;
    for (const row of rows) {
      const detail = details.get(row);
      row.hidden = !said.get(row).includes(wanted);
      if (detail) detail.hidden = row.hidden;
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
  const lines = [...table.rows].filter((row) => !row.hidden && !row.classList.contains("detail"))
    .map((row) => [...row.cells].map((cell) => quoted(plain(textOf(cell)))).join(","));
  return lines.join("\r\n") + "\r\n";
}

// Probabilities and shares have a bar behind them, as long as the number.
function barred(table, rows) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    if (!/probability|share|^(first|second)$/i.test(head.textContent.trim())) return;
    const cells = rows.map((row) => row.cells[column]);
    if (!cells.every((cell) => Number(cell.dataset.value ?? NaN) >= 0 && cell.dataset.value <= 1)) return;
    for (const cell of cells) {
      const end = `${(100 * cell.dataset.value).toFixed(1)}%`;
      cell.style.backgroundImage =
        `linear-gradient(90deg, color-mix(in srgb, var(--accent) 18%, transparent) ${end}, transparent ${end})`;
    }
  });
}

// On a narrow screen each row of a table that is cut or squeezed becomes a card: all its cells, with
// the headings of their columns. On a wider one a table that is cut says so, below its caption.
function fitted(table, rows) {
  const place = table.parentElement, caption = table.caption;
  const heads = [...table.tHead.rows[0].cells].map((head) => head.textContent.trim());
  rows.forEach((row) => [...row.cells].forEach((cell, column) => { // what is no number names its row
    if (column || !Number.isNaN(leading(cell.textContent.trim()))) cell.dataset.head = heads[column];
  }));
  const swipe = document.createElement(caption ? "div" : "p");
  swipe.className = "how swipe";
  swipe.textContent = "swipe for more columns";
  swipe.hidden = true;
  if (caption) caption.append(swipe);
  else place.before(swipe);
  const isCut = () => place.scrollWidth > place.clientWidth + 1;
  const isTall = () => rows.some((row) => row.cells.length > 2 && row.offsetHeight > 140);
  new ResizeObserver(() => { // on a wide screen cells that are a bit too long have two lines
    place.classList.remove("tight", "cards");
    place.classList.toggle("cards", place.clientWidth < 500 && (isCut() || isTall()));
    place.classList.toggle("tight", isCut());
    swipe.hidden = !isCut();
    isLong();
  }).observe(place);
  const isLong = () =>
    place.classList.toggle("more", place.scrollHeight - place.scrollTop > place.clientHeight + 2);
  place.addEventListener("scroll", isLong);
}

for (const table of document.querySelectorAll("table[data-name]")) {
  const rows = [...table.tBodies[0].rows].filter((row) => !row.classList.contains("detail"));
  barred(table, rows);
  fitted(table, rows);
  rows.forEach(openable);
  if (rows.length < 2) continue;
  sortable(table, rows);
  if (rows.length <= 8) continue;
  const tools = document.createElement("div");
  tools.className = "tools";
  filterable(rows, tools);
  if (ALONE) tools.append(toolButton("download CSV", () =>
    download(asCsv(table), "text/csv", table.dataset.name)));
  table.parentElement.before(tools);
}

// Light or dark: as the system has it until the reader switches. Where a page may not store
// anything (within another page) the choice lasts as long as the page.
const system = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

function stored(value) {
  try {
    if (value) localStorage.setItem("vbflows-theme", value);
    return localStorage.getItem("vbflows-theme");
  } catch {
    return null;
  }
}

const chosen = stored();
if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;
const switcher = toolButton("", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  stored(root.dataset.theme);
  repaint();
});
switcher.className = "theme";
document.querySelector(".kicker").append(switcher);
const named = () => (switcher.textContent = isDark() ? "light mode" : "dark mode");
named();

// The contents are folded on a narrow screen, and mark the part that is being read.
const contents = document.querySelector("nav details");
contents.open = matchMedia("(min-width: 64rem)").matches;
const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    links.forEach((link) => link.removeAttribute("aria-current"));
    links.get(entry.target.id)?.setAttribute("aria-current", "true");
  }
}, { rootMargin: "0px 0px -75% 0px" });
document.querySelectorAll("main > section").forEach((section) => seen.observe(section));

// An option such as --set does not break after its dashes.
for (const place of document.querySelectorAll("p, li, td, code")) {
  for (const node of [...place.childNodes]) {
    if (node.nodeType !== Node.TEXT_NODE) continue;
    const parts = node.data.split(/(?<![\w-])(--[a-z][\w-]*)/).map((text, number) => {
      if (number % 2 === 0) return text;
      const option = document.createElement("span");
      option.className = "option";
      option.textContent = text;
      return option;
    });
    if (parts.length > 1) node.replaceWith(...parts);
  }
}

// The first use of a term in each part gets its meaning.
const terms = [...document.querySelectorAll(".terms dt")];
const box = document.createElement("div");
box.id = "meaning";
box.role = "tooltip";
box.hidden = true;
document.body.append(box);

function explain(node, used) {
  const found = anyTerm.exec(node.data);
  if (!found) return;
  const number = found.slice(1).findIndex((group) => group !== undefined);
  const rest = node.splitText(found.index);
  const after = rest.splitText(found[0].length);
  if (!used.has(number)) {
    used.add(number);
    const abbr = document.createElement("abbr");
    abbr.tabIndex = 0;
    abbr.setAttribute("aria-describedby", "meaning");
    rest.replaceWith(abbr);
    abbr.append(rest);
    const meaning = terms[number].nextElementSibling.textContent;
    for (const event of ["pointerenter", "focus", "click"]) {
      abbr.addEventListener(event, () => {
        box.textContent = meaning;
        box.hidden = false;
        const place = abbr.getBoundingClientRect();
        const below = place.bottom + 8 + box.offsetHeight < innerHeight;
        box.style.left = `${Math.max(16, Math.min(place.left, innerWidth - box.offsetWidth - 16))}px`;
        box.style.top = `${below ? place.bottom + 8 : place.top - box.offsetHeight - 8}px`;
      });
    }
    for (const event of ["pointerleave", "blur"]) abbr.addEventListener(event, () => (box.hidden = true));
  }
  explain(after, used);
}

const anyTerm = new RegExp(terms.map((term) => `(${term.dataset.pattern})`).join("|") || "$^", "i");
for (const part of document.querySelectorAll("header, .tiles, main > section:not(#terms, #next)")) {
  const used = new Set();
  for (const place of part.querySelectorAll("h1, p, caption, th, figcaption, .tiles dt, .tiles dd + dd")) {
    const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
    const nodes = [];
    while (walker.nextNode()) nodes.push(walker.currentNode);
    nodes.forEach((node) => explain(node, used));
  }
}

// A chart takes the page's colours, and is drawn again when they change; the numbers of bars are
// upright where there is room.
const theme = (width) => {
  const page = getComputedStyle(document.documentElement);
  const [ink, soft, line, accent] =
    ["--ink", "--soft", "--line", "--accent"].map((name) => page.getPropertyValue(name));
  const narrow = document.body.clientWidth < 500;
  const ticks = narrow ? 3 : 8;
  return {
    background: "transparent",
    font: getComputedStyle(document.body).fontFamily,
    view: { stroke: null },
    axis: {
      labelColor: ink, titleColor: soft, gridColor: line, domainColor: soft, tickColor: soft,
      labelFontSize: narrow ? 11 : 12, titleFontSize: 12, titleFontWeight: "normal", labelLimit: narrow ? 150 : 220,
    },
    axisXQuantitative: { tickCount: ticks, labelOverlap: "greedy", labelSeparation: 6 }, axisXTemporal: { tickCount: ticks },
    legend: { labelColor: ink, titleColor: ink, labelFontSize: 12, ...(narrow && { columns: 1 }) },
    range: { category: [accent, soft, line] },
    bar: { color: accent }, rect: { stroke: line, strokeWidth: 0.5 },
    line: { color: accent, strokeWidth: 1.6 }, rule: { color: accent },
    point: { color: accent, filled: true, size: 40, opacity: 1 },
    style: { ink: { color: soft, strokeWidth: 0.8 }, band: { color: accent, opacity: 0.2 },
             near: { color: accent, size: 60 },
             number: { color: ink, fontSize: narrow ? 10 : 11,
                       ...(width < 700 ? { angle: 270, align: "left", dx: 3 } : { dy: -7 }) } },
  };
};

const drawn = new Map();

async function draw(figure) {
  const place = drawn.get(figure)?.place ?? figure.appendChild(document.createElement("div"));
  drawn.get(figure)?.view?.finalize();
  drawn.set(figure, { place });
  const spec = JSON.parse(figure.querySelector("script").textContent);
  const { view } = await vegaEmbed(place, spec, {
    ast: true, renderer: "svg", config: theme(figure.clientWidth), downloadFileName: figure.dataset.name,
    tooltip: { theme: isDark() ? "dark" : "light" },
    actions: ALONE && { export: true, source: false, compiled: false, editor: false },
  });
  drawn.set(figure, { place, view });
  if (figure.querySelector(".zoom") || !spec.layer?.some((one) => one.params?.some((by) => by.name === "zoom"))) return;
  const hint = document.createElement("span");
  hint.className = "zoom";
  hint.textContent = "drag to move; Shift and the wheel zoom; a double click resets";
  figure.append(hint);
}

function repaint() {
  named();
  drawn.forEach((_, figure) => draw(figure));
}

const folds = [...document.querySelectorAll("details.fold")];
for (const fold of folds) {
  fold.addEventListener("toggle", () => fold.querySelectorAll("figure[data-name]").forEach((figure) => drawn.has(figure) || draw(figure)));
}
document.querySelectorAll("figure[data-name]").forEach((figure) => figure.closest(".detail:not(.open), .fold") || draw(figure));
system.addEventListener("change", repaint);
