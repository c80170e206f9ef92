// DOM elements without markup: contents of tables only ever become text.

const SVG = "http://www.w3.org/2000/svg";

/** An element; properties that are functions listen, the rest are attributes, null and false are left out. */
export function h(tag, properties = {}, ...children) {
  return filled(document.createElement(tag), properties, children);
}

/** The same for SVG. */
export function s(tag, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

/** Announce something to screen readers. */
export function announce(text) {
  document.getElementById("live").textContent = text;
}

const whole = new Intl.NumberFormat("en");

/** 12345 as 12,345. */
export const count = (number) => whole.format(number);

/** "1 row", "12 rows". */
export const some = (number, noun, nouns = `${noun}s`) => `${count(number)} ${number === 1 ? noun : nouns}`;

/** A size for people. */
export function bytes(number) {
  const units = ["bytes", "KB", "MB", "GB"];
  let at = 0;
  while (number >= 1024 && at < units.length - 1) {
    number /= 1024;
    at += 1;
  }
  return `${number >= 10 || at === 0 ? Math.round(number) : number.toFixed(1)} ${units[at]}`;
}

/** The name of a table, with its folders in a fainter style. */
export function tableName(name) {
  const at = name.replace(/\/+$/, "").lastIndexOf("/") + 1;
  return h(
    "span",
    { class: "name" },
    at ? h("span", { class: "folder" }, name.slice(0, at)) : null,
    name.slice(at),
  );
}

/** The first codes of an identifier. */
export function shortSid(sid) {
  const codes = sid.split("-");
  return codes.length > 8 ? `${codes.slice(0, 8).join("-")}-…` : sid;
}

/** A bar from 0 to 1; the figure beside it says the same in text. */
export function bar(share) {
  const inner = h("span", {});
  inner.style.width = `${100 * Math.max(0, Math.min(1, share))}%`;
  return h("span", { class: "bar", "aria-hidden": "true" }, inner);
}

const ICONS = {
  file: "M6 2.500h7.500L18 7v14.500H6zM13 3v4.500h4.500",
  upload: "M12 16V4.500M7 9l5-5 5 5M4.500 15.500V20h15v-4.500",
  search: "M10.500 17a6.500 6.500 0 1 0 0-13 6.500 6.500 0 0 0 0 13zM15.500 15.500 20.500 20.500",
  right: "M9 5.500 15.500 12 9 18.500",
  back: "M15 5.500 8.500 12l6.500 6.500",
  download: "M12 4v11.500M7 11l5 5 5-5M4.500 19.500h15",
  plus: "M12 5v14M5 12h14",
  minus: "M5 12h14",
  fit: "M4.500 9V4.500H9M15 4.500h4.500V9M19.500 15v4.500H15M9 19.500H4.500V15",
  paste: "M8 4.500H5v17h14v-17h-3M8.500 3h7v3.500h-7zM8.500 11.500h7M8.500 15.500h7",
  dice: "M4.500 4.500h15v15h-15zM8.500 8.300v.4M15.500 15.300v.4M12 11.800v.4M8.500 15.300v.4M15.500 8.300v.4",
};

/** An icon beside a word of the same meaning. */
export function icon(name) {
  return s(
    "svg",
    { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" },
    s("path", { d: ICONS[name] }),
  );
}

/** An error message. */
export function failure(error, ...more) {
  return h("div", { class: "failure", role: "alert" }, h("p", {}, error.message || String(error)), ...more);
}

/** Placeholder lines while something loads. */
export function waiting(lines = 3) {
  return h(
    "div",
    { class: "waiting", "aria-hidden": "true" },
    Array.from({ length: lines }, () => h("span", {})),
  );
}
