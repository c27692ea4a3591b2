import type { ReactElement } from "react";
import { UNKNOWN, duration, localTime, utcTime } from "../format";

/** A moment in the user's zone, with UTC on hover; seconds since 1970. */
export function Moment({ at, ago = false }: { at: number | null | undefined; ago?: boolean }): ReactElement {
  if (at === null || at === undefined || at === 0) return <span className="quiet">{UNKNOWN}</span>;
  const passed = Date.now() / 1000 - at;
  return (
    <time dateTime={new Date(at * 1000).toISOString()} title={utcTime(at * 1000)}>
      {localTime(at * 1000)}
      {ago && passed > 0 ? <span className="quiet"> ({duration(Math.round(passed))} ago)</span> : null}
    </time>
  );
}

/** A moment given as an ISO text in UTC. */
export function IsoMoment({ text }: { text: string | null | undefined }): ReactElement {
  const at = text ? Date.parse(/(Z|[+-]\d\d:?\d\d)$/.test(text) || !text.includes("T") ? text : `${text}Z`) : Number.NaN;
  return Number.isNaN(at) ? <span>{text ?? UNKNOWN}</span> : <Moment at={at / 1000} />;
}
