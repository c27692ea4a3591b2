import { failingFor, nextLook } from "../api/looks";
import { useRun } from "../run";

/** The pause between two looks at what a run that is on has left, in seconds. */
export const OPEN_SECONDS = 15;

/** The options of a query that is asked again while the run is on. */
export function useWhileOpen() {
  const run = useRun();
  return {
    refetchInterval: (query: Parameters<typeof failingFor>[0]) => nextLook(run.open ? OPEN_SECONDS : 0, failingFor(query)),
  };
}
