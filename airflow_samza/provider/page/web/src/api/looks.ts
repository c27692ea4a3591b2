/** How often the page looks again. */

const SHORTEST_MS = 5_000;
const LONGEST_MS = 120_000;

interface Looked {
  state: { error: unknown; dataUpdatedAt: number; errorUpdateCount: number };
}

/**
 * Return the time until the next look, in ms: as the server says while the run goes on, never again once it has ended;
 * while looks fail as long as they have failed, so that each comes half as often as the one before.
 */
export function nextLook(seconds: number | undefined, failingMs: number | null): number | false {
  if (failingMs !== null) return Math.min(Math.max(failingMs, SHORTEST_MS), LONGEST_MS);
  if (seconds === undefined || seconds <= 0) return false;
  return Math.min(Math.max(seconds, 1) * 1_000, LONGEST_MS);
}

/** Return for how long the looks of a query have failed, in ms; null while they do not. */
export function failingFor({ state }: Looked, now = Date.now()): number | null {
  if (state.error === null) return null;
  if (state.dataUpdatedAt > 0) return now - state.dataUpdatedAt;
  return SHORTEST_MS * 2 ** Math.min(state.errorUpdateCount - 1, 10);
}
