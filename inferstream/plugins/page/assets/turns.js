// Work that leaves the browser time to paint.

const MAX_TURN_MILLISECONDS = 25;
const MAX_ROWS = 100;
const MAX_CELLS = 1000;

/** The number of rows that a table of so many columns shows. Layout of more cells takes longer than a frame should. */
export const shownRows = (columns) => Math.min(MAX_ROWS, Math.max(1, Math.floor(MAX_CELLS / columns)));

/** Call `paint` once before the next frame, however often this is called. */
export function eachFrame(paint) {
  let asked = null;
  const ask = () => (asked ??= requestAnimationFrame(() => ((asked = null), paint())));
  ask.now = () => {
    if (asked !== null) cancelAnimationFrame(asked);
    asked = null;
    paint();
  };
  return ask;
}

/** Lets the browser paint if a loop runs for long. */
export class Turns {
  _began = performance.now();

  async rest() {
    if (performance.now() - this._began < MAX_TURN_MILLISECONDS) return;
    await new Promise((resolve) => setTimeout(resolve));
    this._began = performance.now();
  }
}

/** Map items without blocking the browser for long. */
export async function mapInTurns(items, make) {
  const turns = new Turns();
  const found = [];
  for (const [at, item] of items.entries()) {
    found.push(make(item, at));
    await turns.rest();
  }
  return found;
}
