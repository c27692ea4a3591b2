import { QueryClient } from "@tanstack/react-query";
import createFetchClient, { type Middleware } from "openapi-fetch";
import createQueryClient from "openapi-react-query";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

/** An answer of the interface that is no data: a sentence for people, and the HTTP status (0: no answer at all). */
export class ApiProblem extends Error {
  constructor(
    readonly status: number,
    sentence: string,
    readonly hint: string | null = null,
  ) {
    super(sentence);
  }
}

async function problemOf(response: Response): Promise<ApiProblem> {
  const body: unknown = await response.json().catch(() => null);
  const found = (body ?? {}) as { sentence?: string; hint?: string | null };
  if (typeof found.sentence === "string") {
    const hint = found.hint ?? (response.status === 401 ? "Reload Airflow's page to sign in again." : null);
    return new ApiProblem(response.status, found.sentence, hint);
  }
  return new ApiProblem(response.status, `Airflow's API server answered with status ${response.status}.`);
}

/** Answers with an ETag, by address: a look that finds nothing new costs the server no more than its comparison. */
const tagged = new Map<string, { tag: string; text: string }>();

const answers: Middleware = {
  onRequest({ request }) {
    const before = tagged.get(request.url);
    if (before) request.headers.set("If-None-Match", before.tag);
    return request;
  },
  async onResponse({ request, response }) {
    const before = tagged.get(request.url);
    if (response.status === 304 && before) return asJson(before.text);
    if (!response.ok) throw await problemOf(response);
    if (!response.headers.get("content-type")?.includes("json")) {
      const hint = "Reload the page; if that does not help, the plugin airflow-samza is not loaded there.";
      throw new ApiProblem(response.status, "Airflow's API server answered with a page instead of data.", hint);
    }
    const tag = response.headers.get("etag");
    if (tag === null) return undefined;
    const text = await response.text();
    tagged.clear(); // only the run that is looked at
    tagged.set(request.url, { tag, text });
    return asJson(text);
  },
  onError({ error }) {
    if (error instanceof ApiProblem) return error;
    return new ApiProblem(0, "Airflow's API server does not answer.", "The page asks again by itself.");
  },
};

const asJson = (text: string): Response => new Response(text, { headers: { "content-type": "application/json" } });

/** The interface as calls. */
export const client = createFetchClient<paths>({
  baseUrl: new URL(".", document.baseURI).href.replace(/\/$/, ""),
  credentials: "same-origin",
  headers: { Accept: "application/json" },
});
client.use(answers);

/** The interface as hooks: `api.useQuery("get", path, { params })`. */
export const api = createQueryClient(client);

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      refetchOnWindowFocus: false,
      refetchIntervalInBackground: false,
      // What is not permitted or not there does not come by asking again.
      retry: (failures, error) => failures < 2 && !(error instanceof ApiProblem && error.status >= 400),
    },
  },
});
