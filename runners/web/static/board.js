// Makes the pages fast and adds keyboard control. Every link and every form works without this script.
//
// Forms and links with data-quick are fetched, and the <main> of the response replaces the one of this page. A page whose <main>
// has data-refresh is fetched again after that many milliseconds. In a grid with data-columns, arrow keys move from button to
// button (data-tile), and Tab reaches only one of them. A grid with data-typing="cell" takes a letter and a digit, one with
// data-typing="piece" a hex digit, and moves to the button with that data-name. data-key names the keys that press a link or button.
"use strict";

let refreshTimer = 0;
let request = null; // the AbortController of the current request
let sending = false; // the current request sends a form
let pressed = false; // a pointer is down
let column = ""; // the letter that was typed before a digit
const keys = []; // pressed during a request, and handled after it

const main = () => document.getElementById("content");
const plain = (event) => !(event.ctrlKey || event.metaKey || event.altKey);
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const POINTER_CHECK = 100; // milliseconds between two checks whether a pointer is still down
const NOTICEABLE_WAIT = 150; // milliseconds after which a wait is shown
const LONG_WAIT = 5000; // milliseconds after which a request without an answer is mentioned
const RETRY_PAUSE = 2000; // milliseconds before a failed request is sent again
const AWAY = "The server does not answer. Is it still running?";
const AGAIN = "What you pressed is kept, and sent again until the server answers.";

// Fetches a page and shows it. keep: the same page is refreshed, so opened details, typed text and the focus stay.
async function show(url, options = {}, keep = false) {
  clearTimeout(refreshTimer);
  clearTimeout(stopTimer);
  if (request) request.abort();
  const controller = (request = new AbortController());
  controller.keep = keep;
  sending = options.method === "POST";
  if (sending) visited.clear();
  const timer = keep ? 0 : setTimeout(showWait, NOTICEABLE_WAIT);
  try {
    const answer = visited.get(url) || (await load(url, options, controller.signal));
    while (keep && pressed) await pause(POINTER_CHECK);
    if (!controller.signal.aborted) apply(answer, url, keep);
  } catch (error) {
    if (!controller.signal.aborted) throw error;
  } finally {
    clearTimeout(timer);
    if (request === controller) {
      request = null;
      sending = false;
      hideWait();
      if (keys.length) press(keys.shift());
    }
  }
}

// Sends a request until the server answers. A form of a page from before a restart of the server is sent again with a new token.
async function load(url, options, signal) {
  const send = async (address, settings) => {
    const timer = setTimeout(() => notify(`${AWAY} ${AGAIN}`), LONG_WAIT);
    try {
      const response = await fetch(address, { ...settings, headers: { "X-Quick": "1" }, signal });
      const text = await response.text();
      return { status: response.status, url: response.url, page: new DOMParser().parseFromString(text, "text/html") };
    } finally {
      clearTimeout(timer);
    }
  };
  let renewed = false;
  for (;;) {
    try {
      const answer = await send(url, options);
      const token = options.body && answer.status === 403 && !renewed && (await send(location.href, {})).page.querySelector("[name=token]");
      if (!token && answer.status !== 503) return answer;
      if (token) {
        options.body.set("token", token.value);
        renewed = true;
        continue;
      }
      notify(`${answer.page.querySelector("[role=alert]").textContent} ${AGAIN}`);
    } catch (error) {
      if (signal.aborted) throw error;
      notify(`${AWAY} ${AGAIN}`);
    }
    await pause(RETRY_PAUSE);
    signal.throwIfAborted();
  }
}

function apply(answer, url, keep) {
  notify("");
  if (!answer.page.getElementById("content")) {
    if (sending) notify(answer.page.body.textContent);
    else location.assign(url); // not a page of ours, such as a picture
    return;
  }
  replace(answer.page, keep && answer.url === location.href.split("#")[0]); // a waiting page may redirect to another page
  if (answer.url !== location.href) history[keep ? "replaceState" : "pushState"](null, "", answer.url);
  keepVisited(answer);
}

// Waits and failures are shown where every reader looks: at the top of the window, however far the page was scrolled.
function showWait() {
  main().setAttribute("aria-busy", "true");
}

function hideWait() {
  main().removeAttribute("aria-busy");
}

function notify(text) {
  const notice = document.getElementById("notice");
  if (notice.textContent === text) return;
  notice.textContent = text;
  notice.hidden = !text;
}

window.addEventListener("beforeunload", () => setTimeout(showWait, NOTICEABLE_WAIT)); // the browser loads a whole page
window.addEventListener("pageshow", hideWait); // of a page that the browser had kept

function replace(page, keep) {
  const old = main();
  const active = document.activeElement;
  const inside = old.contains(active);
  const id = inside ? active.id : "";
  const before = announcement(old);
  const opened = [...old.querySelectorAll("details[open][id]")].map((details) => details.id);
  const now = document.importNode(page.getElementById("content"), true);
  if (keep || (isLine(old) && isLine(now))) change(old, now);
  else old.replaceWith(now);
  document.title = page.title;
  document.querySelector("nav").replaceWith(document.importNode(page.querySelector("nav"), true));
  for (const name of opened) {
    const details = document.getElementById(name);
    if (details) details.open = true;
  }
  prepare();
  if (!keep) {
    const wanted = main().querySelector("[data-focus]");
    const same = active === old ? null : main().contains(active) ? active : document.getElementById(id); // a reader who waited for the page had the focus on its <main>
    const selected = same && same.matches("select") ? same : null; // its next option may be meant
    if (inside || wanted) (selected || wanted || same || main()).focus({ preventScroll: true });
    reveal(main().querySelector("[role=alert], [data-shown]") || (wanted && wanted.closest("[data-grid]")));
  } else if (inside && !main().contains(document.activeElement)) main().focus({ preventScroll: true });
  const text = announcement(main());
  if (text !== before) tell(text);
}

// Changes an element into a copy of another one. Equal parts stay, and so does the field that has the focus.
function change(old, now) {
  if (old.isEqualNode(now)) return;
  if (old.nodeName !== now.nodeName || old.id !== now.id) return old.replaceWith(now);
  if (old.nodeType !== Node.ELEMENT_NODE) return void (old.nodeValue = now.nodeValue);
  for (const each of [...old.attributes]) if (each.name !== "open" && !now.hasAttribute(each.name)) old.removeAttribute(each.name);
  for (const each of [...now.attributes]) if (old.getAttribute(each.name) !== each.value) old.setAttribute(each.name, each.value);
  if (old === document.activeElement && old.matches("input, textarea, select")) return;
  const named = new Map([...old.children].filter((each) => each.id).map((each) => [each.id, each]));
  let at = old.firstChild;
  for (const child of [...now.childNodes]) {
    const known = child.id ? named.get(child.id) : at && !at.id && at.nodeName === child.nodeName ? at : null;
    if (!known) old.insertBefore(child, at);
    else if (known === at) {
      at = at.nextSibling;
      change(known, child);
    } else {
      old.insertBefore(known, at);
      change(known, child);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

// Scrolls to new content. With data-shown="start" its top becomes visible; otherwise a third of it may stay out of sight.
function reveal(part) {
  if (!part) return;
  const { top, height } = part.getBoundingClientRect();
  const hidden = part.dataset.shown === "start" || part.role === "alert" ? 0 : height / 3;
  if (top < -hidden || top > innerHeight - 80) part.scrollIntoView({ block: "start" });
}

const announcement = (part) => [...part.querySelectorAll("[data-announce]")].map((each) => each.innerText.trim().replace(/\s+/g, " ")).join(" ");

function tell(text) {
  document.getElementById("live").textContent = text;
}

function prepare() {
  for (const each of document.querySelectorAll("[data-hidden]")) each.hidden = true; // buttons that this script makes unnecessary
  for (const each of document.querySelectorAll("[data-scripted]")) each.hidden = false; // elements that need this script
  for (const grid of document.querySelectorAll("[data-columns]")) {
    const all = tiles(grid);
    const first = all.find((each) => each.matches("[data-focus]")) || all.find((each) => each.getAttribute("aria-disabled") !== "true") || all[0];
    for (const each of all) each.tabIndex = each === first ? 0 : -1;
  }
  for (const tabs of document.querySelectorAll(".tabs")) {
    const here = tabs.querySelector("[aria-current]"); // may be out of sight on a narrow screen
    if (here) tabs.scrollLeft = here.offsetLeft - tabs.offsetLeft - (tabs.clientWidth - here.offsetWidth) / 2;
  }
  for (const heading of document.querySelectorAll("[data-sorts] thead th")) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
  }
  showAsked();
  recordPuzzle();
  showPuzzleResults();
  const wrong = document.querySelector("[data-wrong]");
  if (wrong) {
    const at = wrong.value.indexOf(wrong.dataset.wrong);
    wrong.focus({ preventScroll: true });
    wrong.setSelectionRange(at, at + wrong.dataset.wrong.length);
  }
  const after = Number(main().dataset.refresh);
  if (after) refreshTimer = setTimeout(() => show(location.href, {}, true), after);
}

const tiles = (grid) => [...grid.querySelectorAll("[data-tile]")];

function moveTo(tile) {
  const grid = tile.closest("[data-grid]");
  if (grid.dataset.columns) {
    for (const each of tiles(grid)) each.tabIndex = -1;
    tile.tabIndex = 0;
  }
  tile.focus();
}

function arrow(event) {
  const tile = event.target.closest("[data-tile]");
  const grid = tile && tile.closest("[data-columns]");
  if (!grid) return false;
  const columns = Number(grid.dataset.columns);
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
  const all = tiles(grid);
  const from = all.indexOf(tile);
  const to = all[from + step];
  const sideways = Math.abs(step) === 1 && Math.floor(from / columns) !== Math.floor((from + step) / columns);
  if (to && !sideways) moveTo(to);
  return true;
}

function typed(event) {
  const grid = document.querySelector("[data-typing]");
  const key = event.key.toUpperCase();
  if (!grid || event.shiftKey || key.length !== 1) return false;
  let name = "";
  if (grid.dataset.typing === "piece" && /[0-9A-F]/.test(key)) name = key;
  else if (grid.dataset.typing === "cell" && /[A-D]/.test(key)) {
    column = key.toLowerCase();
    return true;
  } else if (grid.dataset.typing === "cell" && column && /[1-4]/.test(key)) name = column + key;
  column = "";
  const tile = name && tiles(grid).find((each) => each.dataset.name === name);
  if (!tile) return false;
  moveTo(tile);
  return true;
}

// Stepping through a line. The page has all decisions of the line, so a key moves the pieces at once and without a request. Where
// the reader stops, the page of the position follows, with its exact values. Pages that were complete are not fetched again.
const STOP = 80; // milliseconds without a step after which the reader has stopped
const MAX_VISITED = 100;
const visited = new Map(); // answers by address
let stopTimer = 0;

const isLine = (part) => part.querySelector(".moves[data-start]") !== null;
const moves = () => [...main().querySelectorAll(".moves[data-start] .move")];
const isMistake = (link) => link.querySelector("b") !== null;

// The position to which a key leads: the number of decisions before it. at: that of the shown position.
const STEPS = {
  ArrowLeft: (at) => Math.max(at - 1, 0),
  ArrowRight: (at, links) => Math.min(at + 1, links.length),
  Home: () => 0,
  End: (at, links) => links.length,
  n: (at, links) => [...links.keys()].find((index) => index > at && isMistake(links[index])) ?? at,
  N: (at, links) => [...links.keys()].findLast((index) => index < at && isMistake(links[index])) ?? at,
};

function keepVisited(answer) {
  if (!isLine(main()) || visited.size >= MAX_VISITED) visited.clear();
  if (isLine(main()) && answer.status === 200 && !main().dataset.refresh) visited.set(answer.url, answer);
}

const shownStep = (links) => links.findIndex((link) => link.hasAttribute("aria-current")) + 1;

// Returns the position to which a press leads if that position is on the page, otherwise -1.
function findStep(pressed) {
  const links = moves();
  const control = pressed.closest(".steps [data-key]");
  if (links.length && control && control.dataset.key in STEPS) return STEPS[control.dataset.key](shownStep(links), links);
  const [link, bar] = [".moves[data-start] .move", ".value-graph a"].map((kind) => pressed.closest(kind));
  return bar && links.length ? [...bar.parentElement.querySelectorAll("a")].indexOf(bar) + 1 : link ? links.indexOf(link) + 1 : -1;
}

function stepTo(at) {
  const links = moves();
  if (at === shownStep(links)) return;
  if (request) request.abort();
  clearTimeout(refreshTimer);
  clearTimeout(stopTimer);
  const list = links[0].closest(".moves");
  draw(list.dataset.start, links, at);
  const url = at ? links[at - 1].href : list.dataset.first;
  stopTimer = setTimeout(() => show(url), STOP);
}

// Moves the pieces to the position after the first decisions of a line. Everything else on the page becomes dim until its page follows.
function draw(start, links, at) {
  const [board, hand] = start.split(" ");
  const cells = [...board.replaceAll("/", "")];
  let [held, last] = [hand, -1];
  for (const word of links.slice(0, at).map((link) => link.firstChild.data.trim())) {
    const [piece, cell] = word.includes("@") ? word.split("@") : word.length > 1 ? [held, word] : [word];
    held = cell ? "-" : piece;
    last = cell ? 4 * (cell[1] - 1) + "abcd".indexOf(cell[0]) : last;
    if (cell) cells[last] = piece;
  }
  const picture = main().querySelector(".game .piece");
  const put = (tile, digit, kind, label) => {
    const shown = tile.querySelector(".piece");
    const href = digit && `#piece-${parseInt(digit, 16)}`;
    if ((shown ? shown.firstChild.getAttribute("href") : "") !== href) {
      if (shown) shown.remove();
      if (href) tile.prepend(picture.cloneNode(true));
      if (href) tile.querySelector("use").setAttribute("href", href);
    }
    if (tile.className !== kind) tile.className = kind;
    tile.removeAttribute("href");
    if (label) tile.setAttribute("aria-label", label);
  };
  for (const part of main().querySelectorAll(".game :is(.board:not(.still), .tray) .badge, .board:not(.still) .strokes")) part.remove();
  for (const [index, tile] of main().querySelectorAll(".game .board:not(.still) .cell").entries()) {
    const digit = cells[index] === "." ? "" : cells[index];
    put(tile, digit, index === last ? "cell last" : "cell", `${tile.dataset.name}, ${digit || "empty"}`);
  }
  for (const tile of main().querySelectorAll(".game .tray .slot")) {
    const digit = tile.dataset.name;
    const placed = cells.includes(digit);
    put(tile, placed ? "" : digit, `slot ${placed ? "board" : held === digit ? "hand" : "left"}`);
  }
  for (const stand of main().querySelectorAll(".game .stand")) put(stand, held === "-" ? "" : held, "stand");
  for (const list of [links, main().querySelectorAll(".value-graph a")])
    for (const [index, link] of list.entries()) {
      link.classList.toggle("now", index === at - 1);
      if (list === links && index === at - 1) link.setAttribute("aria-current", "step");
      else link.removeAttribute("aria-current");
    }
  const status = main().querySelector(".game .status");
  status.className = "status";
  status.replaceChildren(Object.assign(document.createElement("p"), { className: "task", textContent: at ? links[at - 1].title : "First position" }));
  main().dataset.stepping = "";
}

// Ctrl and Enter submit the question.
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.matches("textarea")) event.target.form.requestSubmit();
});

document.addEventListener("keydown", (event) => {
  if (!plain(event) || event.target.closest("input, textarea, select")) return;
  const moves = event.key.startsWith("Arrow");
  if ((moves && arrow(event)) || (!moves && typed(event))) {
    event.preventDefault();
    return;
  }
  if (!meant(event.key)) return;
  event.preventDefault();
  const step = isLine(main()) && event.key in STEPS;
  const following = "stepping" in main().dataset; // the other links of the page are still those of an earlier position
  if (step || !(following || (request && !request.keep))) press(event.key);
  else if (!event.repeat) keys.push(event.key);
});

const meant = (key) => [...document.querySelectorAll("[data-key]")].find((each) => each.dataset.key.split(" ").includes(key));

function press(key) {
  const found = meant(key);
  if (found) found.click();
}

document.addEventListener("pointerdown", () => (pressed = true));
for (const name of ["pointerup", "pointercancel"]) document.addEventListener(name, () => setTimeout(() => (pressed = false))); // after the click event of this press

document.addEventListener("click", (event) => {
  if (event.button !== 0 || event.shiftKey || !plain(event)) return;
  const link = event.target.closest("a[data-quick]");
  const target = findStep(event.target);
  if (link || target >= 0) event.preventDefault();
  if (target >= 0) stepTo(target);
  else if (link) show(link.href);
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  const button = event.submitter;
  if (button && button.getAttribute("aria-disabled") === "true") {
    event.preventDefault();
    return;
  }
  if (form.hasAttribute("data-whole")) return; // the browser loads the whole page
  event.preventDefault();
  if (sending) return; // the second press of a double click
  const values = new URLSearchParams(new FormData(form, button));
  if (form.method === "post") show(form.action, { method: "POST", body: values });
  else {
    for (const [name, value] of [...values]) if (value === "") values.delete(name);
    show(`${form.action.split("?")[0]}?${values}`);
  }
});

// Choosing an option of a select with data-auto shows its page at once; the button is for browsers without this script.
document.addEventListener("change", (event) => {
  const chosen = event.target.closest("select[data-auto]");
  if (!chosen) return;
  const values = new URLSearchParams();
  for (const each of chosen.form.querySelectorAll("select, [data-kept]")) if (each.value) values.set(each.name, each.value);
  show(`${chosen.dataset.auto}?${values}`);
});

// Pressing a name of the vocabulary inserts it into the question; Ctrl and Space complete the typed name.
function insert(field, from, text) {
  field.setRangeText(text, from, field.selectionEnd, "end");
  field.focus();
}

document.addEventListener("click", (event) => {
  const name = event.target.closest("[data-insert]");
  const field = document.getElementById("q");
  if (name && field) insert(field, field.selectionStart, name.textContent);
});

document.addEventListener("keydown", (event) => {
  if (!event.ctrlKey || event.key !== " " || event.target.id !== "q") return;
  event.preventDefault();
  const typed = event.target.value.slice(0, event.target.selectionStart).match(/\w*$/)[0].toLowerCase();
  const names = [...document.querySelectorAll("[data-insert]")].map((each) => each.textContent);
  const found = typed && names.find((each) => each.startsWith(typed) && each !== typed);
  if (found) insert(event.target, event.target.selectionStart - typed.length, found);
});

// Pressing a heading sorts the rows of an answer: numbers by size, texts alphabetically.
function sort(heading) {
  const column = [...heading.parentElement.children].indexOf(heading);
  const rising = heading.getAttribute("aria-sort") === "descending";
  const number = (text) => Number(text.replace(/,/g, "").replace("−", "-"));
  const key = (row) => row.children[column].innerText.trim();
  const compare = (one, other) => (Number.isNaN(number(key(one)) + number(key(other))) ? key(one).localeCompare(key(other)) : number(key(one)) - number(key(other)));
  const body = heading.closest("table").tBodies[0];
  body.append(...[...body.rows].sort((one, other) => (rising ? compare(one, other) : compare(other, one))));
  for (const each of heading.parentElement.children) each.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", rising ? "ascending" : "descending");
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-sorts] th button");
  if (button) sort(button.parentElement);
});

// Questions asked in this browser, the latest first. Old ones are forgotten unless they are kept. None leaves the browser.
const MOST_ASKED = 30;
const asked = () => JSON.parse(localStorage.getItem("asked") || "[]");

function remember(questions) {
  const room = Math.max(0, MOST_ASKED - questions.filter((each) => each.kept).length);
  let others = 0;
  localStorage.setItem("asked", JSON.stringify(questions.filter((each) => each.kept || (others += 1) <= room)));
}

document.addEventListener("submit", (event) => {
  const field = event.target.elements.q;
  const text = field && field.value.trim();
  if (!text) return;
  const before = asked().find((each) => each.text === text);
  remember([before || { text, kept: false }, ...asked().filter((each) => each.text !== text)]);
});

function showAsked() {
  const list = document.getElementById("asked");
  if (!list) return;
  list.parentElement.hidden = !asked().length;
  list.replaceChildren(
    ...asked().map(({ text, kept }) => {
      const [item, link, keep] = ["li", "a", "button"].map((name) => document.createElement(name));
      link.href = `/ask?q=${encodeURIComponent(text)}`;
      link.dataset.quick = "";
      link.textContent = text.replace(/\s+/g, " ");
      keep.type = "button";
      keep.className = "button small";
      keep.textContent = kept ? "Kept" : "Keep";
      keep.setAttribute("aria-pressed", kept);
      keep.addEventListener("click", () => {
        remember(asked().map((each) => (each.text === text ? { text, kept: !kept } : each)));
        showAsked();
      });
      item.append(link, " ", keep);
      return item;
    }),
  );
}

// Dragging sets up a position: onto a cell, into the hand, or off the board. data-setup holds the position as text.
let drag = null; // digit of the piece, its tile, the event that began the drag, the picture under the pointer

document.addEventListener("pointerdown", (event) => {
  const tile = event.target.closest("[data-setup] :is(.cell, .slot, .stand)");
  const piece = tile && tile.querySelector(".piece");
  if (!piece || event.button) return;
  const digit = Number(piece.firstChild.getAttribute("href").slice(7)).toString(16).toUpperCase();
  drag = { digit, tile, from: event, size: piece.clientWidth, picture: null };
});

document.addEventListener("pointermove", (event) => {
  if (!drag || (!drag.picture && Math.hypot(event.clientX - drag.from.clientX, event.clientY - drag.from.clientY) < 8)) return;
  if (!drag.picture) {
    drag.picture = drag.tile.querySelector(".piece").cloneNode(true);
    drag.picture.classList.add("dragged");
    drag.picture.style.width = drag.picture.style.height = `${drag.size}px`;
    drag.tile.classList.add("lifted");
    document.body.append(drag.picture);
  }
  drag.picture.style.transform = `translate(${event.clientX - drag.size / 2}px, ${event.clientY - drag.size / 2}px)`;
});

function drop(event) {
  const { picture, tile, digit } = drag || {};
  drag = null;
  if (!picture) return;
  picture.remove();
  tile.classList.remove("lifted");
  const end = (click) => (click.preventDefault(), click.stopImmediatePropagation()); // the click that ends a drag is no press
  document.addEventListener("click", end, true);
  setTimeout(() => document.removeEventListener("click", end, true));
  const under = event.type === "pointerup" && document.elementFromPoint(event.clientX, event.clientY);
  const [cell, stand] = [".cell", ".stand"].map((kind) => under && under.closest(`[data-setup] ${kind}`));
  if (!under || cell === tile || (!cell && !stand && tile.matches(".slot.left"))) return;
  const [board, hand, ...rules] = document.querySelector("[data-setup]").dataset.setup.split(" ");
  const cells = [...board.replace(digit, ".")];
  if (cell) cells["1234".indexOf(cell.dataset.name[1]) * 5 + "abcd".indexOf(cell.dataset.name[0])] = digit;
  const text = [cells.join(""), stand ? digit : hand === digit ? "-" : hand, ...rules].join(" ");
  show(`/analyse?text=${encodeURIComponent(text)}`);
}

for (const name of ["pointerup", "pointercancel"]) document.addEventListener(name, drop);
document.addEventListener("dragstart", (event) => event.target.closest("[data-setup]") && event.preventDefault());

// Downloads an SVG picture of this server as PNG, at twice its size.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-png]");
  if (!button) return;
  const picture = new Image();
  picture.src = button.dataset.png;
  await picture.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [2 * picture.width, 2 * picture.height];
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  const link = document.createElement("a");
  link.href = canvas.toDataURL("image/png");
  link.download = "quarto.png";
  link.click();
});

// Results of puzzles. They stay in this browser, in the order of the first turns: { id, right: was the first turn right, solved }.
// If the browser forbids storage, puzzles can be solved all the same, and the pages say nothing about results.
let storage = null;
try {
  storage = localStorage;
} catch {} // reading the property throws where storage is forbidden

function readPuzzleResults() {
  try {
    return JSON.parse(storage.getItem("puzzles") || "[]").filter((result) => typeof result.id === "string");
  } catch {
    return []; // something else has written this entry
  }
}

// A turn counts if it was made here, not if its address was opened. The first turn in a puzzle decides; a later one can only solve it.
document.addEventListener("click", (event) => {
  const link = event.target.closest("[data-puzzle] a");
  if (link && storage) sessionStorage.setItem("puzzle", link.closest("[data-puzzle]").dataset.puzzle);
});

function recordPuzzle() {
  const { puzzle: id, outcome } = (document.querySelector("[data-puzzle]") || { dataset: {} }).dataset;
  if (!storage || !outcome || sessionStorage.getItem("puzzle") !== id) return;
  sessionStorage.removeItem("puzzle");
  const right = outcome === "right";
  const results = readPuzzleResults();
  const before = results.find((result) => result.id === id);
  if (!before) results.push({ id, right, solved: right });
  else if (right) before.solved = true;
  storage.setItem("puzzles", JSON.stringify(results));
}

const PUZZLE_RESULTS = { solved: "solved at the first turn", later: "solved later", missed: "not solved yet" };
const resultOf = (result) => (!result ? "" : result.right ? "solved" : result.solved ? "later" : "missed");

function showPuzzleResults() {
  const results = storage ? readPuzzleResults() : [];
  const byId = new Map(results.map((result) => [result.id, result]));
  for (const link of document.querySelectorAll("[data-result-of]")) {
    const name = resultOf(byId.get(link.dataset.resultOf));
    link.className = name;
    if (name) link.setAttribute("aria-label", (link.title = `Puzzle ${link.textContent}, ${PUZZLE_RESULTS[name]}`));
  }
  for (const text of document.querySelectorAll("[data-result-text]")) {
    const name = resultOf(byId.get(text.dataset.resultText));
    text.textContent = name && `· ${PUZZLE_RESULTS[name]}`;
  }
  for (const count of document.querySelectorAll("[data-solved-of]")) {
    const ids = count.dataset.solvedOf.split(" ");
    const solved = ids.filter((id) => byId.get(id)?.solved).length;
    if (results.length) count.textContent = `${solved}/${ids.length}`;
    count.classList.toggle("done", solved === ids.length);
  }
  for (const link of document.querySelectorAll("[data-next]")) leadToUnsolved(link, byId);
  for (const legend of document.querySelectorAll("[data-legend]")) legend.hidden = !results.length;
  const progress = document.querySelector("[data-progress]");
  if (progress) showProgress(progress, results);
}

// The next puzzle is the first one without a result; if each has one, the first one that is not solved.
function leadToUnsolved(link, byId) {
  if (!byId.size) return;
  const puzzles = link.dataset.next.split(" ").map((text) => text.split(":"));
  const next = puzzles.find(([, id]) => !byId.has(id)) || puzzles.find(([, id]) => !byId.get(id)?.solved);
  const url = new URL(next ? link.href : link.dataset.done, location);
  if (next) url.pathname = `/puzzles/${next[0]}`;
  link.href = url;
  link.textContent = !next ? "All are solved" : document.querySelector("[data-puzzle]") ? "Next puzzle" : "Continue";
}

function showProgress(progress, results) {
  progress.hidden = !results.length;
  const ids = new Set(progress.dataset.progress.split(" "));
  const solved = results.filter((result) => result.solved && ids.has(result.id)).length;
  const streaks = results.reduce((all, { right }) => [...all, right ? (all.at(-1) || 0) + 1 : 0], []);
  const first = results.filter((result) => result.right).length;
  const counts = { streak: streaks.at(-1) || 0, best: Math.max(0, ...streaks), solved, first };
  for (const [name, count] of Object.entries(counts)) progress.querySelector(`[data-count="${name}"]`).textContent = count;
  progress.querySelector("progress").value = solved;
  const ticks = progress.querySelector(".ticks");
  const latest = results.slice(-20);
  ticks.replaceChildren(
    ...latest.map((result) => {
      const tick = document.createElement("span");
      tick.className = result.right ? "solved" : "missed";
      tick.textContent = result.right ? "✓" : "✗";
      return tick;
    }),
  );
  ticks.setAttribute("aria-label", `Latest first turns: ${latest.map((result) => (result.right ? "right" : "wrong")).join(", ")}`);
}

document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-forget]")) return;
  storage.removeItem("puzzles");
  show(location.href, {}, false);
});

window.addEventListener("popstate", () => show(location.href, {}, true));
prepare();
