"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const layers = data.layers;
  const ROW = 22, LANE = 14, LEFT = 12;
  const KINDS = [["mmalib", "MMALIB"], ["firmware", "firmware kernel"], ["c7x", "c7x kernel"], ["tvm", "loop"]];
  const hasTime = data.clock !== null, hasAccuracy = data.accuracy !== null;

  function element(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }
  function drawn(tag, attributes) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  }
  function scaled(value, units) {
    for (const [limit, unit] of units) if (value >= limit) return (value / limit).toFixed(1) + " " + unit;
    return String(value) + (units === BYTES ? " B" : "");
  }
  const COUNTS = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const BYTES = [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]];
  const count = (value) => (value ? scaled(value, COUNTS) : "-");
  const bytes = (value) => scaled(value, BYTES);
  function time(value) {
    if (value === null || value === undefined) return "-";
    if (data.clock === "dsp") return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
    if (value >= 0.1) return value.toFixed(1) + " s";
    return value >= 1e-3 ? (value * 1e3).toFixed(1) + " ms" : (value * 1e6).toFixed(1) + " µs";
  }
  function decibels(figures) {
    if (!figures) return "-";
    if (figures.sqnr_db !== null) return figures.sqnr_db.toFixed(1) + " dB";
    return figures.mismatches ? "-" : "exact";
  }
  const sum = (indices, pick) => indices.reduce((total, index) => total + pick(layers[index]), 0);

  // ------------------------------------------------------------------------------------------------- groups

  // Every item of the tree gets a number, its leaves and its parent; what is open is a set of numbers.
  const groups = [];
  function number(item, depth, parent) {
    if (typeof item === "number") return [item];
    item.id = groups.length;
    item.depth = depth;
    item.parent = parent;
    groups.push(item);
    item.leaves = [];
    for (const child of item.items) item.leaves.push(...number(child, depth + 1, item));
    return item.leaves;
  }
  for (const item of data.tree) number(item, 0, null);
  const open = new Set(layers.length <= data.collapse_above ? groups.map((group) => group.id) : []);
  let selected = null, wanted = "";

  function kindOf(indices) {
    const weight = {};
    for (const index of indices) {
      const layer = layers[index];
      weight[layer.kind] = (weight[layer.kind] || 0) + 1 + layer.macs * 1e6;
    }
    return KINDS.map(([kind]) => kind).filter((kind) => kind in weight).sort((a, b) => weight[b] - weight[a])[0];
  }

  // The rows to show, in call order: {leaves, depth, group} for a closed group, {layer} for a layer, {heading} for the
  // title of an open group, which is no node.
  function visible() {
    const rows = [];
    if (wanted) {
      for (const layer of layers) {
        if (layer.text.includes(wanted)) rows.push({leaves: [layer.index], depth: 0, group: null});
      }
      return rows;
    }
    (function walk(items, depth) {
      for (const item of items) {
        if (typeof item === "number") rows.push({leaves: [item], depth, group: null});
        else if (open.has(item.id)) {
          rows.push({leaves: [], depth, group: item});
          walk(item.items, depth + 1);
        } else rows.push({leaves: item.leaves, depth, group: item});
      }
    })(data.tree, 0);
    return rows;
  }

  // Every node's value keeps a lane from its row to its last reader's; a node takes the lowest lane that is free.
  function lanes(rows) {
    const rowOf = new Map();
    rows.forEach((row, at) => row.leaves.forEach((leaf) => rowOf.set(leaf, at)));
    const edges = new Map();
    for (const [from, to] of data.edges) {
      const a = rowOf.get(from), b = rowOf.get(to);
      if (a !== undefined && b !== undefined && a < b) edges.set(a * rows.length + b, [a, b]);
    }
    const last = rows.map((_, at) => at);
    for (const [a, b] of edges.values()) last[a] = Math.max(last[a], b);
    const busy = [], lane = [];
    rows.forEach((row, at) => {
      if (!row.leaves.length) return lane.push(null);
      let free = busy.findIndex((until) => until <= at);
      if (free < 0) free = busy.length;
      busy[free] = last[at];
      lane.push(free);
    });
    return {edges: [...edges.values()], lane, width: LEFT + LANE * Math.max(1, busy.length)};
  }

  // ------------------------------------------------------------------------------------------------- the list

  const list = document.getElementById("rows"), columns = document.getElementById("columns");
  const shownColumns = ["layer", "operators", "source", "MACs", "bytes"];
  if (hasTime) shownColumns.push(data.clock === "dsp" ? "cycles" : "host time");
  if (hasAccuracy) shownColumns.push("SQNR");

  function template(width) {
    const wide = ["minmax(170px, 2.4fr)", "minmax(90px, 1.3fr)", "minmax(92px, 1fr)", "68px", "70px"];
    if (hasTime) wide.push("104px");
    if (hasAccuracy) wide.push("74px");
    return width + "px " + wide.join(" ");
  }

  function title(row) {
    if (row.leaves.length === 1 && !row.group) return layers[row.leaves[0]].shown;
    const {title: name, repeat} = row.group;
    return (open.has(row.group.id) && !wanted ? "▾ " : "▸ ") + name +
      (repeat ? " (" + repeat + " alike)" : "");
  }

  const slowest = hasTime ? Math.max(...layers.map((layer) => layer.time), 0) : 0;
  function bar(value, most) {
    const made = element("span", {class: "bar"});
    // Half of the column: the number stands in the other.
    const width = most ? Math.max(0, Math.min(1, value / most)) * 50 : 0;
    made.append(element("i", {style: "width:" + width.toFixed(1) + "%"}), element("em", {}, time(value)));
    return made;
  }

  function accuracyOf(indices) {
    const judged = indices.map((index) => layers[index].accuracy).filter((found) => found && found.node !== null);
    if (!judged.length) return element("span", {class: "number"}, "");
    const bad = judged.some((found) => found.passed === false);
    const noisy = judged.filter((found) => found.sqnr_db !== null).sort((a, b) => a.sqnr_db - b.sqnr_db);
    const worst = judged.find((found) => found.passed === false) || noisy[0] || judged[0];
    return element("span", {class: bad ? "number bad" : "number"}, decibels(worst));
  }

  function rowElement(row, at) {
    const made = element("div", {class: "row", role: "button", tabindex: "0", "data-row": at});
    const name = element("span", {style: "padding-left:" + row.depth * 14 + "px"}, title(row));
    name.className = row.group ? (row.leaves.length ? "group" : "group open") : "";
    name.title = name.textContent;
    made.append(element("span", {}), name);
    const leaves = row.group ? row.group.leaves : row.leaves;
    const one = row.group ? null : layers[row.leaves[0]];
    if (one) made.dataset.layer = one.index;
    else made.dataset.group = row.group.id;
    const source = one ? one.source.join(", ") || one.modules.join(", ") : "";
    made.append(
      element("span", {title: one ? one.operators : ""}, one ? one.operators : leaves.length + " layers"),
      element("span", {class: "source", title: source}, source),
      element("span", {class: "number"}, count(sum(leaves, (layer) => layer.macs))),
      element("span", {class: "number"}, bytes(sum(leaves, (layer) => layer.bytes_in + layer.bytes_out))));
    if (hasTime) made.append(bar(sum(leaves, (layer) => layer.time), one ? slowest : data.totals.time));
    if (hasAccuracy) made.append(accuracyOf(leaves));
    made.addEventListener("click", () => (row.group ? toggle(row.group) : select(one.index)));
    made.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); made.click(); }
      const next = {ArrowDown: made.nextElementSibling, ArrowUp: made.previousElementSibling}[event.key];
      if (next && next.classList.contains("row")) { event.preventDefault(); next.focus(); }
    });
    return made;
  }

  function render() {
    const rows = visible(), {edges, lane, width} = lanes(rows);
    columns.style.gridTemplateColumns = template(width);
    columns.replaceChildren(element("span", {}), ...shownColumns.map((name, at) =>
      element("span", {class: at > 2 && name !== "host time" && name !== "cycles" ? "number" : ""}, name)));
    const picture = drawn("svg", {width, height: Math.max(1, rows.length * ROW), "aria-hidden": "true"});
    const x = (at) => LEFT + LANE * lane[at], y = (at) => ROW * at + ROW / 2;
    for (const [a, b] of edges) {
      const turn = y(b) - ROW * 0.9;
      const path = lane[a] === lane[b]
        ? `M${x(a)} ${y(a)}V${y(b)}`
        : `M${x(a)} ${y(a)}V${Math.max(turn, y(a))}C${x(a)} ${y(b) - 4} ${x(b)} ${turn + 4} ${x(b)} ${y(b)}`;
      picture.append(drawn("path", {class: "edge", d: path}));
    }
    rows.forEach((row, at) => {
      if (lane[at] === null) return;
      const wrong = row.leaves.some((leaf) => layers[leaf].accuracy && layers[leaf].accuracy.passed === false);
      const shared = {class: "node " + kindOf(row.leaves) + (wrong ? " wrong" : ""), "data-row": at};
      picture.append(row.group
        ? drawn("rect", {...shared, x: x(at) - 6, y: y(at) - 6, width: 12, height: 12, rx: 2})
        : drawn("circle", {...shared, cx: x(at), cy: y(at), r: 5}));
    });
    list.replaceChildren(picture, ...rows.map((row, at) => {
      const made = rowElement(row, at);
      made.style.gridTemplateColumns = template(width);
      if (!row.group && row.leaves[0] === selected) made.classList.add("selected");
      return made;
    }));
    document.getElementById("found").textContent = wanted ? rows.length + " of " + layers.length + " layers" : "";
  }

  function toggle(group) {
    if (open.has(group.id)) open.delete(group.id);
    else open.add(group.id);
    render();
  }

  // ------------------------------------------------------------------------------------------------- one layer

  function facts(pairs) {
    const table = element("table", {});
    for (const [name, value] of pairs) {
      if (value !== "" && value !== null) table.append(element("tr", {}, element("th", {}, name), element("td", {}, value)));
    }
    return table;
  }
  const operand = (tensor) => `${tensor.buffer}: ${tensor.dtype}[${tensor.shape.join(", ")}], ${bytes(tensor.bytes)}, ` +
    (tensor.place === "arena" ? "arena + " + tensor.offset : tensor.offset === null ? tensor.place : tensor.place + " " + tensor.offset);

  function select(index, {reveal = false} = {}) {
    selected = index;
    const layer = layers[index];
    const pairs = [
      ["operators", layer.operators], ["source", layer.source.join(", ")], ["module", layer.modules.join(", ")],
      ["graph nodes", layer.nodes.join(", ")], ["kernel", layer.kernel],
      ["runs as", KINDS.find(([kind]) => kind === layer.kind)[1] + (layer.reason ? ": " + layer.reason : "")],
      ["MACs", layer.macs ? layer.macs.toLocaleString("en-US") : "-"],
      ["reads, writes", bytes(layer.bytes_in) + ", " + bytes(layer.bytes_out)],
    ];
    if (hasTime) {
      pairs.push([data.clock === "dsp" ? "cycles" : "host time", `${time(layer.time)} (${(100 * layer.share).toFixed(1)} %)`],
        ["first time", time(layer.first)]);
    }
    const found = layer.accuracy;
    if (found) {
      pairs.push(["accuracy", found.node === null ? found.note
        : `${decibels(found)} by itself, ${decibels(found.chained)} in the chain` +
          (found.float ? `, ${decibels(found.float)} to the float model` : "")]);
      if (found.node !== null) {
        pairs.push(["max error", found.max_abs.toPrecision(3)], ["compared with", `${found.node}, ${found.order}`]);
        if (found.passed === false) pairs.push(["not close enough", element("span", {class: "bad"}, found.note)]);
      }
    }
    const operands = [];
    for (const [label, tensors] of [["input", layer.inputs], ["output", layer.outputs]]) {
      tensors.forEach((tensor, at) => operands.push([tensors.length > 1 ? label + " " + at : label, operand(tensor)]));
    }
    const code = data.kernels[layer.kernel];
    document.getElementById("detail").replaceChildren(
      element("h3", {}, `${layer.index}: ${layer.name}`), facts(pairs),
      element("h4", {}, "operands"), facts(operands),
      element("h4", {}, "the call in lib0.c"), element("pre", {id: "call"}, layer.call),
      element("h4", {}, code ? "the kernel in lib0.c" : "the kernel is the firmware's: lib0.c calls it only"),
      ...(code ? [element("pre", {id: "code"}, code)] : []));
    document.getElementById("detail").scrollTop = 0;
    if (reveal) {
      for (const group of groups) if (group.leaves.includes(index)) open.add(group.id);
      render();
    }
    for (const row of list.querySelectorAll(".row")) row.classList.toggle("selected", row.dataset.layer === String(index));
    const shown = list.querySelector(".row.selected");
    if (reveal && shown) shown.scrollIntoView({block: "nearest"});
    moment();
    history.replaceState(null, "", "#layer=" + index);
  }

  // ------------------------------------------------------------------------------------------------- memory

  const now = drawn("rect", {class: "now", y: 0, width: 1, x: -2});
  function moment() {
    now.setAttribute("x", selected === null ? -2 : selected);
  }
  function drawMemory() {
    const {arena_bytes: size, buffers} = data.memory;
    const note = document.getElementById("memory-note");
    if (!size) { note.textContent = "The model needs no arena."; return; }
    note.textContent = `${bytes(size)} in ${buffers.length} buffers. From left to right the calls in order, from bottom to top ` +
      "the addresses; grey is scratch memory of one call. Click a buffer to see the layer that writes it.";
    const picture = drawn("svg", {viewBox: `0 0 ${layers.length} ${size}`, preserveAspectRatio: "none"});
    for (const buffer of buffers) {
      const layer = layers[buffer.first];
      const made = drawn("rect", {
        class: "buffer " + (buffer.scratch ? "scratch" : layer.kind), x: buffer.first, width: buffer.last - buffer.first + 1,
        y: size - buffer.offset - buffer.bytes, height: buffer.bytes,
      });
      const label = drawn("title", {});
      label.textContent = `${buffer.name}: ${bytes(buffer.bytes)} at ${buffer.offset}, calls ${buffer.first} to ${buffer.last}`;
      made.append(label);
      made.addEventListener("click", () => select(buffer.first, {reveal: true}));
      picture.append(made);
    }
    now.setAttribute("height", size);
    picture.append(now);
    document.getElementById("memory-chart").append(picture);
  }

  // ------------------------------------------------------------------------------------------------- the rest

  document.getElementById("title").textContent = data.model;
  document.getElementById("facts").textContent = data.facts;
  for (const [label, value] of data.summary) {
    document.getElementById("totals").append(element("div", {}, element("b", {}, value), label));
  }
  const present = new Set(layers.map((layer) => layer.kind));
  for (const [kind, label] of KINDS) {
    if (present.has(kind)) document.getElementById("legend").append(element("span", {}, element("i", {class: kind}), label));
  }
  for (const layer of layers) {
    layer.text = [layer.name, layer.operators, layer.kernel, ...layer.source, ...layer.modules, ...layer.nodes].join("\n").toLowerCase();
  }
  const search = document.getElementById("search");
  search.addEventListener("input", () => { wanted = search.value.trim().toLowerCase(); render(); });
  document.getElementById("collapse").addEventListener("click", () => { open.clear(); render(); });
  document.getElementById("expand").addEventListener("click", () => { groups.forEach((group) => open.add(group.id)); render(); });
  drawMemory();
  render();
  // report.html#layer=12 shows a layer, report.html#search=conv2d what is found.
  const [asked, value] = decodeURIComponent(location.hash.slice(1)).split("=");
  if (asked === "layer" && layers[Number(value)]) select(Number(value), {reveal: true});
  if (asked === "search" && value) { search.value = value; wanted = value.toLowerCase(); render(); }
})();
