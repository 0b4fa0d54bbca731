// The form of a model that declares no inputs: the JSON of a V2 request.

import { h } from "./dom.js";
import { pretty } from "./fields.js";

const EXAMPLE = { inputs: [{ name: "x", shape: [1, 3], datatype: "FP32", data: [1, 2, 3] }] };

/** The whole V2 request, for a model that declares no inputs. */
export function editor() {
  const input = h("textarea", { id: "v2-request", rows: 12, spellcheck: false, class: "code", value: pretty(EXAMPLE) });
  const fault = h("p", { class: "fault", id: "v2-request-fault", role: "alert" });
  input.setAttribute("aria-describedby", fault.id);
  const label = h("label", { for: input.id }, "Request");
  return {
    element: h("div", { class: "field" }, h("div", { class: "label" }, label, h("span", { class: "kind" }, "V2 JSON; this model declares no inputs")), input, fault),
    read: () => JSON.parse(input.value),
    fail(message) {
      fault.textContent = message;
      input.toggleAttribute("aria-invalid", Boolean(message));
    },
  };
}
