"use strict";
// Mouse, touch and keyboard on the chart.

/** The pointers that are down on an element, and what to do while they move. */
function takePointers(chart, element, tap) {
  const down = new Map();
  let moved = 0;
  element.addEventListener("pointerdown", (event) => {
    if (event.button > 0 || event.offsetX >= element.clientWidth) return; // not the scroll bar
    down.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (down.size === 1) moved = 0;
    element.setPointerCapture(event.pointerId);
  });
  element.addEventListener("pointermove", (event) => {
    const before = down.get(event.pointerId);
    if (!before) return;
    const dx = event.clientX - before.x;
    const dy = event.clientY - before.y;
    moved += Math.abs(dx) + Math.abs(dy);
    if (moved < 4 && down.size === 1) return;
    element.classList.add("dragging");
    if (down.size === 2) pinch(chart, element, down, event);
    else if (down.size === 1) {
      if (dx) chart.pan(-dx / chart.scale);
      element.scrollTop -= dy;
    }
    before.x = event.clientX;
    before.y = event.clientY;
  });
  const up = (event) => {
    if (!down.delete(event.pointerId)) return;
    element.classList.remove("dragging");
    if (event.type === "pointerup" && moved < 4 && down.size === 0) tap(event);
  };
  element.addEventListener("pointerup", up);
  element.addEventListener("pointercancel", up);
}

/** Two fingers: each keeps its point of the chart below it. */
function pinch(chart, element, down, event) {
  const left = element.getBoundingClientRect().left;
  const [moving, other] = event.pointerId === [...down.keys()][0] ? [...down.values()] : [...down.values()].reverse();
  const before = Math.abs(moving.x - other.x);
  const after = Math.abs(event.clientX - other.x);
  if (before < 10 || after < 10) return;
  const fixed = chart.timeAt(other.x - left);
  chart.unfollow();
  chart.zoom(before / after, fixed);
}

function takeWheel(chart, element) {
  element.addEventListener("wheel", (event) => {
    const scroller = chart.scroller;
    const line = event.deltaMode === 1 ? 16 : 1;
    const overflows = scroller.scrollHeight > scroller.clientHeight + 1;
    const rect = chart.element.getBoundingClientRect();
    const onAxis = event.clientY - rect.top < AXIS || element !== scroller;
    const sideways = event.shiftKey ? event.deltaX || event.deltaY : event.deltaX;
    if (event.ctrlKey || event.metaKey || onAxis || (!overflows && !sideways)) {
      event.preventDefault();
      chart.zoom(Math.exp(clamp(event.deltaY * line, -240, 240) * 0.0025), chart.timeAt(event.clientX - rect.left));
    } else if (sideways && Math.abs(sideways) >= Math.abs(event.shiftKey ? 0 : event.deltaY)) {
      event.preventDefault();
      chart.pan((sideways * line) / chart.scale);
    }
  }, { passive: false });
}

/** The strip of all time: press to go there, drag to move. */
function takeOverview(chart, canvas) {
  const go = (event) => {
    const rect = canvas.getBoundingClientRect();
    const time = chart.start + ((event.clientX - rect.left) / rect.width) * (chart.now - chart.start);
    const half = (chart.to - chart.from) / 2;
    chart.unfollow();
    chart.view(time - half, time + half);
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button > 0) return;
    canvas.setPointerCapture(event.pointerId);
    go(event);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (canvas.hasPointerCapture(event.pointerId)) go(event);
  });
}

/** Keys while the focus is in the chart; true: it was one of them. */
function pressKey(chart, panel, event) {
  const span = chart.to - chart.from;
  const isMark = event.target.classList.contains("mark");
  const actions = {
    ArrowDown: () => chart.goToRow(chart.active + 1),
    ArrowUp: () => chart.goToRow(chart.active - 1),
    PageDown: () => chart.goToRow(chart.active + 10),
    PageUp: () => chart.goToRow(chart.active - 10),
    Home: () => chart.goToRow(0),
    End: () => chart.goToRow(chart.laid.rows.length - 1),
    ArrowRight: () => (event.shiftKey ? chart.pan(span * 0.2, { glide: true }) : chart.goToMark(1)),
    ArrowLeft: () => (event.shiftKey ? chart.pan(-span * 0.2, { glide: true }) : chart.goToMark(-1)),
    Enter: isMark ? null : () => chart.laid.rows[chart.active] && chart.pressRow(chart.laid.rows[chart.active]),
    " ": isMark ? null : () => chart.laid.rows[chart.active] && chart.pressRow(chart.laid.rows[chart.active]),
    "+": () => chart.zoom(0.5, undefined, { glide: true }),
    "=": () => chart.zoom(0.5, undefined, { glide: true }),
    "-": () => chart.zoom(2, undefined, { glide: true }),
    0: () => chart.fit({ glide: true }),
    "[": () => chart.setRowHeight(-1),
    "]": () => chart.setRowHeight(1),
    f: () => chart.isLive && chart.follow(),
    "?": () => {
      panel.remember(event.target);
      panel.help();
    },
  };
  const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!action || event.ctrlKey || event.metaKey || event.altKey) return false;
  action();
  return true;
}

/** Shows member, state and partitions under the mouse in a few words beside it. */
function showTip(chart, tip, event) {
  const rect = chart.element.getBoundingClientRect();
  const x = event.clientX - rect.left;
  const y = event.clientY - rect.top;
  const { row, time } = chart.at(x, y);
  const isOver = row?.kind === "lane" && x > chart.labels && event.pointerType === "mouse" && !event.buttons && time <= chart.now;
  const state = isOver ? row.lane.stateAt(time) : GONE;
  tip.hidden = !isOver || (state === GONE && row.height >= LABELLED);
  if (tip.hidden) return;
  const owned = row.lane.ownedAt(time);
  tip.textContent = [
    `${row.lane.name}: ${STATES[state]}`,
    `${moment(time, (chart.to - chart.from) / 1000)}`,
    state !== GONE && owned?.count ? partsText(owned.parts).slice(0, 160) : null,
  ].filter(Boolean).join("\n");
  const left = Math.min(x + 14, rect.width - tip.offsetWidth - 8);
  const below = y + 18 + tip.offsetHeight < rect.height;
  tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(below ? y + 18 : y - tip.offsetHeight - 10)}px)`;
}
