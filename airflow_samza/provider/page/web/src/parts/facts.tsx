import type { ReactElement, ReactNode } from "react";

/** Names with their values, one below the other. What has no value is left out. */
export function Facts({ of }: { of: readonly (readonly [string, ReactNode])[] }): ReactElement {
  return (
    <dl className="facts">
      {of
        .filter(([, value]) => value !== null && value !== undefined && value !== "")
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

/** Great figures side by side. */
export function Figures({ of }: { of: readonly (readonly [string, ReactNode, ReactNode?])[] }): ReactElement {
  return (
    <dl className="figures">
      {of.map(([name, value, more]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            {value}
            {more ? <small>{more}</small> : null}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** A part of a view with its heading. */
export function Section({
  title,
  more,
  children,
}: {
  title: string;
  more?: ReactNode;
  children: ReactNode;
}): ReactElement {
  return (
    <section className="section" aria-label={title}>
      <div className="heading">
        <h2>{title}</h2>
        {more}
      </div>
      {children}
    </section>
  );
}

/** The columns of a schema in DDL, one a line. */
export function Columns({ ddl }: { ddl: string | null | undefined }): ReactElement | null {
  if (!ddl) return null;
  return (
    <ul className="columns" aria-label="Columns">
      {splitColumns(ddl).map((column) => (
        <li key={column}>{column}</li>
      ))}
    </ul>
  );
}

/** Return the columns of a DDL text; commas within types and quotes separate none. */
export function splitColumns(ddl: string): string[] {
  const found: string[] = [];
  let depth = 0;
  let quoted = false;
  let start = 0;
  for (let at = 0; at < ddl.length; at += 1) {
    const sign = ddl.charAt(at);
    if (sign === "`") quoted = !quoted;
    else if (quoted) continue;
    else if ("<(".includes(sign)) depth += 1;
    else if (">)".includes(sign)) depth -= 1;
    else if (sign === "," && depth === 0) {
      found.push(ddl.slice(start, at).trim());
      start = at + 1;
    }
  }
  found.push(ddl.slice(start).trim());
  return found.filter((column) => column !== "");
}

/** A bar that is filled to so many per cent, with the figure beside it. */
export function Bar({ value, label, text }: { value: number | null; label: string; text: string }): ReactElement {
  if (value === null) return <span className="quiet">{text}</span>;
  return (
    <span className="bar">
      <span
        className="track"
        role="progressbar"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={Math.round(value)}
        aria-valuetext={text}
      >
        <span className="fill" style={{ width: `${Math.min(Math.max(value, 0), 100)}%` }} />
      </span>
      <span className="figure">{text}</span>
    </span>
  );
}
