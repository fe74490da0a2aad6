// Two rings, lifted by hidden units: move a unit's line, bend it or not, look around.
import { frame, h, onChange, put } from "../../../../taken_apart/views/js/shared/dom.js";
import { holdFinger } from "../../../../taken_apart/views/js/shared/finger.js";
import {
  bestPlane,
  directionOf,
  dot3,
  footOf,
  lifted,
  planeCorners,
  shiftedTo,
  turned,
  turnedTo,
} from "./ring_lift_math.js";
import { s } from "../../../../taken_apart/views/js/shared/svg.js";

const REACH = 2.9;
const TIP = 0.75; // how far an arrow leads from its foot
const FINE = 100;
const GRIP = 0.4; // about a line, its foot and its tip: 22 pixels on a phone
const TURN = { ArrowLeft: [-6, 0], ArrowRight: [6, 0], ArrowUp: [0, 6], ArrowDown: [0, -6] };

const pathOf = (corners) =>
  corners.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
const dots = (labels) => labels.map((label) => s("circle", { class: `lift-${label}` }));

// Where a place of the plane is on the drawing, and back. y grows upwards.
const onPaper = ([x, y]) => [150 + (x / REACH) * 150, 150 - (y / REACH) * 150];
const inPlane = ([x, y]) => [((x - 150) / 150) * REACH, ((150 - y) / 150) * REACH];

// The pointer in the coordinates of a drawing 300 wide.
function pointerIn(node, event) {
  const box = node.getBoundingClientRect();
  return [
    ((event.clientX - box.left) / box.width) * 300,
    ((event.clientY - box.top) / box.height) * 300,
  ];
}

// Follow a pointer from its press to its release.
function onDrag(node, start) {
  node.addEventListener("pointerdown", (event) => {
    const move = start(event);
    if (!move) return;
    event.preventDefault();
    node.focus();
    node.setPointerCapture(event.pointerId);
    node.addEventListener("pointermove", move);
    const stop = () => node.removeEventListener("pointermove", move);
    node.addEventListener("pointerup", stop, { once: true });
    node.addEventListener("pointercancel", stop, { once: true });
  });
}

// The plane: what the best cut calls outer is shaded; each unit is a line with an arrow
// to the side on which it wakes.
function planePane(scene) {
  const circles = dots(scene.labels);
  const shade = s("path", { class: "lift-shade" });
  const lines = s("g");
  const node = s(
    "svg",
    {
      class: "lift-plane",
      viewBox: "0 0 300 300",
      tabindex: 0,
      role: "group",
      "aria-label": "the points and the units' lines; arrow keys turn and shift the chosen line",
    },
    shade,
    ...circles,
    lines,
  );
  circles.forEach((circle, i) => {
    const [x, y] = onPaper(scene.points[i]);
    circle.setAttribute("cx", x);
    circle.setAttribute("cy", y);
  });
  function drawUnit(unit, i) {
    const u = directionOf(unit.angle);
    const foot = footOf(unit);
    const along = ([x, y], t) => [foot[0] + t * x, foot[1] + t * y];
    const ends = [along([-u[1], u[0]], 6), along([-u[1], u[0]], -6)].map(onPaper);
    const tip = onPaper(along(u, TIP));
    const [x, y] = onPaper(foot);
    return s(
      "g",
      { class: "lift-unit", "data-unit": i, "aria-hidden": "true" },
      s("path", { d: pathOf(ends) }),
      s("path", { class: "lift-arrow", d: pathOf([[x, y], tip]) }),
      s("circle", { class: "lift-foot", cx: x, cy: y, r: 4 }),
      s("circle", { class: "lift-tip", cx: tip[0], cy: tip[1], r: 11 }),
      s("text", { x: tip[0], y: tip[1] + 4 }, i + 1),
    );
  }
  // Runs of cells that the best plane calls outer.
  function shadeOf(plane) {
    const cell = 300 / FINE;
    const runs = [];
    for (let row = 0; row < FINE; row++) {
      const places = Array.from({ length: FINE }, (_, column) =>
        inPlane([(column + 0.5) * cell, (row + 0.5) * cell]),
      );
      const spots = lifted(places, scene.units(), scene.bend);
      let from = 0;
      for (let column = 0; column <= FINE; column++) {
        if (column < FINE && dot3(spots[column], plane.normal) > plane.at) continue;
        const wide = (column - from) * cell;
        if (wide > 0) runs.push(`M${from * cell} ${row * cell}h${wide}v${cell}h-${wide}z`);
        from = column + 1;
      }
    }
    return runs.join("");
  }
  function draw(plane, wrong) {
    lines.replaceChildren(...scene.units().map(drawUnit));
    lines.childNodes.forEach((line, i) => line.toggleAttribute("data-chosen", i === scene.unit()));
    shade.setAttribute("d", shadeOf(plane));
    circles.forEach((circle, i) => {
      circle.setAttribute("r", 3.5);
      circle.toggleAttribute("data-wrong", wrong[i]);
    });
  }
  holdFinger(node, (touch) => isGrip(scene.units(), inPlane(pointerIn(node, touch))));
  onDrag(node, (event) => {
    const place = inPlane(pointerIn(node, event));
    const near = nearest(scene.units(), place);
    if (!near) return null;
    scene.choose(near.unit);
    const foot = footOf(scene.units()[near.unit]);
    return (moved) => {
      const to = inPlane(pointerIn(node, moved)).map((x) => Math.max(-REACH, Math.min(REACH, x)));
      scene.change(
        near.unit,
        near.tip ? turnedTo(foot, to) : shiftedTo(scene.units()[near.unit], to),
      );
    };
  });
  node.addEventListener("keydown", (event) => {
    const by = TURN[event.key];
    const number = Number(event.key) - 1;
    const unit = scene.units()[scene.unit()];
    if (scene.units()[number]) scene.choose(number);
    else if (by)
      scene.change(scene.unit(), {
        angle: (unit.angle - by[0] + 360) % 360,
        offset: unit.offset + by[1] / 60,
      });
    else return;
    event.preventDefault();
  });
  return { node, draw };
}

// The arrow's tip or the line that is nearest to a place, if one is near.
function nearest(units, [x, y]) {
  const found = units.flatMap((unit, i) => {
    const u = directionOf(unit.angle);
    const [a, b] = footOf(unit);
    const tip = Math.hypot(x - a - TIP * u[0], y - b - TIP * u[1]);
    const line = Math.abs(u[0] * x + u[1] * y + unit.offset);
    return [
      { unit: i, tip: true, distance: tip - 0.1 },
      { unit: i, tip: false, distance: line },
    ];
  });
  const best = found.reduce((one, other) => (other.distance < one.distance ? other : one));
  return best.distance < GRIP ? best : null;
}

// Whether a place is at the foot or the tip of an arrow.
function isGrip(units, [x, y]) {
  return units.some((unit) => {
    const u = directionOf(unit.angle);
    const [a, b] = footOf(unit);
    return [0, TIP].some((t) => Math.hypot(x - a - t * u[0], y - b - t * u[1]) < GRIP);
  });
}

// Where an axis has its name: beside its end and off its line, above where that can be.
function besideEnd([[x0, y0], [x1, y1]]) {
  const length = Math.hypot(x1 - x0, y1 - y0) || 1;
  const up = x1 < x0 ? -1 : 1;
  const [across, down] = [(up * (y1 - y0)) / length, (up * (x0 - x1)) / length];
  const far = 22 * Math.abs(across) + 11 * Math.abs(down); // a name is wider than high
  const inside = (place, edge) => Math.max(edge, Math.min(300 - edge, place));
  return { x: inside(x1 + far * across, 19), y: inside(y1 + far * down, 9) + 4 };
}

// The space of the hidden units, to turn about.
function spacePane(scene) {
  const circles = dots(scene.labels);
  const sheet = s("path", { class: "lift-sheet" });
  const axes = s("g", { class: "lift-axes" });
  const cloud = s("g");
  const node = s(
    "svg",
    {
      class: "lift-space",
      viewBox: "0 0 300 300",
      tabindex: 0,
      role: "img",
      "aria-label": "the lifted points; arrow keys turn them",
    },
    axes,
    cloud,
    sheet,
  );
  cloud.append(...circles);
  function draw(spots, plane, wrong) {
    const { yaw, pitch } = scene.camera();
    const seen = spots.map((spot) => turned(spot, yaw, pitch));
    const low = [0, 1, 2].map((axis) => Math.min(...spots.map((spot) => spot[axis])));
    const high = [0, 1, 2].map((axis) => Math.max(...spots.map((spot) => spot[axis])));
    const middle = low.map((x, axis) => (x + high[axis]) / 2);
    const scale =
      135 /
      Math.max(...spots.map((spot) => Math.hypot(...spot.map((x, axis) => x - middle[axis]))), 0.1);
    const centre = turned(middle, yaw, pitch);
    const place = ([x, y]) => [150 + scale * (x - centre[0]), 150 - scale * (y - centre[1])];
    const order = [...seen.keys()].sort((a, b) => seen[a][2] - seen[b][2]);
    cloud.replaceChildren(
      ...order.map((i) => {
        const [x, y] = place(seen[i]);
        circles[i].setAttribute("cx", x.toFixed(1));
        circles[i].setAttribute("cy", y.toFixed(1));
        circles[i].setAttribute("r", (3.6 + 0.45 * (seen[i][2] - centre[2])).toFixed(1));
        circles[i].toggleAttribute("data-wrong", wrong[i]);
        return circles[i];
      }),
    );
    const pad = low.map((x, axis) => 0.08 * (high[axis] - x) + 0.05);
    const corners = planeCorners(
      plane.normal,
      plane.at,
      low.map((x, a) => x - pad[a]),
      high.map((x, a) => x + pad[a]),
    );
    const flat = corners.map((corner) => place(turned(corner, yaw, pitch)));
    sheet.setAttribute("d", flat.length ? `${pathOf(flat)}Z` : "");
    axes.replaceChildren(
      ...scene.units().flatMap((_, axis) => {
        const end = [0, 0, 0];
        end[axis] = Math.max(high[axis], 0.5) * 1.2;
        const ends = [[0, 0, 0], end].map((spot) => place(turned(spot, yaw, pitch)));
        return [s("path", { d: pathOf(ends) }), s("text", besideEnd(ends), `unit ${axis + 1}`)];
      }),
    );
  }
  onDrag(node, (event) => {
    let last = [event.clientX, event.clientY];
    return (moved) => {
      scene.turn((moved.clientX - last[0]) * -0.6, (moved.clientY - last[1]) * 0.6);
      last = [moved.clientX, moved.clientY];
    };
  });
  node.addEventListener("keydown", (event) => {
    if (!TURN[event.key]) return;
    event.preventDefault();
    scene.turn(...TURN[event.key]);
  });
  return { node, draw };
}

function makeScene(model) {
  const start = {
    units: model.get("units"),
    relu: model.get("relu"),
    camera: model.get("camera"),
    unit: model.get("unit"),
  };
  const scene = {
    points: model.get("points"),
    labels: model.get("labels"),
    bend: model.get("relu") ? 1 : 0,
    most: start.units.length,
    units: () => model.get("units"),
    unit: () => Math.min(model.get("unit"), model.get("units").length - 1),
    camera: () => ({ yaw: model.get("camera")[0], pitch: model.get("camera")[1] }),
    choose: (unit) => put(model, { unit }),
    change(unit, made) {
      const offset = Math.max(-2.5, Math.min(2.5, made.offset));
      put(model, { units: scene.units().with(unit, { angle: made.angle, offset }) });
    },
    turn(yaw, pitch) {
      const [now, up] = model.get("camera");
      put(model, { camera: [(now + yaw + 360) % 360, Math.max(-90, Math.min(90, up + pitch))] });
    },
    count: (n) =>
      put(model, {
        units: [...scene.units(), ...start.units.slice(scene.units().length)].slice(0, n),
      }),
    reset: () => put(model, start),
  };
  return scene;
}

function controls(model, scene) {
  const button = (text, onclick) =>
    h("button", { class: "eta-button", type: "button", text, onclick });
  const relu = button("ReLU", () => put(model, { relu: !model.get("relu") }));
  const counts = [2, 3]
    .slice(0, scene.most - 1)
    .map((n) => [n, button(`${n} units`, () => scene.count(n))]);
  const chosen = [...Array(scene.most).keys()].map((i) =>
    button(`unit ${i + 1}`, () => scene.choose(i)),
  );
  const slider = (name, most, step) => {
    const input = h("input", {
      type: "range",
      "aria-label": name,
      min: name === "angle" ? 0 : -most,
      max: most,
      step,
    });
    input.addEventListener("input", () =>
      scene.change(scene.unit(), { ...scene.units()[scene.unit()], [name]: Number(input.value) }),
    );
    const shown = h("span", { class: "lift-value eta-num", "aria-hidden": "true" });
    return { name, input, shown, node: h("label", {}, name, input, shown) };
  };
  const sliders = [slider("angle", 360, 1), slider("offset", 2.5, 0.05)];
  const upper = h(
    "div",
    { class: "eta-bar" },
    relu,
    h("span", {}, ...counts.map(([, node]) => node)),
    button("start again", scene.reset),
  );
  const lower = h(
    "div",
    { class: "eta-bar" },
    h("span", {}, ...chosen),
    ...sliders.map(({ node }) => node),
  );
  function draw() {
    const n = scene.units().length;
    const unit = scene.units()[scene.unit()];
    relu.setAttribute("aria-pressed", model.get("relu"));
    for (const [count, node] of counts) node.setAttribute("aria-pressed", count === n);
    chosen.forEach((node, i) => {
      node.hidden = i >= n;
      node.setAttribute("aria-pressed", i === scene.unit());
    });
    for (const { name, input, shown } of sliders) {
      input.value = unit[name];
      shown.textContent =
        name === "angle"
          ? `${Math.round(unit[name])}\u00b0`
          : unit[name].toFixed(2).replace("-", "\u2212");
    }
  }
  return { upper, lower, draw };
}

function toldOf(scene, relu, right) {
  const n = scene.labels.length;
  const units = `${scene.units().length} units`;
  const share = `${right} of ${n} points (${Math.round((100 * right) / n)} %)`;
  if (!relu)
    return (
      `Without ReLU, ${units}: the points stay in a flat sheet. ` +
      `The best plane found sorts ${share}.`
    );
  const all = right === n ? " All of them." : "";
  return `With ReLU, ${units}: the best plane found sorts ${share}.${all}`;
}

function render({ model, el }) {
  const { box, signal, end } = frame(el, "lift", "Points lifted by hidden units, to move");
  const scene = makeScene(model);
  const plane = planePane(scene);
  const space = spacePane(scene);
  const bar = controls(model, scene);
  const told = h("p", { class: "lift-told eta-num", role: "status" });
  let best = null;
  let wrong = [];

  function solveAgain() {
    const spots = lifted(scene.points, scene.units(), scene.bend);
    best = bestPlane(spots, scene.labels);
    wrong = spots.map((spot, i) => dot3(spot, best.normal) > best.at !== Boolean(scene.labels[i]));
    told.textContent = toldOf(scene, model.get("relu"), best.right);
    plane.draw(best, wrong);
    bar.draw();
    drawSpace(spots);
  }
  const drawSpace = (spots = lifted(scene.points, scene.units(), scene.bend)) =>
    space.draw(spots, best, wrong);
  // The bend comes and goes over half a second, so that the fold can be watched.
  function bendOver() {
    const from = scene.bend;
    const to = model.get("relu") ? 1 : 0;
    const began = performance.now();
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const tick = (time) => {
      if (signal.aborted || to !== (model.get("relu") ? 1 : 0)) return;
      const share = still ? 1 : Math.min(1, Math.max(0, (time - began) / 500));
      scene.bend = from + (to - from) * share;
      if (share === 1) solveAgain();
      else {
        drawSpace();
        requestAnimationFrame(tick);
      }
    };
    tick(began);
  }
  box.append(
    bar.upper,
    told,
    h(
      "div",
      { class: "lift-panes" },
      h(
        "div",
        {},
        plane.node,
        h("p", {
          class: "eta-quiet",
          text:
            "The plane. Drag a line by its foot, or turn it by its arrow\u2019s tip; " +
            "shaded: what the cut calls outer; ringed: wrong.",
        }),
      ),
      h(
        "div",
        {},
        space.node,
        h("p", {
          class: "eta-quiet",
          text:
            "What the units give, one axis each, and the best plane. " +
            "Drag to turn, a finger sideways.",
        }),
      ),
    ),
    bar.lower,
  );
  onChange(model, ["units", "unit"], signal, solveAgain);
  onChange(model, ["camera"], signal, () => drawSpace());
  onChange(model, ["relu"], signal, bendOver);
  solveAgain();
  return end;
}

export default { render };
