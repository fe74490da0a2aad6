// Points of the plane lifted by hidden units, and the plane that sorts them best.

// A unit has a direction, in degrees, and an offset: u . x + offset, bent below zero.
// `bend` runs from 0, a straight line, to 1, a ReLU.
export function lifted(points, units, bend) {
  return points.map(([x, y]) => {
    const heights = units.map(({ angle, offset }) => {
      const [cos, sin] = directionOf(angle);
      const height = cos * x + sin * y + offset;
      return height < 0 ? (1 - bend) * height : height;
    });
    return [0, 1, 2].map((axis) => heights[axis] ?? 0);
  });
}

export function directionOf(angle) {
  return [Math.cos((angle * Math.PI) / 180), Math.sin((angle * Math.PI) / 180)];
}

// A point in space as a camera sees it: to the right, upwards, and towards the eye.
export function turned([x, y, z], yaw, pitch) {
  const [cosYaw, sinYaw] = directionOf(yaw);
  const [cosPitch, sinPitch] = directionOf(pitch);
  const right = cosYaw * x + sinYaw * y;
  const away = cosYaw * y - sinYaw * x;
  return [right, cosPitch * z + sinPitch * away, cosPitch * -away + sinPitch * z];
}

export const dot3 = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];

// Where to cut sorted numbers so that most labels are right, above the cut or below it;
// of equally good cuts the one in the widest gap.
export function bestCut(numbers, labels) {
  const order = [...numbers.keys()].sort((a, b) => numbers[a] - numbers[b]);
  const n = order.length;
  const positive = labels.reduce((sum, label) => sum + label, 0);
  let best = { right: -1 };
  let below = 0; // how many positives lie below the cut
  for (let cut = 0; cut <= n; cut++) {
    const low = cut ? numbers[order[cut - 1]] : -Infinity;
    const high = cut < n ? numbers[order[cut]] : Infinity;
    if (high - low > 1e-5) {
      // what differs by rounding alone is no gap
      const above = positive - below + (cut - below);
      const right = Math.max(above, n - above);
      const gap = Number.isFinite(high - low) ? high - low : 0;
      if (right > best.right || (right === best.right && gap > best.gap)) {
        const at = Number.isFinite(high - low) ? (low + high) / 2 : cut ? low + 1 : high - 1;
        best = { right, gap, at, sign: above === right ? 1 : -1 };
      }
    }
    below += cut < n ? labels[order[cut]] : 0;
  }
  return best;
}

// The plane that sorts points in space best, of those tried: the one that logistic
// regression finds, and 400 directions spread evenly over half a sphere.
export function bestPlane(spots, labels) {
  let best = { right: -1 };
  for (const normal of [logistic(spots, labels), ...DIRECTIONS]) {
    const cut = bestCut(
      spots.map((spot) => dot3(spot, normal)),
      labels,
    );
    if (cut.right > best.right)
      best = { ...cut, normal: normal.map((n) => n * cut.sign), at: cut.at * cut.sign };
    if (best.right === labels.length) break;
  }
  return best;
}

const DIRECTIONS = Array.from({ length: 400 }, (_, i) => {
  const z = (i + 0.5) / 400;
  const radius = Math.sqrt(1 - z * z);
  const turn = i * Math.PI * (3 - Math.sqrt(5));
  return [radius * Math.cos(turn), radius * Math.sin(turn), z];
});

// The direction that logistic regression finds, with Newton's method and a small ridge.
export function logistic(spots, labels) {
  let weights = [0, 0, 0, 0];
  for (let step = 0; step < 30; step++) {
    const slope = weights.map((w) => 1e-4 * w);
    const curve = weights.map((_, i) => weights.map((__, j) => (i === j ? 1e-4 : 0)));
    spots.forEach((spot, n) => {
      const row = [...spot, 1];
      const score = row.reduce((sum, x, i) => sum + x * weights[i], 0);
      const chance = 1 / (1 + Math.exp(-score));
      for (let i = 0; i < 4; i++) {
        slope[i] += (chance - labels[n]) * row[i];
        for (let j = 0; j < 4; j++) curve[i][j] += chance * (1 - chance) * row[i] * row[j];
      }
    });
    const change = solve(curve, slope);
    weights = weights.map((w, i) => w - change[i]);
    if (Math.max(...change.map(Math.abs)) < 1e-9) break;
  }
  const length = Math.hypot(...weights.slice(0, 3));
  return length > 1e-6 ? weights.slice(0, 3).map((w) => w / length) : [0, 0, 1];
}

// Gauss elimination with pivoting, for a small system.
export function solve(matrix, vector) {
  const rows = matrix.map((row, i) => [...row, vector[i]]);
  const n = rows.length;
  for (let c = 0; c < n; c++) {
    const pivot = rows
      .slice(c)
      .reduce((best, row, i) => (Math.abs(row[c]) > Math.abs(rows[best][c]) ? i + c : best), c);
    [rows[c], rows[pivot]] = [rows[pivot], rows[c]];
    for (let r = 0; r < n; r++) {
      if (r === c) continue;
      const factor = rows[r][c] / rows[c][c];
      for (let k = c; k <= n; k++) rows[r][k] -= factor * rows[c][k];
    }
  }
  return rows.map((row, i) => row[n] / row[i]);
}

// The corners of a plane's cut through a box, in order around it.
export function planeCorners(normal, at, low, high) {
  const corners = [];
  for (let axis = 0; axis < 3; axis++) {
    const [second, third] = [0, 1, 2].filter((other) => other !== axis);
    for (const b of [low[second], high[second]]) {
      for (const c of [low[third], high[third]]) {
        const rest = normal[second] * b + normal[third] * c;
        const edge = (at - rest) / normal[axis];
        if (!(edge >= low[axis] - 1e-9 && edge <= high[axis] + 1e-9)) continue;
        const corner = [0, 0, 0];
        [corner[axis], corner[second], corner[third]] = [edge, b, c];
        corners.push(corner);
      }
    }
  }
  return around(corners, normal);
}

function around(corners, normal) {
  if (corners.length < 3) return [];
  const middle = [0, 1, 2].map(
    (axis) => corners.reduce((sum, corner) => sum + corner[axis], 0) / corners.length,
  );
  const minus = (a) => a.map((x, axis) => x - middle[axis]);
  const first = minus(corners[0]);
  const second = cross3(normal, first);
  const turn = (corner) => Math.atan2(dot3(minus(corner), second), dot3(minus(corner), first));
  return corners.sort((a, b) => turn(a) - turn(b));
}

function cross3(a, b) {
  return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
}

// A unit with its line moved to a point, or turned about one.
export function shiftedTo({ angle }, [x, y]) {
  const [cos, sin] = directionOf(angle);
  return { angle, offset: -(cos * x + sin * y) };
}

export function turnedTo(foot, [x, y]) {
  const angle = (Math.atan2(y - foot[1], x - foot[0]) * 180) / Math.PI;
  return shiftedTo({ angle: (angle + 360) % 360 }, foot);
}

// The point of a unit's line that is nearest to the centre.
export function footOf({ angle, offset }) {
  return directionOf(angle).map((u) => -offset * u);
}
