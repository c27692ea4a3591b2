import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactElement, ReactNode } from "react";
import { ApiProblem } from "../api/client";
import { Icon } from "./icons";

/** A sentence in the place of something that is not there. */
export const Empty = ({ children }: { children: ReactNode }): ReactElement => <p className="empty">{children}</p>;

/** A remark beside what is shown. */
export const Note = ({ children }: { children: ReactNode }): ReactElement => (
  <p className="note">
    <Icon name="warning" />
    <span>{children}</span>
  </p>
);

/** The sentence of an error, with its remedy and a way to ask again. */
export function Trouble({ error, again }: { error: unknown; again?: () => void }): ReactElement {
  const problem = error instanceof ApiProblem ? error : new ApiProblem(0, `The page met an error: ${String(error)}.`);
  return (
    <div className="trouble" role="alert">
      <Icon name={problem.status === 403 ? "stopped" : "warning"} />
      <div>
        <p>{problem.message}</p>
        {problem.hint ? <p className="quiet">{problem.hint}</p> : null}
        {again && problem.status !== 403 ? (
          <button type="button" onClick={again}>
            Ask again
          </button>
        ) : null}
      </div>
    </div>
  );
}

/**
 * What is made of an answer; before it is there a sentence, and if it fails its error. An answer that was there stays
 * while later looks fail, below the error.
 */
export function Answered<T>({
  query,
  loading,
  children,
}: {
  query: UseQueryResult<T, unknown>;
  loading: string;
  children: (data: T) => ReactNode;
}): ReactElement {
  const trouble = query.error ? <Trouble error={query.error} again={() => void query.refetch()} /> : null;
  if (query.data === undefined) {
    return (
      trouble ?? (
        <p className="empty" role="status">
          {loading}
        </p>
      )
    );
  }
  return (
    <>
      {trouble}
      {children(query.data)}
    </>
  );
}
