import type { ReactElement } from "react";
import { airflowTask } from "../address";
import { ApiProblem, type Schemas, api } from "../api/client";
import { failingFor, nextLook } from "../api/looks";
import { count, counted } from "../format";
import { Facts, Section } from "../parts/facts";
import { Entry, Inside, Linked, Outside } from "../parts/links";
import { Moment } from "../parts/moment";
import { State } from "../parts/state";
import { useRun } from "../run";
import { OPEN_SECONDS } from "./repeated";

type Failure = Schemas["Failure"];

/** The failures of the run, the one that has come first before those that may follow from it, as the server has them. */
export function useFailures(): { failures: readonly Failure[]; isLoaded: boolean; isForbidden: boolean } {
  const run = useRun();
  const { data, error } = api.useQuery(
    "get",
    "/api/dags/{dag_id}/runs/{run_id}/plans/{plan_task}/{map_index}/failures",
    { params: { path: run.path } },
    {
      refetchInterval: (query) =>
        isForbidden(query.state.error) ? false : nextLook(run.open ? OPEN_SECONDS : 0, failingFor(query)),
    },
  );
  return { failures: data?.failures ?? [], isLoaded: data !== undefined, isForbidden: isForbidden(error) };
}

const isForbidden = (error: unknown): boolean => error instanceof ApiProblem && error.status === 403;

/** Above all views of a run: why it has failed, and the ways on from there. Nothing where nothing has failed. */
export function FirstFailure(): ReactElement | null {
  const run = useRun();
  const { failures, isLoaded, isForbidden } = useFailures();
  const [first, ...others] = failures;
  if (first !== undefined) {
    return (
      <section className="strip" aria-label="Why the run has failed">
        <One failure={first} />
        {others.length > 0 ? (
          <p>
            <Inside tab="results">{`${counted(others.length, "more stage")} failed`}</Inside>
            <span className="quiet"> {others.slice(0, 5).map((other) => other.stage_name).join(", ")}</span>
          </p>
        ) : null}
      </section>
    );
  }
  if (run.application.state !== "failed" || !(isLoaded || isForbidden)) return null;
  return (
    <section className="strip" aria-label="Why the run has failed">
      <article className="failure failed" aria-label="Failed run">
        <p className="sentence">
          {isForbidden
            ? "The run has failed. Its reasons are for those who may read the task logs of the Dag."
            : "The run has failed, and no stage has left a reason. The logs of its tasks may say more."}
        </p>
      </article>
    </section>
  );
}

/** The failures of stages but the first, which stands above all views. */
export function OtherFailures({ stage }: { stage: string | null }): ReactElement | null {
  const others = useFailures().failures.slice(1);
  const found = others.filter((failure) => stage === null || failure.stage_id === stage);
  return found.length === 0 ? null : (
    <Section title="More failures">
      {found.map((failure) => (
        <One key={`${failure.stage_id} ${failure.generation} ${failure.attempt}`} failure={failure} />
      ))}
    </Section>
  );
}

function One({ failure }: { failure: Failure }): ReactElement {
  const { path, application } = useRun();
  const task = application.stages.find((stage) => stage.stage_id === failure.stage_id)?.task_id;
  return (
    <article className={`failure ${failure.state}`} aria-label={`Failure of stage ${failure.stage_name}`}>
      <p className="who">
        <State state={failure.state} /> <strong>Stage {failure.stage_name}</strong>
        <span className="quiet">
          attempt {count(failure.attempt)}, <Moment at={failure.at} ago />
        </span>
      </p>
      <p className="sentence">
        <Linked>{failure.sentence}</Linked>
      </p>
      {failure.hint ? (
        <p>
          <Linked>{failure.hint}</Linked>
        </p>
      ) : null}
      <p className="actions">
        {task ? <Outside href={airflowTask(path.dag_id, path.run_id, task, path.map_index)}>Task log</Outside> : null}
        <Inside tab="clear" choices={{ stage: failure.stage_id }}>
          Preview clear
        </Inside>
        <Inside tab="progress" choices={{ stage: failure.stage_id }}>
          Progress
        </Inside>
      </p>
      {failure.record === null ? null : (
        <pre tabIndex={0} aria-label="The bad record begins so">
          {failure.record}
        </pre>
      )}
      <Facts
        of={[
          ["Function", failure.callable ? <code key="callable">{failure.callable}</code> : null],
          ["File", failure.file ? <code key="file">{failure.file}</code> : null],
          ["Line", failure.line === null ? null : count(failure.line)],
          ["Kind", failure.kind],
          ["Another try", failure.another_try],
          ["More", <Entry key="entry" of={failure.entry} />],
        ]}
      />
      {failure.facts.length > 0 ? (
        <ul className="plain">
          {failure.facts.map((fact) => (
            <li key={fact}>
              <Linked>{fact}</Linked>
            </li>
          ))}
        </ul>
      ) : null}
    </article>
  );
}
