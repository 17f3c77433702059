"use strict";
// Documents that one searches: the text of one with its keyphrases marked, and a page for each
// keyphrase. Known and new ones differ by colour and by the line below them.
(() => {
const DOCUMENT_STYLE = `
.documents { display: grid; gap: .75rem 1.5rem; grid-template-columns: minmax(0, 1fr); margin: .75rem 0 1.5rem; }
@media (min-width: 56rem) { .documents { grid-template-columns: 17rem minmax(0, 1fr); } }
.documents input { font: inherit; width: 100%; color: var(--ink); background: var(--card); border: 1px solid var(--line); border-radius: .35rem; padding: .35rem .6rem; }
.documents .count { color: var(--soft); font-size: .82rem; margin: .35rem 0; }
.documents ul { list-style: none; margin: 0; padding: 0; overflow-y: auto; max-height: 12rem; border: 1px solid var(--line); border-radius: .35rem; background: var(--card); }
@media (min-width: 56rem) { .documents ul { max-height: 32rem; } }
.documents li button { display: flex; justify-content: space-between; gap: .75rem; width: 100%; font: inherit; font-size: .88rem; text-align: left; color: inherit; background: none; border: 0; border-bottom: 1px solid var(--line); padding: .3rem .6rem; cursor: pointer; }
.documents li:last-child button { border-bottom: 0; }
.documents li button > span:first-child { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.documents li button > span:last-child { white-space: nowrap; font-size: .8rem; font-variant-numeric: tabular-nums; }
.documents li button > span:last-child span { display: inline-block; min-width: 1.4em; padding: 0 .2em; text-align: center; }
.documents li button:hover, .documents li button[aria-current] { background: color-mix(in srgb, var(--accent) 14%, transparent); }
.documents article { min-width: 0; }
.documents h3 { font-size: 1rem; margin: 0 0 .5rem; overflow-wrap: anywhere; }
.documents .text { white-space: pre-wrap; overflow-wrap: anywhere; max-width: 46rem; max-height: 32rem; overflow-y: auto; }
.documents .legend { color: var(--soft); font-size: .82rem; margin: .5rem 0; }
.documents .chips { display: flex; flex-wrap: wrap; gap: .35rem; margin: .5rem 0 .75rem; max-width: 46rem; }
.documents .chips button { font: inherit; font-size: .85rem; color: var(--ink); border: 0; border-radius: .35rem; padding: .1rem .45rem; cursor: pointer; text-align: left; overflow-wrap: anywhere; }
.documents .chips small { color: var(--soft); font-variant-numeric: tabular-nums; }
.documents mark { color: inherit; cursor: pointer; }
.documents .known { background: color-mix(in srgb, var(--accent) 24%, transparent); border-bottom: 2px solid var(--accent); }
.documents .new { background: color-mix(in srgb, var(--warn) 20%, transparent); border-bottom: 2px dashed var(--warn); }
.documents blockquote { margin: .5rem 0; padding: 0 0 0 .75rem; border-left: 3px solid var(--line); max-width: 46rem; overflow-wrap: anywhere; }
.documents blockquote button, .documents .back { font: inherit; font-size: .85rem; color: var(--accent); background: none; border: 0; padding: 0; cursor: pointer; overflow-wrap: anywhere; text-align: left; }
`;
const MOST_LISTED = 1000, MOST_EXAMPLES = 5, MOST_OTHERS = 15, AROUND = 90;

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

// Scripts that put no blank between words have no ends of words to look for.
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;
const escapeSigns = (text) => text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");

function patternOf(form, flags) {
  const words = form.split(" ").map(escapeSigns).join("\\s+");
  const before = UNSPACED.test(form[0]) ? "" : "(?<![\\p{L}\\p{N}])";
  const after = UNSPACED.test(form.at(-1)) ? "" : "(?![\\p{L}\\p{N}])";
  return new RegExp(before + words + after, flags);
}

// Where a keyphrase is in a text: as its forms are written, else whatever its capitals.
function placesOf(text, forms) {
  for (const flags of ["gu", "giu"]) {
    const found = forms.flatMap((form) =>
      [...text.matchAll(patternOf(form, flags))].map((m) => [m.index, m.index + m[0].length]));
    if (found.length) return found;
  }
  return [];
}

class Documents {
  constructor(place) {
    const data = JSON.parse(place.querySelector("script").textContent);
    Object.assign(this, data);
    // Files of a folder are shown without it.
    const folders = this.documents.map((one) => one.doc_id.slice(0, one.doc_id.lastIndexOf("/") + 1));
    const common = folders.reduce((a, b) => {
      while (!b.startsWith(a)) a = a.slice(0, a.lastIndexOf("/", a.length - 2) + 1);
      return a;
    });
    this.documents.forEach((one) => { one.name = one.doc_id.slice(common.length); });
    this.documents.forEach((one) => {
      one.lower = `${one.doc_id}\n${one.text}`.toLowerCase();
    });
    this.search = element("input", { type: "search", placeholder: "name or words", ariaLabel: "search the documents" });
    this.count = element("div", { className: "count" });
    this.list = element("ul");
    this.page = element("article", { ariaLive: "polite" });
    this.search.addEventListener("input", () => this.find());
    const left = element("div", {}, this.search, this.count, this.list);
    place.append(element("div", { className: "documents" }, left, this.page));
    this.find();
    const likely = (one) => one.keyphrases.filter((phrase) => !phrase.known && phrase.probability > 0.5).length;
    const kinds = (one) => new Set(one.keyphrases.map((phrase) => phrase.known)).size;
    this.open([...this.documents].sort((a, b) => likely(b) - likely(a) || kinds(b) - kinds(a))[0]);
  }

  find() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = this.documents.filter((one) => words.every((word) => one.lower.includes(word)));
    const more = found.length > MOST_LISTED ? `, the first ${MOST_LISTED} listed` : "";
    this.count.textContent = words.length || more
      ? `${found.length.toLocaleString("en")} of ${plural(this.documents.length, "document")}${more}`
      : plural(this.documents.length, "document");
    this.list.replaceChildren(...found.slice(0, MOST_LISTED).map((one) => this.entry(one)));
    this.list.hidden = !found.length;
  }

  entry(one) {
    const known = one.keyphrases.filter((phrase) => phrase.known).length;
    const counts = element("span");
    for (const [name, count] of [["known", known], ["new", one.keyphrases.length - known]]) {
      if (count) counts.append(" ", element("span", { className: name, title: `${count} ${name}` }, String(count)));
    }
    const button = element("button", { type: "button" }, element("span", { title: one.doc_id }, one.name), counts);
    if (one === this.shown) button.ariaCurrent = "true";
    button.addEventListener("click", () => this.open(one));
    return element("li", {}, button);
  }

  open(one) {
    this.shown = one;
    this.find();
    const chips = element("div", { className: "chips" });
    for (const phrase of one.keyphrases) {
      chips.append(this.chip(phrase.stem, phrase.text, phrase.known, this.number(phrase)));
    }
    const none = one.text ? `no ${this.key} of this document` : "this document is empty";
    const legend = one.keyphrases.length
      ? element("div", { className: "legend" }, element("mark", { className: "known" }, "known"), " ",
          element("mark", { className: "new" }, "new"), " with its probability")
      : element("div", { className: "legend" }, none);
    const text = element("div", { className: "text", tabIndex: 0 }, ...this.marked(one));
    if (one.cut) text.append(" …");
    this.page.replaceChildren(element("h3", { title: one.doc_id }, one.name), legend, chips, text);
  }

  number(phrase) {
    return phrase.known ? "" : phrase.probability.toFixed(2);
  }

  chip(term, text, known, note) {
    const button = element("button", { type: "button", className: known ? "known" : "new" }, text);
    if (note) button.append(" ", element("small", {}, note));
    button.addEventListener("click", () => this.openTerm(term));
    return button;
  }

  // The text in pieces, each with the keyphrases that cover it: the longest is the one it leads to.
  marked(one, from = 0, to = one.text.length) {
    const places = one.keyphrases.flatMap((phrase) =>
      placesOf(one.text, phrase.forms).map(([start, end]) => ({ phrase, start, end })));
    const ends = new Set([from, to]);
    for (const { start, end } of places) {
      for (const at of [start, end]) if (from < at && at < to) ends.add(at);
    }
    const order = [...ends].sort((a, b) => a - b);
    return order.slice(1).map((end, i) => {
      const start = order[i], piece = one.text.slice(start, end);
      const over = places.filter((place) => place.start <= start && end <= place.end)
        .sort((a, b) => (b.end - b.start) - (a.end - a.start));
      if (!over.length) return piece;
      const known = over.find(({ phrase }) => phrase.known);
      const mark = element("mark", { className: known ? "known" : "new" }, piece);
      mark.title = over.map(({ phrase }) => `${phrase.text}: ${phrase.known ? "known" : "new"}` +
        (this.number(phrase) && `, probability ${this.number(phrase)}`)).join("\n");
      mark.addEventListener("click", () => this.openTerm(over[0].phrase.stem));
      return mark;
    });
  }

  openTerm(stem) {
    const { text: written, new: found, known: given } = this.terms[stem];
    const here = this.documents.filter((one) => one.keyphrases.some((p) => p.stem === stem));
    const own = here.map((one) => one.keyphrases.find((p) => p.stem === stem));
    const all = Math.max(found + given, here.length);
    const back = element("button", { type: "button", className: "back" }, `← ${this.shown.name}`);
    back.addEventListener("click", () => this.open(this.shown));
    const least = this.whole ? "" : "at least ";
    const kinds = [["known", given], ["new", found]].filter(([, count]) => count)
      .map(([kind, count]) => `${kind} in ${count.toLocaleString("en")}`).join(", ");
    const counts = `In ${least}${plural(all, "document")}${kinds && ": "}${kinds}` +
      (here.length < all ? `; ${here.length} of them here.` : ".");
    this.page.replaceChildren(back, element("h3", {}, written || own[0].text),
      element("div", { className: "legend" }, counts), ...this.others(stem, here), ...this.examples(stem, here));
  }

  others(stem, here) {
    const counts = new Map();
    for (const one of here) {
      for (const other of one.keyphrases) {
        if (other.stem === stem) continue;
        const entry = counts.get(other.stem) ?? { text: other.text, known: false, count: 0 };
        entry.count += 1;
        entry.known ||= other.known;
        counts.set(other.stem, entry);
      }
    }
    const most = [...counts].sort((a, b) => b[1].count - a[1].count).slice(0, MOST_OTHERS);
    if (!most.length) return [];
    const chips = element("div", { className: "chips" }, ...most.map(([other, entry]) =>
      this.chip(other, entry.text, entry.known, String(entry.count))));
    return [element("div", { className: "legend" }, `Other ${this.key}s of these documents, and in how many of them`), chips];
  }

  examples(stem, here) {
    const shown = [];
    for (const one of here) {
      const phrase = one.keyphrases.find((p) => p.stem === stem);
      const [place] = placesOf(one.text, phrase.forms);
      if (!place) continue;
      const from = place[0] < AROUND ? 0 : one.text.slice(0, place[0] - AROUND).search(/\S*$/);
      const rest = one.text.slice(place[1] + AROUND);
      const to = one.text.length - rest.length + (/^\S*/.exec(rest)[0].length % AROUND);
      const number = this.number(phrase);
      const button = element("button", { type: "button" }, number ? `${one.name} (${number})` : one.name);
      button.addEventListener("click", () => this.open(one));
      const quote = this.marked({ ...one, keyphrases: [phrase] }, from, to);
      shown.push(element("blockquote", {}, from ? "… " : "", ...quote, to < one.text.length ? " … " : " ", button));
      if (shown.length === MOST_EXAMPLES) break;
    }
    return shown;
  }
}

document.head.append(element("style", { textContent: DOCUMENT_STYLE }));
document.querySelectorAll("[data-script='documents.js']").forEach((place) => new Documents(place));
})();
