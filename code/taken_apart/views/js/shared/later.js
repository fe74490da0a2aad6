// Work that can wait.

// Call `work` once after a burst of calls: at the end of the task, or after the frame.
export function once(wait, work) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    wait(() => {
      waiting = false;
      work();
    });
  };
}
