/** The subject of the page, read from its address below `<base>`: all runs, the map of data, a Dag run, or a task instance. */
export type Subject =
  | { kind: "all" }
  | { kind: "map" }
  | { kind: "run"; dagId: string; runId: string }
  | { kind: "task"; dagId: string; runId: string; taskId: string; mapIndex: number };

/** Return the subject of a path; `base` is the path at which the page is mounted, with a slash at its end. */
export function subjectOf(path: string, base: string): Subject {
  const words = path
    .slice(base.length)
    .split("/")
    .filter((word) => word !== "")
    .map(decoded);
  const [kind, dagId, runId, taskId, mapIndex] = words;
  if (kind === "map") return { kind };
  if (kind === "runs" && dagId && runId) return { kind: "run", dagId, runId };
  if (kind === "tasks" && dagId && runId && taskId) {
    const index = Number.parseInt(mapIndex ?? "", 10);
    return { kind: "task", dagId, runId, taskId, mapIndex: Number.isNaN(index) ? -1 : index };
  }
  return { kind: "all" };
}

/** Return the place at which the page is mounted, with a slash at its end. */
export const basePath = (): string => new URL(".", document.baseURI).pathname;

/** Return the path of the page of a Dag run. */
export const runPath = (dagId: string, runId: string): string =>
  `${basePath()}runs/${encodeURIComponent(dagId)}/${encodeURIComponent(runId)}`;

/** Return the path of the map of data, with a stream on it. */
export const mapPath = (streamId: string): string => `${basePath()}map#/?stream=${encodeURIComponent(streamId)}`;

/** Return the address of a Dag run in Airflow's own page. */
export const airflowRun = (dagId: string, runId: string, tail = ""): string =>
  new URL(`../dags/${encodeURIComponent(dagId)}/runs/${encodeURIComponent(runId)}${tail}`, document.baseURI).href;

/** Return the address of a task instance in Airflow's own page, which begins with its log. */
export const airflowTask = (dagId: string, runId: string, taskId: string, mapIndex = -1): string =>
  airflowRun(dagId, runId, `/tasks/${encodeURIComponent(taskId)}${mapIndex < 0 ? "" : `/mapped/${mapIndex}`}`);

function decoded(word: string): string {
  try {
    return decodeURIComponent(word);
  } catch {
    return word; // Airflow puts ids into addresses as they are, a percent sign, too
  }
}
