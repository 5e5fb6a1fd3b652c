"use strict";
// Draws what is in view, and nothing else, on the canvas.
//
// Where a state is narrower than a pixel or two, a column shows for which share of its
// time the member was unsettled, in the colour of what it did the longest.

const AXIS = 28;
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

  /** Slanted stripes of `ink`, on `ground` or on what is there. */
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

  /** Draws the chart: see `Chart` for what it has. */
  draw(chart) {
    const { context, width, height, colours } = this;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.fillStyle = colours.bg;
    context.fillRect(0, 0, width, height);
    context.textBaseline = "middle";
    this.left = chart.labels;
    this.from = chart.from;
    this.scale = (width - chart.labels) / (chart.to - chart.from);
    const shown = chart.visible();
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
      let i = Math.max(0, firstReaching(group.rebalances, chart.from));
      const isDense = firstReaching(group.rebalances, chart.to) - i > 40;
      context.fillStyle = isDense ? colours.line : colours["line-strong"];
      let last = -9;
      for (; i < group.rebalances.length && group.rebalances[i].start <= chart.to; i += 1) {
        const x = Math.round(this.x(group.rebalances[i].start));
        if (x < last + 4 || x < this.left) continue;
        last = x;
        for (let y = top; y < top + tall; y += 7) context.fillRect(x, y, 1, Math.min(4, top + tall - y));
      }
    }
  }

  eachGeneration(group, chart, visit) {
    const { generations } = group;
    for (let i = Math.max(0, firstReaching(generations, chart.from, "at")); i < generations.length; i += 1) {
      const generation = generations[i];
      if (generation.at > chart.to) break;
      const end = i + 1 < generations.length ? generations[i + 1].at : chart.now;
      const x0 = Math.max(this.left, this.x(generation.at));
      const x1 = Math.min(this.width, this.x(end));
      if (x1 > x0) visit(generation, x0, x1, i);
    }
  }

  /** A group's own row: its generations as named bands, its rebalances as bars. */
  drawHeader(chart, row, y) {
    const { context, colours } = this;
    const top = y + AXIS;
    context.fillStyle = colours.group;
    context.fillRect(0, top, this.width, row.height - 1);
    if (!row.group) return;
    let painted = this.left;
    this.eachGeneration(row.group, chart, (generation, x0, x1, index) => {
      if (x1 - x0 < 1.5 && x1 <= painted) return;
      painted = Math.max(painted, x1);
      if (!generation.size) return;
      context.fillStyle = index % 2 ? colours.generation : colours.line;
      context.fillRect(x0, top, Math.max(1, x1 - x0), row.height - 1);
      const text = x1 - x0 > 96 ? `generation ${generation.number}` : x1 - x0 > 52 ? `gen ${generation.number}` : `${generation.number}`;
      context.font = FONT;
      const shift = 15; // a mark stands where the rebalance began
      if (context.measureText(text).width + shift + 6 < x1 - x0) {
        context.fillStyle = colours.soft;
        context.fillText(text, x0 + shift, top + row.height / 2);
      }
    });
    const { rebalances } = row.group;
    for (let i = Math.max(0, firstReaching(rebalances, chart.from)); i < rebalances.length && rebalances[i].start <= chart.to; i += 1) {
      const each = rebalances[i];
      if (each.end !== null && each.end < chart.from) continue;
      const x0 = Math.max(this.left, this.x(each.start));
      const joined = Math.max(x0, this.x(each.joined ?? each.end ?? chart.now));
      const x1 = Math.max(x0 + 1, this.x(each.end ?? chart.now));
      context.fillStyle = colours.joining;
      context.fillRect(x0, top + row.height - 5, Math.max(1, joined - x0), 4);
      if (x1 > joined) {
        context.fillStyle = colours.syncing;
        context.fillRect(joined, top + row.height - 5, x1 - joined, 4);
      }
    }
  }

  drawLanes(chart, shown) {
    const { context, colours } = this;
    for (const rects of this.rects) rects.length = 0;
    for (const row of shown) if (row.kind === "lane") this.gather(chart, row);
    const fills = [null, colours.joining, this.hatch("waiting", colours.bg, colours.waiting), colours.syncing, colours.stable];
    for (const state of [STABLE, JOINING, WAITING, SYNCING]) {
      context.fillStyle = fills[state];
      const rects = this.rects[state];
      for (let i = 0; i < rects.length; i += 4) context.fillRect(rects[i], rects[i + 1], rects[i + 2], rects[i + 3]);
    }
    this.drawGone();
    for (const row of shown) if (row.kind === "lane") this.drawOnLane(chart, row);
  }

  /** Who was there, and is gone: a dotted line. */
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
    const column = { at: -1, sums: [0, 0, 0, 0, 0] };
    for (let i = Math.max(0, lastAtOrBefore(times, chart.from)); i < times.length; i += 1) {
      if (times[i] > chart.to) break;
      const state = states[i];
      const end = i + 1 < times.length ? times[i + 1] : chart.now;
      const x0 = Math.max(this.left, this.x(times[i]));
      const x1 = Math.min(this.width, this.x(end));
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
    }
    this.flush(column, -1, top, tall);
  }

  flush(column, next, top, tall) {
    const { at, sums } = column;
    if (at >= 0) {
      const [, joining, waiting, syncing, stable] = sums;
      const unsettled = joining + waiting + syncing;
      if (stable > 0 || sums[GONE] < COLUMN / 2) this.rects[STABLE].push(at, top, COLUMN, tall);
      if (unsettled > 0) {
        const most = joining >= waiting && joining >= syncing ? JOINING : waiting >= syncing ? WAITING : SYNCING;
        const high = clamp((unsettled / COLUMN) * tall, Math.min(tall, 3), tall);
        this.rects[most].push(at, top + tall - high, COLUMN, high);
      }
      sums.fill(0);
    }
    column.at = next;
  }

  /** What is on a lane's bars: partitions, heartbeats, commits, when it was last heard of. */
  drawOnLane(chart, row) {
    const { context, colours } = this;
    const { lane } = row;
    const top = row.y + AXIS;
    const { ownedTimes, owned } = lane;
    const strip = row.height >= 18 ? 4 : row.height >= 12 ? 2 : 0;
    for (let i = Math.max(0, lastAtOrBefore(ownedTimes, chart.from)); i < owned.length; i += 1) {
      if (ownedTimes[i] > chart.to) break;
      if (!owned[i].count) continue;
      const x0 = Math.max(this.left, this.x(ownedTimes[i]));
      const x1 = Math.min(this.width, this.x(i + 1 < owned.length ? ownedTimes[i + 1] : chart.now));
      if (x1 - x0 < 1) continue;
      if (strip) {
        const share = owned[i].count / lane.group.mostOwned;
        context.fillStyle = colours.owned;
        context.fillRect(x0, top + row.height - strip, Math.max(1, (x1 - x0)), Math.max(1, strip * share - 1));
      }
      if (row.height >= 18 && x1 - x0 > 24) this.writeOwned(owned[i], lane, chart, row, x0, x1);
    }
    if (row.height >= LABELLED) {
      this.drawTicks(lane.beats, chart, top + (row.height >= 18 ? 4 : 2), 4, colours.beat, 1);
      this.drawTicks(lane.commits, chart, top + row.height - 7, 3, colours.owned, 3);
    } else this.drawTicks(lane.marks, chart, top, row.height, colours.bad, 2, "at");
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

  /** Short lines at moments, unless they would run together. */
  drawTicks(items, chart, y, tall, colour, wide, key = null) {
    const timeOf = key ? (item) => item[key] : (item) => item;
    const find = key ? (time) => firstReaching(items, time, key) : (time) => lastAtOrBefore(items, time);
    const first = find(chart.from) + 1;
    const last = find(chart.to);
    if (last < first) return;
    const apart = ((timeOf(items[last]) - timeOf(items[first])) * this.scale) / Math.max(1, last - first);
    if (!key && last > first && apart < CLOSEST) return;
    this.context.fillStyle = colour;
    for (let i = first; i <= last; i += 1) {
      const x = this.x(timeOf(items[i]));
      if (x >= this.left) this.context.fillRect(Math.round(x), y, wide, tall);
    }
  }

  /** Where events are missing, what is drawn is what was known before. */
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
    context.fillStyle = colours.bg;
    for (const row of chart.visible()) {
      if (row.kind === "lane") context.fillRect(0, Math.max(AXIS, row.y + AXIS), chart.labels, row.height);
    }
    for (const row of [...chart.visible(), ...(chart.pinned ? [chart.pinned] : [])]) {
      if (row.kind === "lane") continue;
      context.fillStyle = colours.group;
      context.fillRect(0, Math.max(AXIS, row.y + AXIS), chart.labels, Math.min(row.height - 1, row.y + row.height - 1));
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
      context.fillStyle = colours.soft;
      const text = moment(Math.round(tick * 1e6) / 1e6, step);
      if (x + context.measureText(text).width + 4 < this.width) context.fillText(text, x + 4, AXIS / 2);
    }
    context.fillStyle = colours.soft;
    context.fillText("since the first event", 8, AXIS / 2, chart.labels - 12);
    context.fillStyle = colours["line-strong"];
    context.fillRect(0, AXIS - 1, this.width, 1);
  }
}

/** The index of the last of ascending `items` that begins at or before `time`. */
function firstReaching(items, time, key = "start") {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (items[middle][key] <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
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
    let groups = 0;
    for (const group of chart.model.groups.values()) {
      if (chart.filter.group && group.name !== chart.filter.group) continue;
      groups += 1;
      for (const each of group.rebalances) {
        const x0 = ((each.start - from) / span) * width;
        const x1 = ((Math.min(each.end ?? chart.now, chart.now) - from) / span) * width;
        for (let x = Math.floor(x0); x <= Math.min(x1, width - 1); x += 1) {
          this.shares[x] += Math.max(0.02, Math.min(x1, x + 1) - Math.max(x0, x));
        }
      }
    }
    this.most = Math.max(1e-9, Math.min(1, this.shares.reduce((most, each) => Math.max(most, each), 0) / Math.max(1, groups)));
    this.groups = Math.max(1, groups);
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
