// What a checker of accessibility looks for first; returns what is wrong, as text.
() => {
  const wrong = [];
  const seen = (element) => element.checkVisibility({ opacityProperty: false, visibilityProperty: true });
  const say = (element, what) => wrong.push(`${what}: ${element.outerHTML.slice(0, 120)}`);
  const hidden = (element) => element.closest("[aria-hidden=true]") !== null;

  // --- names, roles and structure
  const named = (element) =>
    (
      element.getAttribute("aria-label") ||
      [...(element.labels ?? [])].map((label) => label.textContent).join("") ||
      element.textContent ||
      element.title
    ).trim();
  const FOCUSABLE = "a[href], button, input, select, textarea, [tabindex]:not([tabindex='-1'])";
  for (const element of document.querySelectorAll(FOCUSABLE)) {
    if (!seen(element)) continue;
    if (!named(element)) say(element, "has no name");
    if (hidden(element)) say(element, "can be reached, though it is hidden from readers");
  }
  for (const element of document.querySelectorAll(
    "img:not([alt]), svg:not([aria-hidden=true]):not([role=img])",
  )) {
    if (!hidden(element)) say(element, "is a picture without words");
  }
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of ids.filter((one, at) => ids.indexOf(one) !== at))
    wrong.push(`the id ${id} is there twice`);
  for (const element of document.querySelectorAll(
    "[aria-controls], [aria-activedescendant], [aria-labelledby], label[for]",
  )) {
    for (const name of ["aria-controls", "aria-activedescendant", "aria-labelledby", "for"]) {
      const id = element.getAttribute(name);
      if (id && !document.getElementById(id)) say(element, `${name} leads nowhere`);
    }
  }
  if (!document.documentElement.lang) wrong.push("no language");
  if (!document.title) wrong.push("no title");
  if (document.querySelectorAll("main").length !== 1) wrong.push("there is to be one main");
  const headings = [...document.querySelectorAll("h1, h2, h3, h4")].filter((one) => seen(one));
  if (headings.filter((one) => one.tagName === "H1").length !== 1) wrong.push("there is to be one h1");
  headings.reduce((before, one) => {
    const level = Number(one.tagName[1]);
    if (level > before + 1) say(one, "skips a level");
    return level;
  }, 0);
  for (const table of document.querySelectorAll("table")) {
    if (!table.caption) say(table, "has no caption");
    if (!table.querySelector("th[scope]")) say(table, "has no headers");
  }
  for (const list of document.querySelectorAll("ul, ol")) {
    if ([...list.children].some((child) => child.tagName !== "LI"))
      say(list, "has other children than items");
  }

  // --- contrast of text with what is behind it
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const over = (colours) => {
    canvas.clearRect(0, 0, 1, 1);
    for (const colour of colours) {
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
    }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (rgb) => {
    const [red, green, blue] = rgb.map((part) =>
      part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4,
    );
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (
      !texts.currentNode.data.trim() ||
      element.closest("script, style, noscript, option, .unseen, .skip, :disabled, .disabled")
    )
      continue;
    if (!seen(element) || element.getClientRects().length === 0) continue;
    const behind = [];
    let opacity = 1;
    for (let one = element; one; one = one.parentElement) {
      const style = getComputedStyle(one);
      behind.unshift(style.backgroundColor);
      opacity *= Number(style.opacity);
    }
    const style = getComputedStyle(element);
    const ground = over(behind);
    const ink = over([...behind, style.color]);
    const [high, low] = [light(ink), light(ground)].sort((one, other) => other - one);
    const large =
      parseFloat(style.fontSize) >= 24 ||
      (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
    const ratio = (high + 0.05) / (low + 0.05);
    if (opacity === 1 && ratio < (large ? 3 : 4.5)) say(element, `contrast of ${ratio.toFixed(2)}`);
  }

  // --- what a finger has to hit
  for (const element of document.querySelectorAll("button, .button, select, input[type=checkbox]")) {
    const box = (element.closest("label") ?? element).getBoundingClientRect();
    if (
      seen(element) &&
      !element.classList.contains("unseen") &&
      box.width &&
      Math.min(box.width, box.height) < 16
    )
      say(element, "is too small");
  }
  return [...new Set(wrong)];
};
