// Shows the description of an API: a section for each tag, an operation folded in each line.
"use strict";

const base = document.documentElement.dataset.base;
const main = document.getElementById("operations");
const query = document.getElementById("query");
const count = document.getElementById("count");

/** An element with text or children; nothing is ever read as markup. */
function make(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== ""));
  return element;
}

/** Text in which what stands between backquotes is code. */
function prose(text) {
  const parts = text.split("`");
  return parts.map((part, at) => (at % 2 ? make("code", {}, part) : part));
}

let description;

function resolve(thing) {
  if (!thing || !thing.$ref) return thing;
  return thing.$ref.slice(2).split("/").reduce((at, key) => at[key], description);
}

function nameOf(schema) {
  return schema.$ref ? schema.$ref.split("/").pop() : undefined;
}

/** A schema in a few words. */
function kind(schema) {
  if (schema.anyOf) return schema.anyOf.map(kind).join(" or ");
  const name = nameOf(schema);
  if (name) return name;
  if (schema.enum) return schema.enum.map((word) => JSON.stringify(word)).join(" | ");
  const types = [schema.type ?? "anything"].flat();
  const first = types.map((type) => {
    if (type === "array") return `array of ${kind(schema.items ?? {})}`;
    if (type === "object" && schema.additionalProperties) {
      return `map to ${kind(schema.additionalProperties)}`;
    }
    return type;
  });
  const format = schema.format ? ` (${schema.format})` : "";
  const bounds =
    schema.minimum !== undefined && schema.maximum !== undefined
      ? ` ${schema.minimum}..${schema.maximum}`
      : "";
  return first.join(" or ") + format + bounds;
}

/** What can be unfolded of a schema: the object in it, at any depth of arrays and maps. */
function within(schema) {
  if (schema.anyOf) return within(schema.anyOf[0]);
  const own = resolve(schema);
  if (own.properties) return own;
  if (own.items) return within(own.items);
  if (own.additionalProperties) return within(own.additionalProperties);
  return undefined;
}

function members(object) {
  const must = new Set(object.required ?? []);
  const rows = Object.entries(object.properties).map(([name, schema]) => {
    const row = make(
      "li",
      {},
      make("code", must.has(name) ? { class: "must" } : {}, name),
      " ",
      make("span", { class: "kind" }, kind(schema)),
    );
    if (schema.description) {
      row.append(make("span", { class: "means" }, " · ", ...prose(schema.description)));
    }
    const inner = within(schema);
    if (inner) row.append(" ", folded("members", () => members(inner)));
    return row;
  });
  return make("ul", { class: "members" }, ...rows);
}

/** Something that is made when it is first unfolded: schemas may hold themselves. */
function folded(title, fill) {
  const details = make("details", { class: "more" }, make("summary", {}, title));
  details.addEventListener("toggle", () => details.append(fill()), { once: true });
  return details;
}

function schemaView(schema) {
  const inner = within(schema);
  if (!inner) return make("p", {}, make("span", { class: "kind" }, kind(schema)));
  const own = resolve(schema);
  const head = own.type === "array" ? make("p", {}, kind(schema)) : undefined;
  return make("div", {}, head, members(inner));
}

function contentView(content) {
  return Object.entries(content ?? {}).map(([media, { schema }]) =>
    make("div", {}, make("p", { class: "kind" }, media), schemaView(schema)),
  );
}

function parametersView(parameters) {
  const rows = parameters.map(resolve).map((it) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, make("code", it.required ? { class: "must" } : {}, it.name)),
      make("td", {}, it.in),
      make("td", {}, kind(it.schema)),
      make("td", {}, ...prose(it.description ?? "")),
    ),
  );
  const heads = ["name", "in", "type", "meaning"].map((text) => make("th", { scope: "col" }, text));
  return make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows));
}

function responsesView(responses) {
  return Object.entries(responses).map(([status, given]) => {
    const response = resolve(given);
    const isSuccess = status < 400;
    const details = make(
      "details",
      { class: "answer" },
      make("summary", {}, make("strong", {}, status), " ", ...prose(response.description)),
      ...contentView(response.content),
    );
    details.open = isSuccess;
    return details;
  });
}

function operationBody(operation) {
  const body = make("div", { class: "body" }, make("p", {}, ...prose(operation.description)));
  body.append(make("p", {}, make("span", { class: "kind" }, "operation "), make("code", {}, operation.operationId)));
  if (operation.parameters) {
    body.append(make("h3", {}, "Parameters"), parametersView(operation.parameters));
  }
  if (operation.requestBody) {
    body.append(make("h3", {}, "Body"), ...contentView(operation.requestBody.content));
  }
  body.append(make("h3", {}, "Answers"), ...responsesView(operation.responses));
  return body;
}

function operationView(method, path, operation) {
  const details = make(
    "details",
    { class: "operation", id: operation.operationId },
    make(
      "summary",
      {},
      make("span", { class: `method ${method}` }, method.toUpperCase()),
      make("span", { class: "path" }, path),
      make("span", { class: "line" }, operation.summary),
    ),
  );
  const words = [method, path, operation.operationId, operation.summary, operation["x-access"]];
  details.dataset.words = words.join(" ").toLowerCase();
  details.addEventListener("toggle", () => details.append(operationBody(operation)), { once: true });
  return details;
}

function show() {
  document.getElementById("about").textContent = description.info.description;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `${base}/docs`) link.setAttribute("aria-current", "page");
  }
  const sections = new Map();
  for (const { name, description: about } of description.tags) {
    const heading = make("h2", {}, name.replaceAll("-", " "));
    sections.set(name, make("section", {}, heading, make("p", {}, about)));
  }
  for (const [path, methods] of Object.entries(description.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      sections.get(operation.tags[0]).append(operationView(method, path, operation));
    }
  }
  main.append(...sections.values());
}

/** Hides what lacks one of the words. */
function search() {
  const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const section of main.querySelectorAll("section")) {
    let own = 0;
    for (const operation of section.querySelectorAll("details.operation")) {
      operation.hidden = !words.every((word) => operation.dataset.words.includes(word));
      own += operation.hidden ? 0 : 1;
    }
    section.hidden = own === 0;
    shown += own;
  }
  count.textContent = `${shown} ${shown === 1 ? "operation" : "operations"}`;
}

function foldAll(open) {
  for (const operation of main.querySelectorAll("details.operation:not([hidden])")) {
    operation.open = open;
  }
}

/** Opens the operation that the address names. */
function follow() {
  const operation = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (operation?.matches("details.operation")) {
    operation.open = true;
    operation.scrollIntoView();
  }
}

async function start() {
  const answer = await fetch(`${base}/openapi.json`);
  if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
  description = await answer.json();
  show();
  search();
  follow();
}

query.addEventListener("input", search);
document.getElementById("search").addEventListener("submit", (event) => event.preventDefault());
document.getElementById("unfold").addEventListener("click", () => foldAll(true));
document.getElementById("fold").addEventListener("click", () => foldAll(false));
main.addEventListener("toggle", (event) => {
  const operation = event.target;
  if (operation.open && operation.matches("details.operation")) {
    history.replaceState(null, "", `#${operation.id}`);
  }
}, true);
addEventListener("hashchange", follow);
addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== query) {
    event.preventDefault();
    query.focus();
  }
});
start().catch((error) => {
  main.append(make("p", { role: "alert" }, `The description could not be read: ${error.message}`));
});
