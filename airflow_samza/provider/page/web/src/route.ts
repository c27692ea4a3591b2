import { useSyncExternalStore } from "react";

/** The names of the tabs, as they stand in the address. */
export const TABS = ["plan", "progress", "results", "data", "clear", "backfill"] as const;
export type Tab = (typeof TABS)[number];

/** The part of the page that is shown: a tab and named choices, such as the stage that is looked at. */
export interface Route {
  tab: Tab | null;
  choices: Readonly<Record<string, string>>;
}

/** Return the route of a hash such as `#/progress?stage=per-country`. */
export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const tab = TABS.find((name) => name === path) ?? null;
  return { tab, choices: Object.fromEntries(new URLSearchParams(query)) };
}

/** Choices by name; those without a value are left out of an address. */
export type Choices = Readonly<Record<string, string | null | undefined>>;

/** Return the hash of a route. */
export function routeHash(tab: Tab | null, choices: Choices): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(choices)) if (value) query.set(name, value);
  const text = query.toString();
  return `#/${tab ?? ""}${text ? `?${text}` : ""}`;
}

/** Return an address for a link. A hash alone would be taken as relative to `<base>`. */
const hashHref = (hash: string): string => `${location.pathname}${hash}`;

/** Return the address of a route. The application that is looked at stays, unless another one is chosen. */
export const routeHref = (tab: Tab | null, choices: Choices): string =>
  hashHref(routeHash(tab, { app: current().choices.app, ...choices }));

/** Go to another route; `replace` makes no entry in the browser's history. */
export function goTo(tab: Tab | null, choices: Choices, { replace = false } = {}): void {
  const href = routeHref(tab, choices);
  if (replace) history.replaceState(null, "", href);
  else history.pushState(null, "", href);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

/**
 * Keep the hash in the address of Airflow's page, too, so that its address can be handed on; take it from there at the
 * start.
 */
export function shareRouteWithAirflow(): void {
  const outer = parentOfSameOrigin();
  if (outer === null) return;
  if (location.hash === "" && outer.location.hash.startsWith("#/")) {
    history.replaceState(null, "", hashHref(outer.location.hash));
  }
  addEventListener("hashchange", () => {
    const { pathname, search } = outer.location;
    outer.history.replaceState(outer.history.state, "", `${pathname}${search}${location.hash}`);
  });
}

/** Return the window in which the page is framed, if its document may be accessed; null where the page is not framed. */
export function parentOfSameOrigin(): Window | null {
  if (window.parent === window) return null;
  try {
    return window.parent.document ? window.parent : null;
  } catch {
    return null;
  }
}

let known: { hash: string; route: Route } = { hash: "", route: parseRoute("") };

function current(): Route {
  if (known.hash !== location.hash) known = { hash: location.hash, route: parseRoute(location.hash) };
  return known.route;
}

function subscribe(changed: () => void): () => void {
  addEventListener("hashchange", changed);
  addEventListener("popstate", changed);
  return () => {
    removeEventListener("hashchange", changed);
    removeEventListener("popstate", changed);
  };
}

/** The present route. */
export const useRoute = (): Route => useSyncExternalStore(subscribe, current);
