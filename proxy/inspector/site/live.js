// The list of requests grows by itself: the rows come ready from the server.
"use strict";
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
