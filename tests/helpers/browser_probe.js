// Asked by the browser tests: what of a page's text can be seen, where it stands, and how well it can be read.
(() => {
  /** Texts on canvases, by canvas: what was written since the whole of it was last cleared. */
  const written = new Map();
  const { clearRect, fillText } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.clearRect = function (x, y, width, height) {
    const m = this.getTransform();
    if (m.a * width >= this.canvas.width && m.d * height >= this.canvas.height) written.set(this.canvas, []);
    return clearRect.call(this, x, y, width, height);
  };
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...rest) {
    const size = this.measureText(text);
    const m = this.getTransform();
    const corner = (px, py) => ({ x: m.a * px + m.c * py + m.e, y: m.b * px + m.d * py + m.f });
    const [from, to] = [
      corner(x - size.actualBoundingBoxLeft, y - size.actualBoundingBoxAscent),
      corner(x + size.actualBoundingBoxRight, y + size.actualBoundingBoxDescent),
    ];
    if (m.b === 0 && m.c === 0 && this.globalAlpha > 0.3) {
      if (!written.has(this.canvas)) written.set(this.canvas, []);
      const ratio = this.canvas.clientWidth > 0 ? this.canvas.width / this.canvas.clientWidth : 1;
      const letters = (parseFloat(/([\d.]+)px/.exec(this.font)?.[1] ?? "0") * m.a) / ratio;
      written.get(this.canvas).push({ text, letters, left: from.x, top: from.y, right: to.x, bottom: to.y });
    }
    return fillText.call(this, text, x, y, ...rest);
  };

  /** What the page has put off and not yet begun: timers that run once, and frames. */
  const awaited = new Set();
  const later = window.setTimeout;
  /** The milliseconds by which all of it comes late, as it may on a busy machine. */
  const slower = 0;
  for (const [begin, end] of [["setTimeout", "clearTimeout"], ["requestAnimationFrame", "cancelAnimationFrame"]]) {
    const [start, stop] = [window[begin], window[end]];
    window[begin] = (action, ...rest) => {
      const id = start((...given) => {
        const act = () => {
          if (awaited.delete(`${begin} ${id}`)) action(...given);
        };
        if (slower > 0) later(act, slower);
        else act();
      }, ...rest);
      awaited.add(`${begin} ${id}`);
      return id;
    };
    window[end] = (id) => {
      awaited.delete(`${begin} ${id}`);
      stop(id);
    };
  }

  /** Until the page has put nothing off. */
  const rest = async () => {
    for (const begun = performance.now(); awaited.size > 0; await new Promise((done) => later(done, 10))) {
      if (performance.now() - begun > 60_000) throw new Error(`after a minute, the page still awaits ${[...awaited]}`);
    }
  };

  const meet = (a, b) => ({
    left: Math.max(a.left, b.left),
    top: Math.max(a.top, b.top),
    right: Math.min(a.right, b.right),
    bottom: Math.min(a.bottom, b.bottom),
  });
  const wide = (box) => Math.max(0, box.right - box.left);
  const high = (box) => Math.max(0, box.bottom - box.top);
  const plain = ({ left, top, right, bottom }) => ({ left, top, right, bottom });

  const isSeen = (element) =>
    element.closest(".wg-hidden, noscript, option") === null &&
    element.checkVisibility({ opacityProperty: true, visibilityProperty: true });

  /** Elements around one that cut off what overflows them: [box, cuts for good, or can be scrolled]. */
  function frames(element) {
    const found = [];
    for (let e = element; e !== null && e !== document.documentElement; e = e.parentElement) {
      const style = getComputedStyle(e);
      if (style.overflowX !== "visible" || style.overflowY !== "visible") {
        const scrolls = /auto|scroll/.test(style.overflowX + style.overflowY);
        const shortened = style.textOverflow === "ellipsis" || style.webkitLineClamp !== "none";
        found.push({ box: plain(e.getBoundingClientRect()), scrolls, shortened });
      }
      if (style.position === "fixed") break;
    }
    return found;
  }

  /** Every piece of text that the page has, and what can be seen of it. */
  function allTexts() {
    const found = [];
    const walk = document.createTreeWalker(document.querySelector(".wg-app"), NodeFilter.SHOW_TEXT);
    for (let node = walk.nextNode(); node !== null; node = walk.nextNode()) {
      const owner = node.parentElement;
      if (node.data.trim() === "" || owner.closest("style, script") !== null || !isSeen(owner)) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      const around = frames(owner);
      for (const rect of range.getClientRects()) {
        const whole = plain(rect);
        const seen = around.reduce((box, frame) => meet(box, frame.box), whole);
        found.push({ text: node.data.trim().slice(0, 40), node, owner, whole, seen, around });
      }
    }
    return found;
  }

  const texts = () => allTexts().filter(({ seen }) => wide(seen) >= 1 && high(seen) >= 1);

  const name = (element) => {
    const kind = element.getAttribute("class");
    return element.tagName.toLowerCase() + (kind ? `.${kind.trim().split(/\s+/).join(".")}` : "");
  };

  /** The part of a line that letters fill: lines of text may touch, letters may not. */
  function letters({ left, top, right, bottom }) {
    const inset = (bottom - top) * 0.22;
    return { left: left + 0.5, right: right - 0.5, top: top + inset, bottom: bottom - inset };
  }

  /** Whether something with a ground of its own lies over a text: a dialog, a card above the picture. */
  function covered({ owner, seen }) {
    let at = document.elementFromPoint((seen.left + seen.right) / 2, (seen.top + seen.bottom) / 2);
    for (; at !== null && !at.contains(owner) && !owner.contains(at); at = at.parentElement) {
      if (rgba(getComputedStyle(at).backgroundColor)[3] > 0.9) return true;
    }
    return false;
  }

  function overlaps() {
    const shown = texts().filter((text) => !covered(text));
    const found = [];
    for (let i = 0; i < shown.length; i++) {
      for (let k = i + 1; k < shown.length; k++) {
        const [a, b] = [shown[i], shown[k]];
        // A text that is shortened has a box for itself and one for the dots.
        if (a.node === b.node) continue;
        const both = meet(letters(a.seen), letters(b.seen));
        if (wide(both) > 1 && high(both) > 1) {
          found.push(`"${a.text}" (${name(a.owner)}) and "${b.text}" (${name(b.owner)})`);
        }
      }
    }
    return found;
  }

  /** Texts on one canvas that stand in each other's way. */
  function canvasOverlaps() {
    const found = [];
    for (const [canvas, all] of written) {
      if (!canvas.isConnected) continue;
      const inside = all.filter((t) => t.left < canvas.width && t.right > 0 && t.top < canvas.height && t.bottom > 0);
      for (let i = 0; i < inside.length; i++) {
        for (let k = i + 1; k < inside.length; k++) {
          const both = meet(inside[i], inside[k]);
          if (wide(both) > 1 && high(both) > 1) found.push(`"${inside[i].text}" and "${inside[k].text}"`);
        }
      }
    }
    return found;
  }

  /** Texts on canvases whose letters are smaller than so many pixels. */
  function smallest(pixels) {
    return [...written]
      .filter(([canvas]) => canvas.isConnected)
      .flatMap(([canvas, all]) => all.filter((t) => t.letters < pixels && t.left < canvas.width && t.right > 0 && t.top < canvas.height && t.bottom > 0))
      .map(({ text, letters }) => `"${text}", ${letters.toFixed(1)} px`);
  }

  /** Texts that are cut where nothing says so and nothing scrolls. */
  function cut() {
    return allTexts()
      .filter(({ whole, around }) =>
        around.some(({ box, scrolls, shortened }, i) => {
          if (scrolls || shortened || around.slice(0, i).some((inner) => inner.scrolls || inner.shortened)) return false;
          return box.left - whole.left > 1 || whole.right - box.right > 1 || whole.bottom - box.bottom > 3 || box.top - whole.top > 3;
        }),
      )
      .map(({ text, owner }) => `"${text}" (${name(owner)})`);
  }

  // -- contrast, as WCAG 2.2 has it

  const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  /** Any colour that CSS can write, as [r, g, b, a] with a from 0 to 1. */
  function rgba(colour) {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  }
  const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const contrast = (a, b) => {
    const [x, y] = [luminance(a), luminance(b)];
    return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
  };

  /** The ground that a text stands on, from the page outwards in; null where a picture is between. */
  function ground(element) {
    const layers = [];
    for (let e = element; e !== null; e = e.parentElement) {
      const style = getComputedStyle(e);
      if (style.backgroundImage !== "none" && e.closest(".wg-app") !== null && !e.matches(".wg-app")) {
        if (!/radial-gradient/.test(style.backgroundImage)) return null;
      }
      layers.unshift(rgba(style.backgroundColor));
      if (layers[0][3] === 1) break;
    }
    return layers.reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
  }

  function faint(least, leastLarge) {
    const found = new Map();
    for (const { text, owner } of texts()) {
      if (owner.closest("svg") !== null || owner.closest(":disabled, [aria-disabled=true]") !== null) continue;
      const below = ground(owner);
      if (below === null) continue;
      const style = getComputedStyle(owner);
      let opacity = 1;
      for (let e = owner; e !== null; e = e.parentElement) opacity *= Number(getComputedStyle(e).opacity);
      const [r, g, b, a] = rgba(style.color);
      const ratio = contrast(over([r, g, b, a * opacity], below), below);
      const size = parseFloat(style.fontSize);
      const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
      if (ratio < (large ? leastLarge : least) - 0.01) found.set(`${name(owner)} "${text}": ${ratio.toFixed(2)}`, true);
    }
    return [...found.keys()];
  }

  /** By how many pixels the page is wider than its window. */
  const overflow = () => document.documentElement.scrollWidth - document.documentElement.clientWidth;

  window.probe = { rest, overlaps, canvasOverlaps, cut, faint, overflow, smallest };
})();
