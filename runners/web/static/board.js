// Makes the pages quick and gives them keys. Every link and every form works without this script.
//
// A form of the page, or a link with data-quick, is fetched and the answer's <main> takes the place of this page's. A page with
// data-refresh on its <main> is fetched again after so many milliseconds. In a grid (data-grid, with data-columns) arrows
// move from button to button (data-tile), of which Tab reaches one; the grid with data-typing="cell" or "piece" takes a letter and a digit, or one hex
// digit, and moves to the button of that data-name. A key named by data-key presses its link or button.
"use strict";

let waiting = 0; // the timer of the next refresh
let request = null; // the one that is under way
let column = ""; // a letter that was typed in front of a digit

const main = () => document.getElementById("content");
const plain = (event) => !(event.ctrlKey || event.metaKey || event.altKey);

async function show(url, options, keep) {
  clearTimeout(waiting);
  if (request) request.abort();
  const mine = (request = new AbortController());
  try {
    const answer = await fetch(url, { ...options, headers: { "X-Quick": "1" }, signal: mine.signal });
    const text = await answer.text();
    const found = new DOMParser().parseFromString(text, "text/html");
    if (!found.getElementById("content")) throw new Error("not a page of ours");
    replace(found, keep);
    if (answer.url !== location.href) history[keep ? "replaceState" : "pushState"](null, "", answer.url);
  } catch (error) {
    if (error.name === "AbortError") return;
    if (options && options.method === "POST") tell("The server does not answer. Is it still running?");
    else if (keep) waiting = setTimeout(() => show(url, options, keep), 3000);
    else location.assign(url);
  } finally {
    if (request === mine) request = null;
  }
}

function replace(found, keep) {
  const old = main();
  const active = document.activeElement;
  const inside = old.contains(active);
  const id = inside ? active.id : "";
  const before = announcement(old);
  const opened = [...old.querySelectorAll("details[id]")].filter((each) => each.open).map((each) => each.id);
  old.replaceWith(document.adoptNode(found.getElementById("content")));
  document.title = found.title;
  document.querySelector("nav").replaceWith(document.adoptNode(found.querySelector("nav")));
  for (const each of opened) {
    const details = document.getElementById(each);
    if (details) details.open = true;
  }
  prepare();
  const wanted = main().querySelector("[data-focus]");
  const same = active === old ? null : document.getElementById(id); // who waited for a page has the focus on the whole of it
  const target = keep ? same : wanted || same;
  if (inside || (!keep && wanted)) (target || wanted || main()).focus({ preventScroll: true });
  const text = announcement(main());
  if (text !== before) tell(text);
}

const announcement = (part) => [...part.querySelectorAll("[data-announce]")].map((each) => each.textContent.trim()).join(" ");

function tell(text) {
  document.getElementById("live").textContent = text;
}

function prepare() {
  for (const each of document.querySelectorAll("[data-hidden]")) each.hidden = true; // what this script does without a button
  for (const grid of document.querySelectorAll("[data-columns]")) {
    const all = tiles(grid);
    const first = all.find((each) => each.matches("[data-focus]")) || all.find((each) => each.getAttribute("aria-disabled") !== "true") || all[0];
    for (const each of all) each.tabIndex = each === first ? 0 : -1;
  }
  for (const tabs of document.querySelectorAll(".tabs")) {
    const here = tabs.querySelector("[aria-current]"); // may be out of sight on a narrow screen
    if (here) tabs.scrollLeft = here.offsetLeft - tabs.offsetLeft - (tabs.clientWidth - here.offsetWidth) / 2;
  }
  const after = Number(main().dataset.refresh);
  if (after) waiting = setTimeout(() => show(location.href, {}, true), after);
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

document.addEventListener("keydown", (event) => {
  if (!plain(event) || event.target.closest("input, textarea, select")) return;
  const moves = event.key.startsWith("Arrow");
  if ((moves && arrow(event)) || (!moves && typed(event))) {
    event.preventDefault();
    return;
  }
  const pressed = [...document.querySelectorAll("[data-key]")].find((each) => each.dataset.key.split(" ").includes(event.key));
  if (pressed) {
    event.preventDefault();
    pressed.click();
  }
});

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-quick]");
  if (!link || event.button !== 0 || event.shiftKey || !plain(event)) return;
  event.preventDefault();
  show(link.href, {}, false);
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  const button = event.submitter;
  if (button && button.getAttribute("aria-disabled") === "true") {
    event.preventDefault();
    return;
  }
  if (form.hasAttribute("data-whole")) return; // a page of its own
  event.preventDefault();
  const values = new URLSearchParams(new FormData(form, button));
  if (form.method === "post") show(form.action, { method: "POST", body: values }, false);
  else {
    for (const [name, value] of [...values]) if (value === "") values.delete(name);
    show(`${form.action.split("?")[0]}?${values}`, {}, false);
  }
});

// A select with data-auto shows the page of what is chosen at once: its button is for browsers without this script.
document.addEventListener("change", (event) => {
  const chosen = event.target.closest("select[data-auto]");
  if (!chosen) return;
  const values = new URLSearchParams();
  for (const each of chosen.form.querySelectorAll("select, [data-kept]")) values.set(each.name, each.value);
  show(`${chosen.dataset.auto}?${values}`, {}, false);
});

window.addEventListener("popstate", () => show(location.href, {}, true));
prepare();
