// A static page has no kernel: this is the part of the anywidget model that views use.
export function makeModel(state) {
  const listeners = {};
  return {
    get: (name) => state[name],
    set(name, value) {
      if (state[name] === value) return;
      state[name] = value;
      for (const react of [...(listeners[`change:${name}`] ?? [])]) react();
    },
    on: (event, react) => (listeners[event] ??= []).push(react),
    off(event, react) {
      listeners[event] = (listeners[event] ?? []).filter((other) => other !== react);
    },
    save_changes() {},
  };
}

// Bytes travel as { $z: base64 of deflated bytes } and arrive as a DataView.
export async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed.$z), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream();
  const inflated = stream.pipeThrough(new DecompressionStream("deflate"));
  return new DataView(await new Response(inflated).arrayBuffer());
}

export async function unpackState(state) {
  const entries = Object.entries(state).map(async ([name, value]) =>
    [name, value?.$z === undefined ? value : await unpack(value)]);
  return Object.fromEntries(await Promise.all(entries));
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
    const data = root.parentElement.querySelector('script[type="application/json"]');
    const state = await unpackState(JSON.parse(data.textContent));
    root.unmount = view.render({ model: makeModel(state), el: root });
  } catch (error) {
    delete root.dataset.drawn;
    throw error;
  }
}
