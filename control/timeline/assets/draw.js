"use strict";
// Draws the visible part of the chart on the canvas.
//
// Where a state is narrower than a pixel or two, a column shows for which share of its
// time the member was unsettled, in the colour of its longest state.

const AXIS = 40; // two lines: since the first event, and the time of day
const COLUMN = 2;
const CLOSEST = 10; // px between heartbeats: those that are closer are not drawn
const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const MONO = '11px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';

class Painter {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.rects = STATES.map(() => []);
    this.learnColours();
  }

  learnColours() {
    const style = getComputedStyle(document.documentElement);
    this.colours = new Proxy({}, { get: (known, name) => (known[name] ??= style.getPropertyValue(`--${name}`).trim()) });
    this.hatches = {};
    this.context.font = MONO;
    this.digit = this.context.measureText("0").width;
  }

  /** Fits the canvas to its element. */
  resize(width, height) {
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.max(1, Math.round(width * ratio));
    this.canvas.height = Math.max(1, Math.round(height * ratio));
    this.ratio = ratio;
    this.width = width;
    this.height = height;
    this.hatches = {};
  }

  /** Slanted stripes of `ink`, on `ground` or on the drawing below. */
  hatch(name, ink, ground = null) {
    if (this.hatches[name]) return this.hatches[name];
    const tile = document.createElement("canvas");
    const size = Math.round(6 * this.ratio);
    tile.width = size;
    tile.height = size;
    const context = tile.getContext("2d");
    if (ground) {
      context.fillStyle = ground;
      context.fillRect(0, 0, size, size);
    }
    context.strokeStyle = ink;
    context.globalAlpha = 0.5;
    context.lineWidth = size / 4;
    for (const shift of [-size, 0, size]) {
      context.beginPath();
      context.moveTo(shift, size);
      context.lineTo(shift + size, 0);
      context.stroke();
    }
    this.hatches[name] = this.context.createPattern(tile, "repeat");
    this.hatches[name].setTransform(new DOMMatrix().scale(1 / this.ratio));
    return this.hatches[name];
  }

  /** Draws a `Chart`. */
  draw(chart) {
    const { context, width, height, colours } = this;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.fillStyle = colours.bg;
    context.fillRect(0, 0, width, height);
    context.textBaseline = "middle";
    this.left = chart.labels;
    this.from = chart.from;
    this.to = chart.to;
    this.scale = (width - chart.labels) / (chart.to - chart.from);
    const shown = chart.shown;
    context.save();
    context.beginPath();
    context.rect(0, AXIS, width, height - AXIS);
    context.clip();
    this.drawGroups(chart, shown);
    this.drawLanes(chart, shown);
    this.drawGaps(chart);
    this.drawNow(chart);
    for (const row of shown) if (row.kind !== "lane") this.drawHeader(chart, row, row.y);
    if (chart.pinned) this.drawHeader(chart, chart.pinned, chart.pinned.y);
    context.restore();
    this.drawLabelColumn(chart);
    this.drawAxis(chart);
  }

  x(time) {
    return this.left + (time - this.from) * this.scale;
  }

  /** Where a time begins and ends in the chart. */
  across(from, to) {
    return [Math.max(this.left, this.x(from)), Math.min(this.width, this.x(to))];
  }

  /** Of items with `at`, ascending: those in view, and the one before, which may reach into it. */
  inView(items) {
    return items.slice(Math.max(0, lastAtOrBefore(items, this.from)), lastAtOrBefore(items, this.to) + 1);
  }

  /** Generations as bands behind the lanes, rebalances as lines through them. */
  drawGroups(chart, shown) {
    const { context, colours } = this;
    for (const [group, extent] of chart.extents(shown)) {
      const top = extent.top + AXIS;
      const tall = extent.bottom - extent.top;
      context.fillStyle = colours.band;
      this.eachGeneration(group, chart, (generation, x0, x1, index) => {
        if (index % 2 && x1 - x0 >= 2) context.fillRect(x0, top, x1 - x0, tall);
      });
      context.fillStyle = this.hatch("held", colours.accent);
      this.eachHold(group, chart, (x0, x1) => context.fillRect(x0, top, x1 - x0, tall));
      const rebalances = this.inView(group.rebalances);
      context.fillStyle = rebalances.length > 40 ? colours.line : colours["line-strong"];
      let last = -9;
      for (const { at } of rebalances) {
        const x = Math.round(this.x(at));
        if (x < last + 4 || x < this.left) continue;
        last = x;
        for (let y = top; y < top + tall; y += 7) context.fillRect(x, y, 1, Math.min(4, top + tall - y));
      }
    }
  }

  eachHold({ holds }, chart, visit) {
    for (const { at, end } of this.inView(holds)) {
      const [x0, x1] = this.across(at, end ?? chart.now);
      if (x1 > x0) visit(x0, x1);
    }
  }

  eachGeneration({ generations }, chart, visit) {
    const first = Math.max(0, lastAtOrBefore(generations, chart.from));
    this.inView(generations).forEach((generation, i) => {
      const [x0, x1] = this.across(generation.at, generations[first + i + 1]?.at ?? chart.now);
      if (x1 > x0) visit(generation, x0, x1, first + i);
    });
  }

  /** A group's own row: its generations as named bands, its rebalances as bars. */
  drawHeader(chart, row, y) {
    const { context, colours } = this;
    const top = y + AXIS;
    context.fillStyle = colours.group;
    context.fillRect(0, top, this.width, row.height - 1);
    if (!row.group) {
      this.drawTransactions(chart, top + row.height - 5);
      return;
    }
    let painted = this.left;
    this.eachGeneration(row.group, chart, (generation, x0, x1, index) => {
      if (x1 - x0 < 1.5 && x1 <= painted) return;
      painted = Math.max(painted, x1);
      if (!generation.size) return;
      context.fillStyle = index % 2 ? colours.generation : colours.line;
      context.fillRect(x0, top, Math.max(1, x1 - x0), row.height - 1);
      if (x1 - x0 < 28) return;
      const text = x1 - x0 > 96 ? `generation ${generation.number}` : x1 - x0 > 52 ? `gen ${generation.number}` : `${generation.number}`;
      context.font = FONT;
      const shift = 15; // a mark stands where the rebalance began
      if (context.measureText(text).width + shift + 6 < x1 - x0) {
        context.fillStyle = colours.soft;
        context.fillText(text, x0 + shift, top + row.height / 2);
      }
    });
    context.fillStyle = this.hatch("held", colours.accent);
    this.eachHold(row.group, chart, (x0, x1) => context.fillRect(x0, top, x1 - x0, row.height - 1));
    for (const each of this.inView(row.group.rebalances)) {
      if (each.end !== null && each.end < chart.from) continue;
      const x0 = Math.max(this.left, this.x(each.at));
      const joined = Math.max(x0, this.x(each.joined ?? each.end ?? chart.now));
      const x1 = Math.max(x0 + 1, this.x(each.end ?? chart.now));
      context.fillStyle = colours.joining;
      context.fillRect(x0, top + row.height - 5, Math.max(1, joined - x0), 4);
      if (x1 > joined) {
        context.fillStyle = colours.syncing;
        context.fillRect(joined, top + row.height - 5, x1 - joined, 4);
      }
    }
    context.fillStyle = colours.bad;
    for (const { at, end } of this.inView(row.group.unread)) {
      const [x0, x1] = this.across(at, end);
      if (x1 >= x0) context.fillRect(x0, top, Math.max(1, x1 - x0), 3);
    }
  }

  /** Transactions that were open for a while: bars in the broker's row. */
  drawTransactions(chart, top) {
    for (const { transaction } of chart.model.brokerMarks) {
      if (!transaction) continue;
      const [x0, x1] = this.across(transaction.at, transaction.end ?? chart.now);
      this.context.fillStyle = transaction.isBad ? this.colours.bad : this.colours.accent;
      if (x1 >= x0) this.context.fillRect(x0, top, Math.max(1, x1 - x0), 4);
    }
  }

  drawLanes(chart, shown) {
    const { context, colours } = this;
    for (const rects of this.rects) rects.length = 0;
    this.silences = [];
    for (const row of shown) if (row.kind === "lane") this.gather(chart, row);
    const fills = [null, colours.joining, this.hatch("waiting", colours.bg, colours.waiting), colours.syncing, colours.stable, this.hatch("silent", colours.silent, colours.bg)];
    for (const state of [STABLE, JOINING, WAITING, SYNCING, SILENT]) {
      context.fillStyle = fills[state];
      const rects = this.rects[state];
      for (let i = 0; i < rects.length; i += 4) context.fillRect(rects[i], rects[i + 1], rects[i + 2], rects[i + 3]);
    }
    this.drawGone();
    this.writeSilences();
    for (const row of shown) if (row.kind === "lane") this.drawOnLane(chart, row);
  }

  /** The word on the bars of silent members. */
  writeSilences() {
    const { context, colours, silences } = this;
    context.font = FONT;
    const wide = context.measureText("silent").width;
    for (let i = 0; i < silences.length; i += 3) {
      const [x0, x1, y] = silences.slice(i, i + 3);
      if (x1 - x0 < wide + 16) continue;
      context.fillStyle = colours.bg;
      context.fillRect(x0 + 4, y - 7, wide + 8, 14);
      context.fillStyle = colours.ink;
      context.fillText("silent", x0 + 8, y);
    }
  }

  /** Members that are gone: a dotted line. */
  drawGone() {
    const { context } = this;
    const rects = this.rects[GONE];
    context.strokeStyle = this.colours["line-strong"];
    context.lineWidth = 1;
    context.setLineDash([1, 5]);
    context.beginPath();
    for (let i = 0; i < rects.length; i += 4) {
      context.moveTo(rects[i] + 4, Math.round(rects[i + 1]) + 0.5);
      context.lineTo(rects[i + 2], Math.round(rects[i + 1]) + 0.5);
    }
    context.stroke();
    context.setLineDash([]);
  }

  /** The rectangles of a lane's states. */
  gather(chart, row) {
    const { lane } = row;
    const { times, states } = lane;
    const pad = row.height >= 18 ? 4 : row.height >= 12 ? 2 : row.height > 3 ? 1 : 0;
    const top = row.y + AXIS + pad;
    const tall = Math.max(2, row.height - 2 * pad);
    const silent = chart.isLive ? lane.silentSince(chart.now) : null;
    if (silent !== null) {
      const [x0, x1] = this.across(silent, chart.now);
      if (x1 > x0) {
        this.rects[SILENT].push(x0, top, x1 - x0, tall);
        if (row.height >= 18) this.silences.push(x0, x1, top + tall / 2);
      }
    }
    const column = { at: -1, sums: STATES.map(() => 0) };
    for (let i = Math.max(0, lastAtOrBefore(times, chart.from)); i < times.length; i += 1) {
      if (times[i] > chart.to) break;
      const state = states[i];
      const [x0, x1] = this.across(times[i], times[i + 1] ?? silent ?? chart.now);
      if (x1 <= x0) continue;
      const at = Math.floor(x0 / COLUMN) * COLUMN;
      if (x1 - x0 < COLUMN) {
        if (at !== column.at) this.flush(column, at, top, tall);
        column.sums[state] += x1 - x0;
        continue;
      }
      this.flush(column, -1, top, tall);
      if (state === GONE) {
        if (row.height >= LABELLED) this.rects[GONE].push(x0, top + tall / 2, x1, 0);
        continue;
      }
      if (state === JOINING) this.rects[state].push(x0, top + tall * 0.3, x1 - x0, Math.max(1, tall * 0.4));
      else this.rects[state].push(x0, top, x1 - x0, tall);
      if (state === SILENT && row.height >= 18) this.silences.push(x0, x1, top + tall / 2);
    }
    this.flush(column, -1, top, tall);
  }

  flush(column, next, top, tall) {
    const { at, sums } = column;
    if (at >= 0) {
      const [, joining, waiting, syncing, stable, silent] = sums;
      const unsettled = joining + waiting + syncing + silent;
      if (stable > 0 || sums[GONE] < COLUMN / 2) this.rects[STABLE].push(at, top, COLUMN, tall);
      if (unsettled > 0) {
        const most = [JOINING, WAITING, SYNCING, SILENT].reduce((first, state) => (sums[state] > sums[first] ? state : first));
        const high = clamp((unsettled / COLUMN) * tall, Math.min(tall, 3), tall);
        this.rects[most].push(at, top + tall - high, COLUMN, high);
      }
      sums.fill(0);
    }
    column.at = next;
  }

  /** Draws on a lane's bars: partitions, heartbeats, commits, the last sign of life. */
  drawOnLane(chart, row) {
    const { context, colours } = this;
    const { lane } = row;
    const top = row.y + AXIS;
    const strip = row.height >= 18 ? 4 : row.height >= 12 ? 2 : 0;
    this.inView(lane.owned).forEach((owned, i, all) => {
      const [x0, x1] = this.across(owned.at, all[i + 1]?.at ?? chart.now);
      if (!owned.count || x1 - x0 < 1) return;
      if (strip) {
        const share = owned.count / lane.group.mostOwned;
        context.fillStyle = colours.owned;
        context.fillRect(x0, top + row.height - strip, x1 - x0, Math.max(1, strip * share - 1));
      }
      if (row.height >= 18 && x1 - x0 > 24) this.writeOwned(owned, lane, chart, row, x0, x1);
    });
    if (row.height >= LABELLED) {
      this.drawTicks(lane.beats, chart, top + (row.height >= 18 ? 4 : 2), 4, colours.beat, 1);
      this.drawTicks(lane.commits, chart, top + row.height - 7, 3, colours.owned, 3);
    } else this.drawTicks(lane.marks, chart, top, row.height, colours.bad, 2);
    if (lane.heard !== null && lane.state !== GONE && chart.isLive && row.height >= LABELLED) {
      const x = this.x(lane.heard);
      if (x > this.left && x < this.width) {
        context.fillStyle = colours.beat;
        context.beginPath();
        context.arc(x, top + row.height / 2, 2.5, 0, 7);
        context.fill();
      }
    }
  }

  /** The partitions that a member has, in the bars of the time when it is stable. */
  writeOwned(owned, lane, chart, row, x0, x1) {
    const { context, colours } = this;
    const from = (x0 - this.left) / this.scale + this.from;
    const to = (x1 - this.left) / this.scale + this.from;
    context.font = MONO;
    context.fillStyle = colours["stable-ink"];
    let written = -Infinity;
    for (let i = Math.max(0, lastAtOrBefore(lane.times, from)); i < lane.times.length && lane.times[i] < to; i += 1) {
      if (lane.states[i] !== STABLE) continue;
      const begin = Math.max(x0, this.x(lane.times[i]));
      const end = Math.min(x1, this.x(i + 1 < lane.times.length ? lane.times[i + 1] : chart.now));
      if (end - begin < 24 || begin - written < 160) continue;
      const text = textsOf(owned).find((each) => each.length * this.digit + 14 < end - begin);
      if (!text) continue;
      context.fillText(text, begin + 8, row.y + AXIS + row.height / 2);
      written = begin;
    }
  }

  /** Short lines at moments, or at items with `at`; moments that would run together have none. */
  drawTicks(items, chart, y, tall, colour, wide) {
    const timeOf = (item) => item.at ?? item;
    const first = lastAtOrBefore(items, chart.from) + 1;
    const last = lastAtOrBefore(items, chart.to);
    if (last < first) return;
    const apart = ((timeOf(items[last]) - timeOf(items[first])) * this.scale) / Math.max(1, last - first);
    if (last > first && apart < CLOSEST && items[first].at === undefined) return;
    this.context.fillStyle = colour;
    for (let i = first; i <= last; i += 1) {
      const x = this.x(timeOf(items[i]));
      if (x >= this.left) this.context.fillRect(Math.round(x), y, wide, tall);
    }
  }

  /** Marks a gap in the events: the drawing shows the state before it. */
  drawGaps(chart) {
    const { context } = this;
    for (const { from, at } of chart.model.gaps) {
      const x0 = Math.max(this.left, this.x(from));
      const x1 = Math.min(this.width, Math.max(this.x(at), this.x(from) + 2));
      if (x1 <= x0) continue;
      context.fillStyle = this.hatch("gap", this.colours.bad);
      context.fillRect(x0, AXIS, x1 - x0, this.height - AXIS);
    }
  }

  drawNow(chart) {
    if (!chart.isLive) return;
    const x = Math.round(this.x(chart.now));
    if (x < this.left || x > this.width) return;
    this.context.fillStyle = this.colours.accent;
    this.context.fillRect(x, AXIS, 1, this.height - AXIS);
  }

  drawLabelColumn(chart) {
    const { context, colours } = this;
    for (const row of [...chart.shown, ...(chart.pinned ? [chart.pinned] : [])]) {
      const isLane = row.kind === "lane";
      context.fillStyle = isLane ? colours.bg : colours.group;
      const tall = isLane ? row.height : row.height - 1;
      context.fillRect(0, Math.max(AXIS, row.y + AXIS), chart.labels, Math.min(tall, row.y + tall));
    }
    context.fillStyle = colours["line-strong"];
    context.fillRect(chart.labels - 1, AXIS, 1, this.height - AXIS);
  }

  drawAxis(chart) {
    const { context, colours } = this;
    context.fillStyle = colours.bg;
    context.fillRect(0, 0, this.width, AXIS);
    const step = tickStep(1 / this.scale);
    context.font = FONT;
    for (let tick = Math.ceil(chart.from / step) * step; tick <= chart.to; tick += step) {
      const x = Math.round(this.x(tick));
      context.fillStyle = colours["line-strong"];
      context.fillRect(x, AXIS - 6, 1, 6);
      const texts = [moment(Math.round(tick * 1e6) / 1e6, step), timeOfDay(chart.model.clockAt(tick), step)];
      if (x + Math.max(...texts.map((text) => context.measureText(text).width)) + 4 >= this.width) continue;
      texts.forEach((text, line) => {
        context.fillStyle = line ? colours.soft : colours.ink;
        context.fillText(text, x + 4, 11 + 15 * line);
      });
    }
    const day = clockTime(chart.model.clockAt(Math.max(0, chart.from))).slice(0, 10);
    context.fillStyle = colours.ink;
    context.fillText("since the first event", 8, 11, chart.labels - 12);
    context.fillStyle = colours.soft;
    context.fillText(day && `${day} UTC`, 8, 26, chart.labels - 12);
    context.fillStyle = colours["line-strong"];
    context.fillRect(0, AXIS - 1, this.width, 1);
  }
}

/** All of the time in a strip: how much of the shown groups' time went into rebalances. */
class Overview {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.key = "";
    this.shares = new Float64Array(0);
  }

  count(chart, width) {
    const from = chart.start;
    const span = chart.now - chart.start || 1;
    this.shares = new Float64Array(width);
    const groups = chart.model.groupsLike(chart.filter);
    for (const group of groups) {
      for (const each of group.rebalances) {
        const x0 = ((each.at - from) / span) * width;
        const x1 = ((Math.min(each.end ?? chart.now, chart.now) - from) / span) * width;
        for (let x = Math.floor(x0); x <= Math.min(x1, width - 1); x += 1) {
          this.shares[x] += Math.max(0.02, Math.min(x1, x + 1) - Math.max(x0, x));
        }
      }
    }
    this.groups = Math.max(1, groups.length);
    this.most = clamp(Math.max(...this.shares) / this.groups, 1e-9, 1);
  }

  draw(chart, colours, isNew) {
    const ratio = window.devicePixelRatio || 1;
    const width = Math.max(1, Math.round(this.canvas.clientWidth));
    const height = this.canvas.clientHeight;
    if (this.canvas.width !== width * ratio || this.canvas.height !== height * ratio) {
      this.canvas.width = width * ratio;
      this.canvas.height = height * ratio;
    }
    if (isNew || this.shares.length !== width) this.count(chart, width);
    const { context } = this;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = colours.raised;
    context.fillRect(0, 0, width, height);
    context.fillStyle = colours.joining;
    for (let x = 0; x < width; x += 1) {
      if (!this.shares[x]) continue;
      const high = clamp((this.shares[x] / this.groups / this.most) * (height - 8), 3, height - 4);
      context.fillRect(x, height - high, 1, high);
    }
    const span = chart.now - chart.start || 1;
    const x0 = clamp(((chart.from - chart.start) / span) * width, 0, width);
    const x1 = clamp(((chart.to - chart.start) / span) * width, 0, width);
    context.fillStyle = colours["line-strong"];
    context.globalAlpha = 0.35;
    context.fillRect(0, 0, x0, height);
    context.fillRect(x1, 0, width - x1, height);
    context.globalAlpha = 1;
    context.strokeStyle = colours.accent;
    context.lineWidth = 2;
    context.strokeRect(x0 + 1, 1, Math.max(2, x1 - x0 - 2), height - 2);
  }
}
