import { Component, type ReactElement, type ReactNode } from "react";
import { basePath, subjectOf } from "./address";
import { Trouble } from "./parts/answers";
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

/** Shows a sentence in the place of parts that an error of the page itself has ended. */
export class Guard extends Component<{ children: ReactNode }, { error: unknown }> {
  override state = { error: null as unknown };

  static getDerivedStateFromError(error: unknown): { error: unknown } {
    return { error };
  }

  override render(): ReactNode {
    return this.state.error === null ? this.props.children : <Trouble error={this.state.error} />;
  }
}
