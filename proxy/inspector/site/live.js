"use strict";

// The list of requests grows by itself: the rows come ready from the server.
{
  const table = document.querySelector("table[data-events]");
  const status = document.getElementById("live");
  const pause = document.getElementById("pause");
  const empty = document.getElementById("empty");
  const most = 200; // rows
  let source = null;
  let address = table && table.dataset.events;
  let lost = 0;

  const say = (text) => { status.textContent = lost > 0 ? `${text} ${lost} came too fast to be shown.` : text; };

  const add = (html) => {
    const rows = document.createElement("template");
    rows.innerHTML = html; // of the server's own template
    table.tBodies[0].prepend(rows.content);
    empty.hidden = true;
    const all = table.tBodies[0].rows;
    while (all.length > most && !all[all.length - 1].contains(document.activeElement)) all[all.length - 1].remove();
  };

  const start = () => {
    source = new EventSource(address);
    source.addEventListener("open", () => say("Live."));
    source.addEventListener("rows", (event) => {
      add(event.data);
      const next = new URL(address, location.href);
      next.searchParams.set("from", event.lastEventId);
      address = next.href; // so that what comes while it is paused is shown afterwards
    });
    source.addEventListener("lost", (event) => { lost += Number(event.data); say("Live."); });
    source.addEventListener("error", () => {
      say(source.readyState === EventSource.CLOSED ? "Not live; reload the page." : "Connection lost; trying again.");
    });
  };

  if (table && "EventSource" in window) {
    pause.hidden = false;
    pause.addEventListener("click", () => {
      const paused = pause.getAttribute("aria-pressed") !== "true";
      pause.setAttribute("aria-pressed", String(paused));
      pause.textContent = paused ? "Go on" : "Pause";
      if (paused) {
        source.close();
        say("Paused.");
      } else {
        start();
      }
    });
    start();
    window.addEventListener("pagehide", () => source.close());
    window.addEventListener("pageshow", (event) => { if (event.persisted && pause.getAttribute("aria-pressed") !== "true") start(); });
  }
}

// Parts of a page with data-refresh are made anew every so many milliseconds: the page is
// fetched again, and they take the contents that they have there.
if (document.querySelector("[data-refresh]")) {
  const status = document.getElementById("live");
  const pause = document.getElementById("pause");
  const parts = [...document.querySelectorAll("[data-refresh]")];
  const every = Math.min(...parts.map((part) => Number(part.dataset.refresh)));
  const focusable = "a[href], button, input, select, summary";
  let timer = 0;
  let asked = null; // aborts a fetch that is under way

  // replace keeps what a visitor has opened, and where the keyboard is.
  const replace = (part, fresh) => {
    const at = part.contains(document.activeElement) ? [...part.querySelectorAll(focusable)].indexOf(document.activeElement) : -1;
    const address = document.activeElement.getAttribute("href");
    for (const open of part.querySelectorAll("details[open][id]")) {
      const same = fresh.querySelector(`#${CSS.escape(open.id)}`);
      if (same) same.open = true;
    }
    part.replaceChildren(...fresh.childNodes);
    if (at < 0) return;
    const all = [...part.querySelectorAll(focusable)];
    const next = (address && all.find((e) => e.getAttribute("href") === address)) || all[Math.min(at, all.length - 1)];
    if (next) next.focus({ preventScroll: true });
  };

  const refresh = async () => {
    asked = new AbortController();
    const { signal } = asked;
    try {
      const answer = await fetch(location.href, { signal, headers: { Accept: "text/html" } });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = parts.map((part) => page.getElementById(part.id));
      if (signal.aborted) return;
      if (!answer.ok || answer.redirected || fresh.includes(null)) {
        stop();
        pause.hidden = true;
        status.textContent = "Not live; reload the page.";
        return;
      }
      if (getSelection().isCollapsed) parts.forEach((part, n) => replace(part, fresh[n])); // somebody copies a text
      status.textContent = `Live, every ${every / 1000} seconds.`;
    } catch {
      if (signal.aborted) return;
      status.textContent = "Connection lost; trying again.";
    }
    start();
  };

  const stop = () => {
    clearTimeout(timer);
    if (asked) asked.abort();
  };
  const start = () => {
    clearTimeout(timer);
    timer = setTimeout(() => { if (!document.hidden) refresh(); }, every); // nobody looks at a hidden page
  };
  const paused = () => pause.getAttribute("aria-pressed") === "true" || pause.hidden;

  status.textContent = `Live, every ${every / 1000} seconds.`;
  pause.hidden = false;
  pause.addEventListener("click", () => {
    const on = !paused();
    pause.setAttribute("aria-pressed", String(on));
    pause.textContent = on ? "Go on" : "Pause";
    stop();
    if (on) {
      status.textContent = "Paused.";
    } else {
      refresh();
    }
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden || paused()) return;
    stop();
    refresh();
  });
  start();
}
