// Requests to the server. Responses are JSON; failures are errors with messages for people.

export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server cannot be reached. Is gentus serve still running?", 0);
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  throw new ApiError(
    body?.error ?? `The server answered ${response.status} ${response.statusText}.`,
    response.status,
  );
}

const json = async (path, options) => (await ask(path, options)).json();

/** GET with parameters. */
export function get(path, parameters = {}, signal = undefined) {
  const query = new URLSearchParams(parameters).toString();
  return json(query ? `${path}?${query}` : path, { signal });
}

const asJson = (body, signal) => ({
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(body),
  signal,
});

/** POST of JSON. */
export const post = (path, body, signal = undefined) => json(path, asJson(body, signal));

/** POST of a file and other fields. */
export function send(path, file, fields = {}, signal = undefined) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  form.append("file", file, file.name);
  return json(path, { method: "POST", body: form, signal });
}

/** POST of JSON that returns a file: its content, and its name from the server. */
export async function fetchFile(path, body) {
  const response = await ask(path, asJson(body));
  const named = /filename\*=UTF-8''([^;]+)/i.exec(response.headers.get("Content-Disposition") ?? "");
  const name = named ? decodeURIComponent(named[1]) : null;
  try {
    return { name, content: await response.blob() };
  } catch {
    throw new ApiError("The download was interrupted. Try again.", 0);
  }
}
