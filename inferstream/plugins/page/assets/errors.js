// Shows the error of a call.

import { button, h, icon } from "./dom.js";

/** The status and the message of a failed call. */
export function errorBox(error, server) {
  const status = error.status ? `Error ${error.status}` : error.code ? `Failed: ${error.code}` : "No response";
  const opens = error.status === 401 || error.status === 403;
  if (error.status === 401) server.refuse(error);
  const text = error.message.includes("\n") ? h("pre", { tabindex: 0 }, error.message) : h("p", {}, error.message);
  return h("div", { class: "error", role: "alert" }, h("strong", {}, status), text, opens && button([icon("key"), "Set a key"], () => server.refuse(error)));
}
