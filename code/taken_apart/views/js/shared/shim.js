// A static page has no kernel: this is the part of the anywidget model that views use.
export function makeModel(state) {
  const listeners = {};
  return {
    get: (name) => state[name],
    set(name, value) {
      if (state[name] === value) return;
      state[name] = value;
      listeners[`change:${name}`]?.slice().forEach((react) => react());
    },
    on: (event, react) => (listeners[event] ??= []).push(react),
    off(event, react) {
      listeners[event] = (listeners[event] ?? []).filter((other) => other !== react);
    },
    save_changes() {},
  };
}

// A small state travels as JSON, a large one deflated, in base64. Bytes stand in it as
// { $b: base64 } or, deflated, as { $z: base64 }.
const toBytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

// No Blob, whose stream comes by way of another process and waits for its turn.
function inflate(text) {
  const stream = new DecompressionStream("deflate");
  const writer = stream.writable.getWriter();
  writer.write(toBytes(text));
  writer.close();
  return new Response(stream.readable);
}

export async function readState(text) {
  const state = text[0] === "{" ? JSON.parse(text) : await inflate(text).json();
  for (const [name, value] of Object.entries(state)) {
    if (value?.$b) state[name] = new DataView(toBytes(value.$b).buffer);
    if (value?.$z) state[name] = new DataView(await inflate(value.$z).arrayBuffer());
  }
  return state;
}

// Find our own root. In a page and in JupyterLab the script stands in our div; VS Code
// runs it again at the end of the output; else take the first root not yet drawn.
export function findRoot(script) {
  const scope = script?.closest(".eta") ?? script?.parentElement ?? document;
  return scope.querySelector(".eta-root:not([data-drawn])");
}

// Draw the view. Where the browser cannot, the still figure comes back.
export async function mount(view) {
  const root = findRoot(document.currentScript);
  if (!root) return;
  root.dataset.drawn = "";
  try {
    const data = root.parentElement.querySelector('script[type="text/eta"]');
    const state = await readState(data.textContent);
    root.unmount = view.render({ model: makeModel(state), el: root });
  } catch (error) {
    delete root.dataset.drawn;
    throw error;
  }
}
