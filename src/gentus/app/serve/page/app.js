// The entry point of the page.

import { count } from "./dom.js";
import { index } from "./lake.js";
import { listen } from "./picker.js";
import { start } from "./route.js";
import * as search from "./search.js";

listen(search.takeFile);
start({
  "/": () => search,
  "/tables": () => import("./tables.js"),
  "/table": () => import("./table.js"),
  "/groups": () => import("./groups.js"),
  "/group": () => import("./group.js"),
  "/map": () => import("./map.js"),
  "/tree": () => import("./tree.js"),
});

index()
  .then((facts) => {
    document.getElementById("lake").textContent = `${facts.name} · ${count(facts.tables)} tables`;
  })
  .catch(() => {}); // the view that needs it shows the error

addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select");
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const field = document.querySelector("main [role=combobox], main input[type=search]");
  if (field) {
    event.preventDefault();
    field.focus();
  }
});
