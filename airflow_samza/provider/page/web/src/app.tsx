import type { ReactElement } from "react";
import { basePath, subjectOf } from "./address";
import { Guard } from "./parts/guard";
import { RunPage } from "./run-page";
import { AllRuns } from "./runs/view";

/** The page: of a Dag run, of a task instance, or of all runs. */
export function App(): ReactElement {
  const subject = subjectOf(location.pathname, basePath());
  return (
    <main>
      <Guard>{subject.kind === "all" ? <AllRuns /> : <RunPage key={location.pathname} subject={subject} />}</Guard>
    </main>
  );
}
