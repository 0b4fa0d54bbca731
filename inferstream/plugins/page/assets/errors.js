// Shows the error of a call.

import { button, h, icon } from "./dom.js";

const STATUSES = {
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  408: "Request Timeout",
  413: "Content Too Large",
  422: "Unprocessable Content",
  429: "Too Many Requests",
  500: "Internal Server Error",
  501: "Not Implemented",
  503: "Service Unavailable",
  504: "Gateway Timeout",
};

/** The status and the message of a failed call. */
export function errorBox(error, server) {
  const status = error.status ? `${error.status} ${STATUSES[error.status] ?? ""}`.trim() : error.code ? `Failed: ${error.code}` : "No response";
  const opens = error.status === 401 || error.status === 403;
  if (error.status === 401) server.refuse(error);
  const text = error.message.includes("\n") ? h("pre", { tabindex: 0 }, error.message) : h("p", {}, error.message);
  return h("div", { class: "error", role: "alert" }, h("strong", {}, status), text, opens && button([icon("key"), "Set a key"], () => server.refuse(error)));
}
