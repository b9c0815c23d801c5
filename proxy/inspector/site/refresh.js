// Parts of a page with data-refresh are made anew every so many milliseconds: the page is
// fetched again, and they take the contents that they have there.
"use strict";
{
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
