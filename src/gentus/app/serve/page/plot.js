// A scatter plot of many points on a canvas: drawn by family, looked up by a grid, panned and zoomed.

import { OTHER, SINGLE, slotOf } from "./families.js";

const CELLS = 96; // of the grid, per side
const MOST = 400; // the largest zoom
const FITTED = 0.92; // share of the canvas that the points fill at first
const SMALL = 2.6; // points of a smaller radius are squares
const SEEDS = (137.508 * Math.PI) / 180; // the angle from one seed of a sunflower to the next

export class Plot {
  /** Points are [x, y, family]; the palette, a colour per slot, is to be set before it is drawn. */
  constructor(canvas, points, onmove) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.onmove = onmove;
    this.count = points.length;
    this.xs = new Float32Array(points.length); // between 0 and 1
    this.ys = new Float32Array(points.length);
    this.families = new Int32Array(points.length);
    this.dx = new Float32Array(points.length); // offset from others at the same position, in steps
    this.dy = new Float32Array(points.length);
    this.widest = 0; // of these
    this.marked = new Set(); // points with a ring
    this.lit = null; // the highlighted points
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
    const grid = Array.from({ length: CELLS * CELLS }, () => []);
    const there = new Map(); // how many points share a position
    points.forEach(([x, y], at) => {
      this.xs[at] = (x - left) / width;
      this.ys[at] = 1 - (y - top) / height;
      grid[this.cell(this.xs[at], this.ys[at])].push(at);
      const place = `${x} ${y}`;
      const before = there.get(place) ?? 0; // points at the same position form a sunflower pattern
      there.set(place, before + 1);
      this.dx[at] = Math.sqrt(before) * Math.cos(before * SEEDS);
      this.dy[at] = Math.sqrt(before) * Math.sin(before * SEEDS);
      this.widest = Math.max(this.widest, Math.sqrt(before));
    });
    this.grid = grid;
    this.sort(points);
  }

  /** Put points into the layers of their families: at the back those of none, at the front the smallest. */
  sort(points) {
    const slots = Array.from({ length: SINGLE + 1 }, () => []);
    points.forEach(([, , family], at) => {
      this.families[at] = family;
      slots[slotOf(family)].push(at);
    });
    this.slots = slots;
    this.lit = null;
  }

  /** Highlight some points; null shows all alike. */
  light(members, slot) {
    this.lit = members && { members, slot, marks: new Set(members) };
    this.changed();
  }

  cell(x, y) {
    const place = (value) => Math.max(0, Math.min(CELLS - 1, Math.floor(value * CELLS)));
    return place(y) * CELLS + place(x);
  }

  /** What is drawn, from the back to the front. */
  layers() {
    const alpha = this.lit === null ? 0.85 : 0.16;
    const order = [SINGLE, OTHER, ...this.slots.keys()].filter((slot, at) => at < 2 || slot < OTHER);
    const all = order.map((slot) => ({ members: this.slots[slot], colour: this.palette[slot], alpha }));
    if (this.lit !== null)
      all.push({
        members: this.lit.members,
        colour: this.palette[this.lit.slot],
        alpha: 0.95,
      });
    return all;
  }

  /** All points in view. */
  reset() {
    this.zoom = 1;
    this.x = 0.5; // the centre of the view
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

  /** The distance between points at the same position; it grows with the zoom, so that they come apart. */
  get step() {
    return Math.min(2.1 * this.radius, 0.6 * this.zoom);
  }

  /** The position of a point on the canvas. */
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

  /** Zoom around a position of the canvas, which stays in place. */
  enlarge(factor, px = this.width / 2, py = this.height / 2) {
    const zoom = Math.max(0.8, Math.min(MOST, this.zoom * factor));
    const x = (px - this.width / 2) / this.scaleX + this.x;
    const y = (py - this.height / 2) / this.scaleY + this.y;
    this.zoom = zoom;
    this.x = clamp(x - (px - this.width / 2) / this.scaleX);
    this.y = clamp(y - (py - this.height / 2) / this.scaleY);
    this.changed();
  }

  /** Centre a point. */
  centre(at, zoom) {
    this.zoom = Math.max(this.zoom, zoom);
    this.x = this.xs[at] + (this.step * this.dx[at]) / this.scaleX;
    this.y = this.ys[at] + (this.step * this.dy[at]) / this.scaleY;
    this.changed();
  }

  /** The point nearest to a position of the canvas, or -1 if none is near. */
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
          if (distance < least && (this.lit === null || this.lit.marks.has(at))) {
            least = distance;
            best = at;
          }
        }
      }
    }
    return best;
  }

  /** Draw once before the next frame. */
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
    if (radius < SMALL) this.pixels(radius);
    else {
      for (const { members, colour, alpha } of this.layers()) {
        context.globalAlpha = alpha;
        context.fillStyle = colour;
        this.discs(members, radius);
      }
      context.globalAlpha = 1;
    }
    for (const at of this.marked) this.ring(at, radius + 3, 2);
    if (this.hovered >= 0) this.ring(this.hovered, radius + 4, 2.5);
  }

  /** Many small squares, written as pixels: ten times as fast as canvas calls. */
  pixels(radius) {
    const { canvas, context, xs, ys, dx, dy } = this;
    const ratio = canvas.width / this.width;
    const side = Math.max(1, Math.round(2 * radius * ratio * 0.9));
    const [scaleX, scaleY, step] = [this.scaleX * ratio, this.scaleY * ratio, this.step * ratio];
    const left = canvas.width / 2 - this.x * scaleX - side / 2;
    const top = canvas.height / 2 - this.y * scaleY - side / 2;
    if (this.image?.width !== canvas.width || this.image.height !== canvas.height)
      this.image = context.createImageData(canvas.width, canvas.height);
    const words = new Uint32Array(this.image.data.buffer).fill(0);
    for (const { members, colour, alpha } of this.layers()) {
      const [red, green, blue] = rgb(colour);
      const word = ((Math.round(255 * alpha) << 24) | (blue << 16) | (green << 8) | red) >>> 0;
      for (const at of members) {
        const px = Math.round(xs[at] * scaleX + left + step * dx[at]);
        const py = Math.round(ys[at] * scaleY + top + step * dy[at]);
        if (px < 0 || py < 0 || px + side > canvas.width || py + side > canvas.height) continue;
        for (let row = py; row < py + side; row += 1)
          words.fill(word, row * canvas.width + px, row * canvas.width + px + side);
      }
    }
    context.putImageData(this.image, 0, 0);
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

const known = new Map(); // colours computed so far
const one = document.createElement("canvas").getContext("2d", { willReadFrequently: true });

/** A colour as the screen has it. */
function rgb(colour) {
  if (!known.has(colour)) {
    one.fillStyle = colour;
    one.fillRect(0, 0, 1, 1);
    known.set(colour, [...one.getImageData(0, 0, 1, 1).data].slice(0, 3));
  }
  return known.get(colour);
}

const clamp = (value) => Math.max(-0.2, Math.min(1.2, value));
