import { api } from "../api/client";
import { failingFor, nextLook } from "../api/looks";
import { useRun } from "../run";

/** How far the run is: asked again as often as the server finds fitting, while the page is looked at and the run is on. */
export function useProgress() {
  const run = useRun();
  return api.useQuery(
    "get",
    "/api/dags/{dag_id}/runs/{run_id}/plans/{plan_task}/{map_index}/progress",
    { params: { path: run.path } },
    {
      refetchInterval: (query) => nextLook(query.state.data?.next_look, failingFor(query)),
      refetchOnWindowFocus: (query) => (query.state.data?.next_look ?? 1) > 0,
    },
  );
}
