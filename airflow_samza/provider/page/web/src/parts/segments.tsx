import type { ReactElement } from "react";

/** A choice of one out of few, as buttons side by side. */
export function Segments<Value extends string>({
  label,
  options,
  value,
  choose,
}: {
  label: string;
  options: readonly (readonly [Value, string])[];
  value: string;
  choose: (value: Value) => void;
}): ReactElement {
  return (
    <fieldset className="segments">
      <legend className="unseen">{label}</legend>
      {options.map(([option, text]) => (
        <button key={option} type="button" aria-pressed={option === value} onClick={() => choose(option)}>
          {text}
        </button>
      ))}
    </fieldset>
  );
}
