import { createContext, useContext } from "react";
import type { Schemas } from "./api/client";

/** The run that is looked at: the path of its plan in the interface, and the application. */
export interface LookedAt {
  path: { dag_id: string; run_id: string; plan_task: string; map_index: number };
  application: Schemas["PlannedApplication"];
  /** Messages and samples are shown at all. */
  samples: boolean;
  /** The run has not ended. */
  open: boolean;
}

export const Run = createContext<LookedAt | null>(null);

/** The run that is looked at; for the views of a run only. */
export function useRun(): LookedAt {
  const run = useContext(Run);
  if (run === null) throw new Error("No run is looked at here.");
  return run;
}
