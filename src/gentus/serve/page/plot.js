// Many points on a canvas: drawn by colour, found by a grid, moved and enlarged.

const CELLS = 96; // of the grid, a side
const MOST = 400; // times as large
const FITTED = 0.92; // of the canvas that all points take at first
const GOLDEN = 137.508; // degrees between hues that follow one another
const SEEDS = (GOLDEN * Math.PI) / 180;

export class Plot {
  /** Points are [x, y, code]. */
  constructor(canvas, points, onmove) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.onmove = onmove;
    this.count = points.length;
    this.xs = new Float32Array(points.length); // between 0 and 1
    this.ys = new Float32Array(points.length);
    this.codes = new Int32Array(points.length);
    this.dx = new Float32Array(points.length); // aside from others at the same place, in steps
    this.dy = new Float32Array(points.length);
    this.widest = 0; // of these
    this.marked = new Set(); // points with a ring
    this.only = null; // the code that is not faint
    this.hovered = -1;
    this.read(points);
    this.reset();
  }

  read(points) {
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const [x, y] of points) {
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.min(top, y);
      bottom = Math.max(bottom, y);
    }
    const width = right - left || 1;
    const height = bottom - top || 1;
    const groups = new Map();
    const grid = Array.from({ length: CELLS * CELLS }, () => []);
    const there = new Map(); // how many points have been put at a place
    points.forEach(([x, y, code], at) => {
      this.xs[at] = (x - left) / width;
      this.ys[at] = 1 - (y - top) / height;
      this.codes[at] = code;
      if (!groups.has(code)) groups.set(code, []);
      groups.get(code).push(at);
      grid[this.cell(this.xs[at], this.ys[at])].push(at);
      const place = `${x} ${y}`;
      const before = there.get(place) ?? 0; // tables with the same codes lie like seeds of a sunflower
      there.set(place, before + 1);
      this.dx[at] = Math.sqrt(before) * Math.cos(before * SEEDS);
      this.dy[at] = Math.sqrt(before) * Math.sin(before * SEEDS);
      this.widest = Math.max(this.widest, Math.sqrt(before));
    });
    this.grid = grid;
    // Large families first, so that they get the hues that are furthest apart and small ones lie above them.
    this.groups = [...groups].sort((one, other) => other[1].length - one[1].length).map(([code, members], rank) => ({ code, members, hue: (172 + rank * GOLDEN) % 360 }));
  }

  cell(x, y) {
    const place = (value) => Math.max(0, Math.min(CELLS - 1, Math.floor(value * CELLS)));
    return place(y) * CELLS + place(x);
  }

  colour(hue, dark = this.dark) {
    return dark ? `oklch(0.76 0.125 ${hue})` : `oklch(0.6 0.125 ${hue})`;
  }

  /** All points in view. */
  reset() {
    this.zoom = 1;
    this.x = 0.5; // what is in the middle
    this.y = 0.5;
    this.changed();
  }

  /** Follow the size of the element. */
  resize() {
    const ratio = devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.changed();
  }

  get scaleX() {
    return this.width * FITTED * this.zoom;
  }

  get scaleY() {
    return this.height * FITTED * this.zoom;
  }

  get radius() {
    const base = Math.max(1.3, Math.min(5.5, 85 / Math.sqrt(this.count)));
    return Math.min(9, base * this.zoom ** 0.4);
  }

  /** How far points at the same place step aside: little from afar, so that they do not overlap from near. */
  get step() {
    return Math.min(2.1 * this.radius, 0.6 * this.zoom);
  }

  /** Where a point is on the canvas. */
  place(at) {
    const step = this.step;
    return [
      (this.xs[at] - this.x) * this.scaleX + this.width / 2 + step * this.dx[at],
      (this.ys[at] - this.y) * this.scaleY + this.height / 2 + step * this.dy[at],
    ];
  }

  move(dx, dy) {
    this.x = clamp(this.x - dx / this.scaleX);
    this.y = clamp(this.y - dy / this.scaleY);
    this.changed();
  }

  /** Enlarge around a place of the canvas, which stays where it is. */
  enlarge(factor, px = this.width / 2, py = this.height / 2) {
    const zoom = Math.max(0.8, Math.min(MOST, this.zoom * factor));
    const x = (px - this.width / 2) / this.scaleX + this.x;
    const y = (py - this.height / 2) / this.scaleY + this.y;
    this.zoom = zoom;
    this.x = clamp(x - (px - this.width / 2) / this.scaleX);
    this.y = clamp(y - (py - this.height / 2) / this.scaleY);
    this.changed();
  }

  /** Bring a point to the middle. */
  centre(at, zoom) {
    this.zoom = Math.max(this.zoom, zoom);
    this.x = this.xs[at] + (this.step * this.dx[at]) / this.scaleX;
    this.y = this.ys[at] + (this.step * this.dy[at]) / this.scaleY;
    this.changed();
  }

  /** The point nearest to a place of the canvas, if one is near; -1 otherwise. */
  near(px, py, reach = 14) {
    const x = (px - this.width / 2) / this.scaleX + this.x;
    const y = (py - this.height / 2) / this.scaleY + this.y;
    const around = reach + this.step * this.widest;
    const [dx, dy] = [around / this.scaleX, around / this.scaleY];
    const place = (value) => Math.max(0, Math.min(CELLS - 1, Math.floor(value * CELLS)));
    let best = -1;
    let least = reach * reach;
    for (let row = place(y - dy); row <= place(y + dy); row += 1) {
      for (let column = place(x - dx); column <= place(x + dx); column += 1) {
        for (const at of this.grid[row * CELLS + column]) {
          const [qx, qy] = this.place(at);
          const distance = (qx - px) ** 2 + (qy - py) ** 2;
          if (distance < least && (this.only === null || this.codes[at] === this.only)) {
            least = distance;
            best = at;
          }
        }
      }
    }
    return best;
  }

  /** Draw before the next frame, once. */
  changed() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
      this.onmove?.();
    });
  }

  draw() {
    const { context, width, height } = this;
    if (!width) return;
    const radius = this.radius;
    context.clearRect(0, 0, width, height);
    for (const { code, members, hue } of this.groups) {
      context.globalAlpha = this.only === null ? 0.8 : code === this.only ? 0.95 : 0.07;
      context.fillStyle = this.colour(hue);
      if (radius < 2.6) this.squares(members, radius);
      else this.discs(members, radius);
    }
    context.globalAlpha = 1;
    for (const at of this.marked) this.ring(at, radius + 3, 2);
    if (this.hovered >= 0) this.ring(this.hovered, radius + 4, 2.5);
  }

  squares(members, radius) {
    const side = 2 * radius * 0.9;
    const { context, width, height, xs, ys, dx, dy, scaleX, scaleY, step } = this;
    const [left, top] = [width / 2 - this.x * scaleX - side / 2, height / 2 - this.y * scaleY - side / 2];
    for (const at of members) {
      const px = xs[at] * scaleX + left + step * dx[at];
      const py = ys[at] * scaleY + top + step * dy[at];
      if (px > -side && py > -side && px < width && py < height) context.fillRect(px, py, side, side);
    }
  }

  discs(members, radius) {
    const { context, width, height } = this;
    context.beginPath();
    for (const at of members) {
      const [px, py] = this.place(at);
      if (px < -radius || py < -radius || px > width + radius || py > height + radius) continue;
      context.moveTo(px + radius, py);
      context.arc(px, py, radius, 0, 2 * Math.PI);
    }
    context.fill();
  }

  ring(at, radius, weight) {
    const { context } = this;
    const [px, py] = this.place(at);
    context.beginPath();
    context.arc(px, py, radius, 0, 2 * Math.PI);
    context.lineWidth = weight;
    context.strokeStyle = this.ink;
    context.stroke();
  }
}

const clamp = (value) => Math.max(-0.2, Math.min(1.2, value));
