import { failingFor, nextLook } from "../api/looks";
import { useRun } from "../run";

const SECONDS = 15;

/** The options of a query that is asked again while the run is on. */
export function useWhileOpen() {
  const run = useRun();
  return {
    refetchInterval: (query: Parameters<typeof failingFor>[0]) => nextLook(run.open ? SECONDS : 0, failingFor(query)),
  };
}
