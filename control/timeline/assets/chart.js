"use strict";
// The chart: which time and which rows are in view, and when it is drawn.

const LEAST_SPAN = 0.01; // ms

class Chart {
  constructor(model, { open, changed }) {
    this.model = model;
    this.filter = { group: "", find: "", hidesGone: false };
    this.start = 0;
    this.from = 0;
    this.to = 1000;
    this.now = 0;
    this.isLive = false;
    this.isFollowing = false;
    this.rowHeight = 24;
    this.active = 0;
    this.activeMarks = null;
    this.element = byId("chart");
    this.scroller = byId("scroller");
    this.painter = new Painter(byId("canvas"));
    this.overview = new Overview(byId("overview"));
    this.elements = new RowElements(this, byId("rows"), open);
    this.changed = changed;
    this.laid = { rows: [], height: 0 };
    this.drawn = { version: -1, filter: "" };
    this.frame = 0;
    this.frames = []; // how long the last ones took, ms
    this.scroller.addEventListener("scroll", () => this.redraw(), { passive: true });
    new ResizeObserver(() => this.resize()).observe(this.element);
    this.resize();
  }

  get isNarrow() {
    return this.painter.width < 620;
  }

  get labels() {
    return this.isNarrow ? 116 : 270;
  }

  get scale() {
    return (this.painter.width - this.labels) / (this.to - this.from);
  }

  timeAt(x) {
    return this.from + (x - this.labels) / this.scale;
  }

  resize() {
    this.painter.resize(this.element.clientWidth, this.element.clientHeight);
    this.redraw();
  }

  recolour() {
    this.painter.learnColours();
    this.redraw();
  }

  /** Lays the rows anew: groups, lanes, filters or heights have changed. */
  layout() {
    const before = this.laid.rows[this.active];
    this.laid = layRows(this.model, this.filter, this.rowHeight);
    set(byId("spacer").style, "height", `${this.laid.height}px`);
    const key = before && this.elements.keyOf(before);
    const again = before ? this.laid.rows.findIndex((row) => this.elements.keyOf(row) === key) : 0;
    this.active = Math.max(0, again);
    attribute(byId("rows"), "aria-rowcount", this.laid.rows.length);
    this.shape = this.model.shape;
    this.drawn.version = -1;
    this.redraw();
  }

  /** The rows in view, each with where it is now: `y`. */
  findVisible() {
    const top = this.scroller.scrollTop;
    const bottom = top + this.painter.height - AXIS;
    const { rows } = this.laid;
    const shown = [];
    for (let i = Math.max(0, rows.findLastIndex((row) => row.top <= top)); i < rows.length && rows[i].top < bottom; i += 1) {
      shown.push({ ...rows[i], y: rows[i].top - top });
    }
    this.shown = shown;
    this.pinned = null;
    const first = shown[0];
    if (first && first.kind !== "broker" && first.y < 0 && first.group) this.pin(first, rows, shown);
  }

  /** Keeps the name of the group at the top, while its lanes go by. */
  pin(first, rows, shown) {
    let index = first.index;
    while (rows[index].kind !== "group") index -= 1;
    const next = shown.find((row) => row.index > index && row.kind === "group");
    const y = next ? Math.min(0, next.y - rows[index].height - 6) : 0;
    if (y > -rows[index].height) this.pinned = { ...rows[index], y };
    this.shown = shown.filter((row) => row.index !== index);
  }

  /** Of each group in view, from where to where its lanes are. */
  extents(shown) {
    const found = new Map();
    for (const row of shown) {
      if (row.kind !== "lane") continue;
      const extent = found.get(row.group);
      if (extent) extent.bottom = row.y + row.height;
      else found.set(row.group, { top: row.y, bottom: row.y + row.height });
    }
    return found;
  }

  redraw() {
    if (!this.frame) this.frame = requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.frame = 0;
    const began = performance.now();
    if (!this.element.offsetParent && this.element.clientHeight === 0) return;
    if (this.shape !== this.model.shape) {
      this.layout();
      cancelAnimationFrame(this.frame);
      this.frame = 0;
    }
    this.now = Math.max(this.now, this.model.end);
    if (this.isFollowing) this.keepUp();
    this.findVisible();
    this.painter.draw(this);
    const filter = `${this.filter.group}/${this.start}`;
    const isNew = filter !== this.drawn.filter || (this.model.version !== this.drawn.version && began - (this.drawn.when ?? 0) > 500);
    this.overview.draw(this, this.painter.colours, isNew || this.drawn.version < 0);
    if (isNew || this.drawn.version < 0) this.drawn = { version: this.model.version, filter, when: began };
    this.elements.show(this.pinned ? [this.pinned, ...this.shown] : this.shown, this.active);
    set(byId("empty"), "hidden", this.laid.rows.length > 0);
    set(byId("empty"), "textContent", this.model.events ? "Nothing matches the filters." : "No events yet.");
    this.frames.push(performance.now() - began);
    if (this.frames.length > 240) this.frames.shift();
  }

  keepUp() {
    const span = this.to - this.from;
    const to = this.now + span * 0.03;
    this.from = Math.max(this.start - span * 0.02, to - span);
    this.to = this.from + span;
  }

  /** Shows this time, by and by unless motion is unwelcome. */
  view(from, to, { glide = false } = {}) {
    const whole = Math.max(1, this.now - this.start);
    const span = clamp(to - from, LEAST_SPAN, whole * 1.5 + 1000);
    const middle = clamp((from + to) / 2, this.start - span * 0.4, this.start + whole + span * 0.4);
    const target = [middle - span / 2, middle + span / 2];
    cancelAnimationFrame(this.gliding);
    if (!glide || matchMedia("(prefers-reduced-motion: reduce)").matches) {
      [this.from, this.to] = target;
      this.redraw();
    } else this.glide(target);
    this.changed();
  }

  glide([from, to]) {
    const began = performance.now();
    const [from0, to0] = [this.from, this.to];
    const step = (time) => {
      const part = clamp((time - began) / 160, 0, 1);
      const eased = 1 - (1 - part) ** 3;
      this.from = from0 + (from - from0) * eased;
      this.to = to0 + (to - to0) * eased;
      this.redraw();
      if (part < 1) this.gliding = requestAnimationFrame(step);
    };
    this.gliding = requestAnimationFrame(step);
  }

  /** Zooms around a moment that stays where it is. */
  zoom(factor, around = (this.from + this.to) / 2, options = {}) {
    const isAtEnd = this.isFollowing;
    const fixed = isAtEnd ? this.to : around;
    this.view(fixed - (fixed - this.from) * factor, fixed + (this.to - fixed) * factor, isAtEnd ? {} : options);
  }

  pan(ms, options = {}) {
    this.unfollow();
    this.view(this.from + ms, this.to + ms, options);
  }

  fit(options = {}) {
    const whole = Math.max(1, this.now - this.start);
    this.unfollow();
    this.view(this.start - whole * 0.025, this.now + whole * 0.02, options);
  }

  follow() {
    this.isFollowing = true;
    this.changed();
    this.redraw();
  }

  unfollow() {
    if (this.isFollowing) {
      this.isFollowing = false;
      this.changed();
    }
  }

  setRowHeight(steps) {
    const at = ROW_HEIGHTS.indexOf(this.rowHeight);
    this.rowHeight = ROW_HEIGHTS[clamp(at + steps, 0, ROW_HEIGHTS.length - 1)];
    const row = this.laid.rows[this.active];
    const was = row ? row.top - this.scroller.scrollTop : 0;
    this.layout();
    const again = this.laid.rows[this.active];
    if (again && was >= 0 && was < this.painter.height) this.scroller.scrollTop = again.top - was;
  }

  // -- rows and marks with the keyboard

  activate(row, marks) {
    this.activeMarks = marks;
    if (!row || this.active === row.index) return;
    this.active = row.index;
    this.redraw();
  }

  pressRow(row) {
    if (row.kind === "group") {
      row.group.isOpen = !row.group.isOpen;
      this.model.shape += 1;
      this.redraw();
    } else if (row.kind === "lane") this.elements.open([{ lane: row.lane, at: this.now, isMoment: true }], this.elements.labelOf(row));
  }

  /** Goes to a row, scrolls to it, and has it focused. */
  goToRow(index) {
    const row = this.laid.rows[clamp(index, 0, this.laid.rows.length - 1)];
    if (!row) return;
    this.active = row.index;
    this.activeMarks = null;
    const head = row.kind === "lane" ? GROUP_HEIGHT : 0;
    const room = this.painter.height - AXIS;
    const top = this.scroller.scrollTop;
    if (row.top - head < top) this.scroller.scrollTop = row.top - head;
    else if (row.top + row.height > top + room) this.scroller.scrollTop = row.top + row.height - room;
    this.draw();
    this.elements.labelOf(row)?.focus({ preventScroll: true });
  }

  /** Goes to the next (1) or the previous (-1) mark of the row. */
  goToMark(direction) {
    const row = this.laid.rows[this.active];
    if (!row) return;
    const marks = marksOf(row, this.model);
    let index;
    if (this.activeMarks?.length && marks.includes(this.activeMarks[0])) {
      const from = direction > 0 ? this.activeMarks[this.activeMarks.length - 1] : this.activeMarks[0];
      index = marks.indexOf(from) + direction;
    } else if (direction > 0) index = lastAtOrBefore(marks, this.from) + 1;
    else index = lastAtOrBefore(marks, this.to);
    if (index < 0) {
      this.goToRow(row.index);
      return;
    }
    if (index >= marks.length) return;
    this.showMark(row, marks[index]);
  }

  showMark(row, mark) {
    const margin = (this.to - this.from) * 0.06;
    if (mark.at < this.from + margin || mark.at > this.to - margin) {
      const span = this.to - this.from;
      this.unfollow();
      this.view(mark.at - span / 2, mark.at + span / 2);
    }
    this.draw();
    const button = this.elements.buttonOf(row, mark);
    if (button) button.focus({ preventScroll: true });
    else this.elements.open([mark], this.elements.labelOf(row));
  }

  /** The row and the moment at a place of the chart. */
  at(x, y) {
    const row = [...(this.pinned ? [this.pinned] : []), ...this.shown].find((each) => y - AXIS >= each.y && y - AXIS < each.y + each.height);
    return { row: row ?? null, time: this.timeAt(x) };
  }
}
