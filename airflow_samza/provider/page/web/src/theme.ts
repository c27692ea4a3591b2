import { parentOfSameOrigin } from "./route";

/** Show the page light or dark: as Airflow's own page, or else as the browser prefers; follow changes of either. */
export function followTheme(): void {
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const outer = parentOfSameOrigin()?.document.documentElement;
  const apply = (): void => {
    document.documentElement.dataset.theme = themeOf(outer?.className ?? "", prefersDark.matches);
  };
  if (outer) new MutationObserver(apply).observe(outer, { attributes: true, attributeFilter: ["class"] });
  prefersDark.addEventListener("change", apply);
  apply();
}

/** Return the theme that classes name; without one the preference decides. */
export function themeOf(classes: string, prefersDark: boolean): "light" | "dark" {
  const words = classes.split(/\s+/);
  if (words.includes("dark")) return "dark";
  if (words.includes("light")) return "light";
  return prefersDark ? "dark" : "light";
}
