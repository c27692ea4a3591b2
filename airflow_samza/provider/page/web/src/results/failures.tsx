import type { ReactElement } from "react";
import { type Schemas, api } from "../api/client";
import { count } from "../format";
import { Answered } from "../parts/answers";
import { Facts, Section } from "../parts/facts";
import { Moment } from "../parts/moment";
import { State } from "../parts/state";
import { useRun } from "../run";
import { useWhileOpen } from "./repeated";

/** Why stages failed: the sentence, the remedy, the user's function that raised. Nothing where none has failed. */
export function Failures({ stage }: { stage: string | null }): ReactElement {
  const run = useRun();
  const repeated = useWhileOpen();
  const failures = api.useQuery(
    "get",
    "/api/dags/{dag_id}/runs/{run_id}/plans/{plan_task}/{map_index}/failures",
    { params: { path: run.path } },
    repeated,
  );
  return (
    <Answered query={failures} loading="Failures are being looked for.">
      {(data) => {
        const found = data.failures.filter((failure) => stage === null || failure.stage_id === stage);
        return found.length === 0 ? null : (
          <Section title="Failures">
            {found.map((failure) => (
              <One key={`${failure.stage_id} ${failure.generation} ${failure.attempt}`} failure={failure} />
            ))}
          </Section>
        );
      }}
    </Answered>
  );
}

function One({ failure }: { failure: Schemas["Failure"] }): ReactElement {
  return (
    <article className={`failure ${failure.state}`} aria-label={`Failure of stage ${failure.stage_name}`}>
      <p className="who">
        <State state={failure.state} /> <strong>{failure.stage_name}</strong>
        <span className="quiet">
          attempt {count(failure.attempt)}, <Moment at={failure.at} ago />
        </span>
      </p>
      <p className="sentence">{failure.sentence}</p>
      {failure.hint ? <p>{failure.hint}</p> : null}
      <Facts
        of={[
          ["Function", failure.callable ? <code key="callable">{failure.callable}</code> : null],
          ["Kind", failure.kind],
          ["Another try", failure.another_try],
        ]}
      />
      {failure.facts.length > 0 ? (
        <ul className="plain">
          {failure.facts.map((fact) => (
            <li key={fact}>{fact}</li>
          ))}
        </ul>
      ) : null}
    </article>
  );
}
