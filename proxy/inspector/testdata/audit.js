() => {
  const faults = [];
  const fault = (text, e) => faults.push(e ? `${text}: ${e.outerHTML.slice(0, 120)}` : text);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const shown = (e) => e.checkVisibility({ visibilityProperty: true });

  if (!document.documentElement.lang) fault("the page has no language");
  if (!document.title) fault("the page has no title");
  if (all("h1").length !== 1) fault(`the page has ${all("h1").length} h1`);
  let level = 0;
  for (const h of all("h1, h2, h3, h4, h5, h6")) {
    const own = Number(h.tagName[1]);
    if (own > level + 1) fault("a heading skips a level", h);
    if (!h.textContent.trim()) fault("a heading is empty", h);
    level = own;
  }
  for (const name of ["header", "main"]) if (all(`body > ${name}`).length !== 1) fault(`there is not one ${name}`);
  for (const nav of all("nav")) if (!nav.ariaLabel) fault("a nav has no label", nav);
  const skip = document.querySelector("a.skip");
  if (!skip || !document.querySelector(skip.getAttribute("href"))) fault("there is no link to the content");

  const ids = all("[id]").map((e) => e.id);
  if (new Set(ids).size !== ids.length) fault("an id stands twice");
  for (const e of all("input:not([type=hidden]), select, textarea")) {
    if (shown(e) && !e.labels.length && !e.ariaLabel) fault("a field has no label", e);
  }
  for (const e of all("a, button")) if (!e.textContent.trim() && !e.ariaLabel) fault("a link or button has no name", e);
  for (const e of all("[tabindex]")) if (e.tabIndex > 0) fault("a tabindex changes the order", e);
  for (const table of all("table")) {
    if (!table.caption) fault("a table has no caption", table);
    for (const th of table.querySelectorAll("th")) if (!th.scope) fault("a th has no scope", th);
    for (const row of table.tBodies[0].rows) if (row.cells.length !== table.tHead.rows[0].cells.length) fault("a row has other cells than the head", row);
  }
  for (const e of all("img")) if (!e.hasAttribute("alt")) fault("a picture has no text", e);
  for (const e of all("svg")) if (e.ariaHidden !== "true" && !(e.getAttribute("role") === "img" && e.ariaLabel)) fault("a drawing has no text", e);
  for (const e of all("*")) {
    if (e.hasAttribute("style")) fault("an element has a style of its own", e);
    for (const a of e.attributes) if (a.name.startsWith("on")) fault("an element has a script of its own", e);
  }
  if (all("script:not([src])").length) fault("there is a script within the page");

  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (wide > 0) {
    const e = all("body *").find((e) => shown(e) && e.getBoundingClientRect().right > document.documentElement.clientWidth + 1);
    fault(`the page is ${wide} pixels too wide`, e);
  }

  // Contrast as WCAG 2.2 defines it, of each text with what is behind it.
  const parse = (color) => {
    const n = color.match(/[\d.]+/g).map(Number);
    return { rgb: n.slice(0, 3), alpha: n.length > 3 ? n[3] : 1 };
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const { rgb, alpha } = parse(getComputedStyle(e).backgroundColor);
      if (alpha === 1) return rgb;
      if (alpha > 0) fault("a background is half transparent", e);
    }
    return [255, 255, 255];
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => {
    const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  let texts = 0;
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || seen.has(e) || !shown(e) || e.closest("svg, script, datalist")) continue;
    seen.add(e);
    texts++;
    const style = getComputedStyle(e);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const is = ratio(parse(style.color).rgb, behind(e));
    if (is < (large ? 3 : 4.5)) fault(`a contrast is ${is.toFixed(2)}`, e);
    if (size < 12) fault(`a text has ${size} pixels`, e);
  }
  if (texts < 3) fault(`only ${texts} texts were looked at`);
  for (const e of all("input:not([type=hidden]), select, textarea, button")) {
    if (shown(e) && ratio(parse(getComputedStyle(e).borderTopColor).rgb, behind(e.parentElement)) < 3) fault("a field cannot be told from the page", e);
  }
  return faults;
}
