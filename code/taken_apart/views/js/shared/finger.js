// What a finger may take hold of in a view that it scrolls over.

// Let the page lie still under a finger that is put where `takes(touch)` is true.
export function holdFinger(node, takes) {
  const hold = (event) => takes(event.touches[0]) && event.preventDefault();
  node.addEventListener("touchstart", hold, { passive: false });
}
