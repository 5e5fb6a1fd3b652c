"use strict";
// The rows in view as elements: names beside the lanes, and marks as buttons on them.
//
// Only visible rows and marks have elements, which are reused.

const CLOSER = 17; // px: marks closer than this are one
const MOST_MARKS = 500; // elements at a time; the others are lines on the canvas

/** Marks of a row in view, those too close to each other together. */
function clusters(marks, chart, scale) {
  const found = [];
  let current = null;
  const margin = 8 / scale;
  for (let i = lastAtOrBefore(marks, chart.from - margin) + 1; i < marks.length && marks[i].at <= chart.to + margin; i += 1) {
    const x = (marks[i].at - chart.from) * scale;
    if (current && x - current.x < CLOSER) current.last = i;
    else {
      current = { x, first: i, last: i };
      found.push(current);
    }
  }
  return found;
}

/** A name of a narrow screen: members most often differ at its end. */
const cutShort = (name) => shown(name, 13);

class RowElements {
  constructor(chart, container, open) {
    this.chart = chart;
    this.container = container;
    this.open = open;
    this.rows = new Map(); // lane, group or "broker" -> elements of its row
  }

  keyOf(row) {
    return row.lane ?? row.group ?? "broker";
  }

  /** Shows these rows, each with the `y` where it is. */
  show(rows, active) {
    const { scale } = this.chart;
    const wanted = new Map(rows.filter((row) => row.height >= LABELLED || row.index === active).map((row) => [this.keyOf(row), row]));
    this.remove(wanted);
    let budget = MOST_MARKS;
    let next = this.container.firstElementChild;
    for (const [key, row] of wanted) {
      const shown = this.rows.get(key) ?? this.create(key);
      this.place(shown, row, active);
      next = this.inOrder(shown.element, next);
      budget -= row.height < LABELLED ? 0 : this.showMarks(shown, row, scale, budget);
    }
  }

  /** Removes the elements of other rows; one that has the focus goes out of sight. */
  remove(wanted) {
    for (const [key, { element }] of this.rows) {
      if (wanted.has(key)) continue;
      if (element.contains(document.activeElement)) set(element.style, "transform", "translateY(-500px)");
      else {
        element.remove();
        this.rows.delete(key);
      }
    }
  }

  /** Puts a row's element before `next`: screen readers read rows in the order on the screen. */
  inOrder(element, next) {
    if (element === next) return next.nextElementSibling;
    if (!element.contains(document.activeElement)) this.container.insertBefore(element, next);
    return next;
  }

  create(key) {
    const dot = make("i", { class: "dot" });
    const name = make("span", { class: "name" });
    const what = make("span", { class: "what" });
    const label = make("div", { class: "label", role: "rowheader", tabindex: "-1" }, dot, name, what);
    const track = make("div", { class: "track", role: "gridcell" });
    const element = make("div", { class: "row", role: "row" }, label, track);
    this.container.append(element);
    const shown = { element, label, dot, name, what, track, buttons: [], key, row: null };
    label.addEventListener("click", () => this.chart.pressRow(shown.row));
    label.addEventListener("focus", () => this.chart.activate(shown.row, null));
    this.rows.set(key, shown);
    return shown;
  }

  place(shown, row, active) {
    const { chart } = this;
    shown.row = row;
    const { element, label } = shown;
    const height = Math.max(row.height, row.kind === "lane" ? LABELLED : 0);
    set(element.style, "transform", `translateY(${row.y}px)`);
    set(element.style, "height", `${height}px`);
    set(label.style, "width", `${chart.labels - 1}px`);
    set(shown.track.style, "left", `${chart.labels}px`);
    set(label, "tabIndex", row.index === active ? 0 : -1);
    const state = row.kind === "lane" ? row.lane.stateName(chart) : "";
    const name = row.kind === "broker" ? "broker" : row.kind === "group" ? row.group.title : row.lane.name;
    const isLeader = row.kind === "lane" && row.group.leader === row.lane.memberId && row.lane.state !== GONE;
    set(element, "className", `row ${row.kind}${height < 18 ? " low" : ""}${state === "gone" ? " is-gone" : ""}`);
    set(shown.dot, "hidden", row.kind !== "lane");
    if (shown.dot.dataset.state !== state) shown.dot.dataset.state = state;
    set(shown.name, "textContent", chart.isNarrow && row.kind === "lane" ? cutShort(name) : name);
    set(shown.what, "textContent", isLeader ? `\u2605 ${noteOf(row)}` : noteOf(row));
    attribute(label, "aria-label", describeRow(row, chart));
    set(label, "title", row.kind === "lane" ? shownInFull(row.lane.memberId) : row.kind === "group" ? describeRow(row, chart) : "");
    attribute(element, "aria-rowindex", row.index + 1);
    attribute(element, "aria-level", row.kind === "lane" ? 2 : 1);
    if (row.kind === "group") attribute(element, "aria-expanded", row.group.isOpen);
  }

  /** Puts the marks where they are; how many there are. */
  showMarks(shown, row, scale, budget) {
    const marks = marksOf(row, this.chart.model);
    const found = marks.length ? clusters(marks, this.chart, scale).slice(0, Math.max(0, budget)) : [];
    while (shown.buttons.length < found.length) this.addButton(shown);
    shown.buttons.forEach((button, i) => {
      set(button, "hidden", i >= found.length);
      if (i < found.length) this.placeMark(button, found[i], marks, row);
    });
    return found.length;
  }

  addButton(shown) {
    const button = make("button", { type: "button", class: "mark", tabindex: "-1" });
    button.addEventListener("click", () => this.open(button.marks, button));
    button.addEventListener("focus", () => this.chart.activate(shown.row, button.marks));
    shown.buttons.push(button);
    shown.track.append(button);
  }

  placeMark(button, cluster, marks, row) {
    set(button.style, "transform", `translateX(${Math.round(cluster.x)}px)`);
    const first = marks[cluster.first];
    const size = cluster.last - cluster.first + 1;
    const id = `${size}/${first.rebalance?.generation}/${first.shards?.partitions.length}`;
    if (button.first === first && button.idOf === id) return;
    button.first = first;
    button.idOf = id;
    button.marks = marks.slice(cluster.first, cluster.last + 1);
    const [sign, isBad] = signOf(first);
    button.textContent = size === 1 ? sign : size > 99 ? "99+" : `${size}`;
    const anyBad = size === 1 ? isBad : button.marks.some((each) => signOf(each)[1]);
    button.className = `mark${size > 1 ? " several" : ""}${anyBad ? " bad" : ""}${row.kind === "lane" ? " small" : ""}`;
    const title = size === 1 ? titleOf(first) : `${count(size, "mark")}, from ${titleOf(first)}`;
    attribute(button, "aria-label", `${title} At ${moment(first.at)}.`);
    button.title = title;
  }

  /** The button that shows a mark now, if one does. */
  buttonOf(row, mark) {
    const shown = this.rows.get(this.keyOf(row));
    return shown?.buttons.find((button) => !button.hidden && button.marks.includes(mark)) ?? null;
  }

  labelOf(row) {
    return this.rows.get(this.keyOf(row))?.label ?? null;
  }
}

/** Sets a property, if that changes it: an equal value costs no layout. */
function set(object, name, value) {
  if (object[name] !== value) object[name] = value;
}

function attribute(element, name, value) {
  if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}
