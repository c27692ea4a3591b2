import { useQueryClient } from "@tanstack/react-query";
import { type KeyboardEvent, type ReactElement, Suspense, lazy, useEffect, useMemo, useRef, useState } from "react";
import { type Subject, airflowRun, airflowTask } from "./address";
import { type Schemas, api } from "./api/client";
import { failingFor, nextLook } from "./api/looks";
import { BackfillView } from "./backfill/view";
import { ClearView } from "./clear/view";
import { DataView } from "./data/view";
import { count } from "./format";
import { Answered, Empty, Note } from "./parts/answers";
import { Facts, Section } from "./parts/facts";
import { Guard } from "./parts/guard";
import { Entry, Inside, Linked, Outside } from "./parts/links";
import { Moment } from "./parts/moment";
import { Chip, State } from "./parts/state";
import { ProgressView } from "./progress/view";
import { FirstFailure, useFailures } from "./results/failures";
import { ResultsView } from "./results/view";
import { TABS, type Tab, goTo, parentOfSameOrigin, useRoute } from "./route";
import { type LookedAt, Run } from "./run";

// The graph is the greater part of the page, and only this tab needs it.
const PlanView = lazy(async () => ({ default: (await import("./plan/view")).PlanView }));

type Application = Schemas["PlannedApplication"];

const NAMES: Readonly<Record<Tab, string>> = {
  plan: "Plan",
  progress: "Progress",
  results: "Results and errors",
  data: "Topics and tables",
  clear: "Preview of a clear",
  backfill: "Preview of a backfill",
};
/** What a run in a state opens on; any other one opens on its plan. */
const FIRST_SHOWN: Readonly<Record<string, Tab>> = { failed: "results", running: "progress" };
const SECONDS = 15;

/** The page of a Dag run, or of a task instance: then it begins with the stage of that task. */
export function RunPage({ subject }: { subject: Extract<Subject, { dagId: string }> }): ReactElement {
  const task = subject.kind === "task" ? { task_id: subject.taskId, map_index: subject.mapIndex } : {};
  const applications = api.useQuery(
    "get",
    "/api/dags/{dag_id}/runs/{run_id}/applications",
    { params: { path: { dag_id: subject.dagId, run_id: subject.runId }, query: task } },
    {
      refetchInterval: (query) => {
        const found = query.state.data?.applications;
        const goesOn = found === undefined || found.length === 0 || found.some((one) => one.state === "running");
        return nextLook(goesOn ? SECONDS : 0, failingFor(query));
      },
    },
  );
  return (
    <Answered query={applications} loading="Loading the run.">
      {(data) => {
        const none = data.applications.length === 0;
        return (
          <>
            {none ? <NoPlan answer={data} /> : null}
            <FailedPlans answer={data} />
            {none ? null : <Shown answer={data} isTask={subject.kind === "task"} />}
          </>
        );
      }}
    </Answered>
  );
}

/** What stands above the reasons why nothing is planned; without a reason, all that is known. */
function NoPlan({ answer }: { answer: Schemas["Applications"] }): ReactElement {
  if (answer.failed_plans.length === 0) {
    return <Empty>{answer.note ?? "No task of this run has planned an application yet."}</Empty>;
  }
  return (
    <header>
      <div className="title">
        <h1>{answer.failed_plans[0]?.application}</h1>
        <State state="plan failed" />
        <span className="out">
          <Outside href={airflowRun(answer.dag_id, answer.run_id)}>Dag run in Airflow</Outside>
        </span>
      </div>
      <p className="subtitle">
        Dag <code>{answer.dag_id}</code>, run <code>{answer.run_id}</code>
      </p>
    </header>
  );
}

/** Why applications could not be planned, and the way to the task that is to be cleared then. */
function FailedPlans({ answer }: { answer: Schemas["Applications"] }): ReactElement | null {
  if (answer.failed_plans.length === 0) return null;
  return (
    <Section title="Plans that failed">
      {answer.failed_plans.map((plan) => (
        <article
          key={`${plan.plan_task} ${plan.map_index}`}
          className="failure failed"
          aria-label={`Failed plan of ${plan.application}`}
        >
          <p className="who">
            <State state="plan failed" /> <strong>{plan.plan_task}</strong>
            <span className="quiet">
              {plan.application}, <Moment at={plan.at} ago />
            </span>
          </p>
          <p className="sentence">
            <Linked>{plan.sentence}</Linked>
          </p>
          {plan.hint ? (
            <p>
              <Linked>{plan.hint}</Linked>
            </p>
          ) : null}
          <PlanActions answer={answer} plan={plan} />
          <Facts
            of={[
              ["Kind", plan.kind],
              ["Next", "Correct it, then clear this task with its downstream tasks."],
              ["More", <Entry key="entry" of={plan.entry} />],
            ]}
          />
        </article>
      ))}
    </Section>
  );
}

/** The ways on from a plan that failed: its log, and what a clear of it would make run, which unfolds in its card. */
function PlanActions({ answer, plan }: { answer: Schemas["Applications"]; plan: Schemas["FailedPlanning"] }): ReactElement {
  const [isOpen, setOpen] = useState(false);
  const { dag_id, run_id } = answer;
  const { plan_task, map_index } = plan;
  return (
    <>
      <p className="actions">
        <Outside href={airflowTask(dag_id, run_id, plan_task, map_index)}>Task log</Outside>
        <button type="button" className="link" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          Preview clear
        </button>
      </p>
      {isOpen ? <PlanClear path={{ dag_id, run_id, plan_task, map_index }} /> : null}
    </>
  );
}

interface PlanPath {
  dag_id: string;
  run_id: string;
  plan_task: string;
  map_index: number;
}

function PlanClear({ path }: { path: PlanPath }): ReactElement {
  const preview = api.useQuery("get", "/api/dags/{dag_id}/runs/{run_id}/failed-plans/{plan_task}/{map_index}/clear", {
    params: { path },
  });
  return (
    <section aria-label={`Preview of a clear of ${path.plan_task}`}>
      <Answered query={preview} loading="Loading the effects.">
        {(data) => (
          <>
            <ul className="sentences">
              {data.sentences.map((sentence) => (
                <li key={sentence}>{sentence}</li>
              ))}
            </ul>
            <ul className="plain fine" aria-label="Tasks that run again">
              {data.tasks.slice(0, MOST_TASKS).map((task) => (
                <li key={task.task_id}>
                  {task.task_id} <span className="quiet">{task.state ?? "no state yet"}</span>
                </li>
              ))}
              {data.tasks.length > MOST_TASKS ? <li className="quiet">{`and ${count(data.tasks.length - MOST_TASKS)} more`}</li> : null}
            </ul>
          </>
        )}
      </Answered>
    </section>
  );
}

const MOST_TASKS = 12;

const keyOf = (one: { plan_task: string; map_index: number }): string => `${one.plan_task}@${one.map_index}`;

function Shown({ answer, isTask }: { answer: Schemas["Applications"]; isTask: boolean }): ReactElement {
  const { tab, choices } = useRoute();
  const { applications, selected, dag_id, run_id } = answer;
  const application =
    applications.find((one) => keyOf(one) === choices.app) ??
    applications.find((one) => selected !== null && keyOf(one) === keyOf(selected)) ??
    (applications[0] as Application);
  const stage = isTask ? (selected?.stage_id ?? null) : null;
  const shown = tab ?? (stage ? "progress" : (FIRST_SHOWN[application.state] ?? "plan"));
  useEffect(() => {
    if (tab === null) goTo(shown, { ...choices, stage: choices.stage ?? stage }, { replace: true });
  }, [tab, shown, choices, stage]);
  const { plan_task, map_index, state } = application;
  const looked = useMemo(
    (): LookedAt => ({
      path: { dag_id, run_id, plan_task, map_index },
      application,
      samples: answer.samples,
      open: state === "running",
    }),
    [dag_id, run_id, plan_task, map_index, state, application, answer.samples],
  );
  useLastLook(looked.open);
  return (
    <Run.Provider value={looked}>
      <Head answer={answer} application={application} />
      {answer.note ? <Note>{answer.note}</Note> : null}
      {application.note ? <Note>{application.note}</Note> : null}
      <FirstFailure />
      <Tabs shown={shown} stage={choices.stage ?? null} />
      <div role="tabpanel" id="panel" aria-labelledby={`tab-${shown}`} key={`${keyOf(application)} ${shown}`}>
        <Guard>
          <Suspense fallback={<Empty>Loading the view.</Empty>}>
            <View tab={shown} />
          </Suspense>
        </Guard>
      </div>
    </Run.Provider>
  );
}

/** Look at everything once more when the run ends: what it has left at last is not in the look before. */
function useLastLook(open: boolean): void {
  const queries = useQueryClient();
  const wasOpen = useRef(open);
  useEffect(() => {
    if (wasOpen.current && !open) void queries.invalidateQueries();
    wasOpen.current = open;
  }, [open, queries]);
}

function View({ tab }: { tab: Tab }): ReactElement {
  switch (tab) {
    case "plan":
      return <PlanView />;
    case "progress":
      return <ProgressView />;
    case "results":
      return <ResultsView />;
    case "data":
      return <DataView />;
    case "clear":
      return <ClearView />;
    case "backfill":
      return <BackfillView />;
  }
}

function Head({ answer, application }: { answer: Schemas["Applications"]; application: Application }): ReactElement {
  const { tab } = useRoute();
  const framed = parentOfSameOrigin() !== null;
  return (
    <header>
      <div className="title">
        <h1>{application.application}</h1>
        <State state={application.state} />
        <Chip>{application.mode}</Chip>
        {answer.applications.length > 1 ? (
          <label className="field">
            Application
            <select value={keyOf(application)} onChange={(event) => goTo(tab, { app: event.target.value })}>
              {answer.applications.map((one) => (
                <option key={keyOf(one)} value={keyOf(one)}>
                  {[one.group, one.application].filter(Boolean).join(": ")}
                  {one.map_index >= 0 ? ` [${one.map_index}]` : ""}
                </option>
              ))}
            </select>
          </label>
        ) : null}
        <span className="out">
          <Outside href={framed ? location.href : airflowRun(answer.dag_id, answer.run_id)} tabOfItsOwn={framed}>
            {framed ? "Open in a tab of its own" : "Dag run in Airflow"}
          </Outside>
        </span>
      </div>
      <p className="subtitle">
        Dag <code>{answer.dag_id}</code>, run <code>{answer.run_id}</code>, planned <Moment at={application.planned_at} />
        {application.generation > 1 ? `, plan ${count(application.generation)}` : ""}
      </p>
    </header>
  );
}

function FailureCount(): ReactElement | null {
  const { failures } = useFailures();
  return failures.length === 0 ? null : (
    <span className="badge bad">
      {count(failures.length)}
      <span className="unseen"> failed</span>
    </span>
  );
}

function Tabs({ shown, stage }: { shown: Tab; stage: string | null }): ReactElement {
  const list = useRef<HTMLDivElement>(null);
  // A phone is narrower than the tabs. The page itself stays where it is: the failure above them is to be seen first.
  useEffect(() => {
    const [tabs, tab] = [list.current, document.getElementById(`tab-${shown}`)?.getBoundingClientRect()];
    if (tabs === null || tab === undefined) return;
    const all = tabs.getBoundingClientRect();
    tabs.scrollLeft += tab.left + tab.width / 2 - all.left - all.width / 2;
  }, [shown]);
  const go = (event: KeyboardEvent): void => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = TABS[(TABS.indexOf(shown) + step + TABS.length) % TABS.length] as Tab;
    goTo(next, { stage });
    document.getElementById(`tab-${next}`)?.focus();
  };
  return (
    <nav aria-label="Views">
      <div ref={list} role="tablist" className="tabs" aria-label="Views of the run" onKeyDown={go}>
        {TABS.map((tab) => (
          <Inside
            key={tab}
            tab={tab}
            choices={{ stage }}
            more={{
              role: "tab",
              id: `tab-${tab}`,
              "aria-selected": tab === shown,
              "aria-controls": "panel",
              tabIndex: tab === shown ? 0 : -1,
            }}
          >
            {NAMES[tab]}
            {tab === "results" ? <FailureCount /> : null}
          </Inside>
        ))}
      </div>
    </nav>
  );
}
