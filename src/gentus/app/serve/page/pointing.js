// Mouse, touch and keyboard on the map.

const NEAR = 14; // pixels around a point that select it
const FINGER = 26;

/** Pan and zoom a plot; calls `hover` with the point under the pointer, `search` with the selected one. */
export function pointing(canvas, plot, { hover, search, leave, middle }) {
  byPointer(canvas, plot, { hover, search, leave });
  byKeys(canvas, plot, { search, leave, middle });
}

function byPointer(canvas, plot, { hover, search, leave }) {
  const pointers = new Map();
  let travelled = 0;
  let apart = 0;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    travelled = 0;
    apart = distance(pointers);
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) {
      if (event.pointerType === "mouse") hover(plot.near(event.offsetX, event.offsetY, NEAR));
      return;
    }
    const [dx, dy] = [event.offsetX - before[0], event.offsetY - before[1]];
    travelled += Math.hypot(dx, dy);
    pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    plot.move(dx / pointers.size, dy / pointers.size);
    const now = distance(pointers);
    if (apart && now) plot.enlarge(now / apart, ...between(pointers));
    apart = now;
  });
  const lift = (event) => {
    pointers.delete(event.pointerId);
    apart = distance(pointers);
  };
  canvas.addEventListener("pointerup", (event) => {
    lift(event);
    if (travelled > 6 || pointers.size) return;
    const mouse = event.pointerType === "mouse";
    const at = plot.near(event.offsetX, event.offsetY, mouse ? NEAR : FINGER);
    if (mouse) search(at);
    else hover(at, { stays: true }); // touch cannot hover: the first tap shows the table, its button searches
  });
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && leave());
  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      plot.enlarge(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), event.offsetX, event.offsetY);
    },
    { passive: false },
  );
}

function byKeys(canvas, plot, { search, leave, middle }) {
  const keys = {
    ArrowLeft: () => plot.move(60, 0),
    ArrowRight: () => plot.move(-60, 0),
    ArrowUp: () => plot.move(0, 60),
    ArrowDown: () => plot.move(0, -60),
    "+": () => plot.enlarge(1.5),
    "=": () => plot.enlarge(1.5),
    "-": () => plot.enlarge(1 / 1.5),
    0: () => plot.reset(),
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Enter") search(plot.hovered);
    else if (keys[event.key] && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      keys[event.key]();
      middle();
    }
  });
  canvas.addEventListener("focus", () => canvas.matches(":focus-visible") && middle());
  canvas.addEventListener("blur", leave);
}

function distance(pointers) {
  if (pointers.size < 2) return 0;
  const [one, other] = [...pointers.values()];
  return Math.hypot(one[0] - other[0], one[1] - other[1]);
}

function between(pointers) {
  const [one, other] = [...pointers.values()];
  return [(one[0] + other[0]) / 2, (one[1] + other[1]) / 2];
}
