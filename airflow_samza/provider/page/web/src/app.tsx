import { type ReactElement, Suspense, lazy } from "react";
import { basePath, subjectOf } from "./address";
import { Empty } from "./parts/answers";
import { Guard } from "./parts/guard";
import { RunPage } from "./run-page";
import { AllRuns } from "./runs/view";

// It draws a graph, as the plan does.
const MapView = lazy(async () => ({ default: (await import("./map/view")).MapView }));

/** The page: of a Dag run, of a task instance, of all runs, or the map of data. */
export function App(): ReactElement {
  const subject = subjectOf(location.pathname, basePath());
  return (
    <main>
      <Guard>
        {subject.kind === "all" ? <AllRuns /> : null}
        {subject.kind === "map" ? (
          <Suspense fallback={<Empty>Loading the map.</Empty>}>
            <MapView />
          </Suspense>
        ) : null}
        {subject.kind === "run" || subject.kind === "task" ? <RunPage key={location.pathname} subject={subject} /> : null}
      </Guard>
    </main>
  );
}
