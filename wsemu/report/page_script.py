"""The only script of a page.  It draws the time line on a canvas, zooms and moves it, and links findings with their
operations.

Only the visible part is drawn, with one box per pixel.  If several steps share a pixel, the box has the color of the
step whose group is last in the legend.  Without the script, a page shows a picture of the time line.
"""

from __future__ import annotations

import base64
import hashlib

SCRIPT = """
'use strict';
const FIELDS = 7, MAX_SCALE = 200, MAX_EXTENT = 8e6, MAX_EDGES = 3000, ALL = 14;
function start(figure) {
  const view = figure.querySelector('.view'), canvas = view.querySelector('canvas'), tip = figure.querySelector('.tip');
  const tools = document.querySelector('.tools'), zoomed = tools.querySelector('output');
  const detail = document.querySelector('.detail'), extent = view.querySelector('.extent');
  const data = JSON.parse(document.querySelector('script[type="application/json"]').textContent);
  const {steps, marks, findings, generations, copies, texts, groups} = data;
  const length = Math.max(data.length, 1);
  const context = canvas.getContext('2d'), count = steps.length / FIELDS, colors = {};
  const STOP = groups.indexOf('stop'), ARRIVE = groups.indexOf('arrive'), WAIT = groups.indexOf('wait');
  const warps = data.warps.map(() => []), ofBarrier = data.barriers.map(() => []), ofWarp = data.warps.map(() => []);
  const copiesOf = data.warps.map(() => []), operations = new Map();
  let scale = 1, whole = true, chosen = -1, flash = -1, pending = false;
  for (let n = 0; n < count; n++) {
    const at = n * FIELDS, row = steps[at + 5], key = row + ':' + steps[at + 6];
    warps[steps[at]].push(n);
    if (row >= 0 && (steps[at + 3] === ARRIVE || steps[at + 3] === WAIT))
      operations.has(key) ? operations.get(key).push(n) : operations.set(key, [n]);
  }
  generations.forEach((g, n) => ofBarrier[g[0]].push(n));
  copies.forEach(copy => copiesOf[copy[0]].push(copy));
  marks.forEach((mark, n) => ofWarp[steps[mark[2] * FIELDS]].push(n));
  const end = until => until < 0 ? length : until, at = n => steps[n * FIELDS + 1], until = n => steps[n * FIELDS + 2];
  const warp = n => steps[n * FIELDS], group = n => steps[n * FIELDS + 3];
  const operationOf = n => texts[steps[n * FIELDS + 4]];
  function below(list, value, of) {
    let low = 0, high = list.length;
    while (low < high) {
      const middle = low + high >> 1;
      if (of(list[middle]) <= value) low = middle + 1; else high = middle;
    }
    return low;
  }
  const least = () => Math.max(view.clientWidth - ALL, 50) / length;
  const most = () => Math.max(least(), Math.min(MAX_SCALE, MAX_EXTENT / length));
  function readColors() {
    const style = getComputedStyle(document.querySelector('.wsemu'));
    for (const name of [...groups, 'wait-line', 'stuck', 'generation', 'rule', 'text', 'muted', 'page', 'error',
      'warning', 'on', 'edge'])
      colors[name] = style.getPropertyValue('--' + name).trim();
  }
  const rowOf = element => ({y: element.offsetTop, height: element.offsetHeight});
  function draw() {
    pending = false;
    const width = view.clientWidth, height = figure.querySelector('.labels').offsetHeight;
    const ratio = devicePixelRatio || 1;
    canvas.style.width = width + 'px';
    canvas.style.height = height + 'px';
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = '12px system-ui, sans-serif';
    context.textBaseline = 'middle';
    const left = view.scrollLeft / scale, right = (view.scrollLeft + width) / scale;
    const x = step => Math.min(Math.max((step - left) * scale, -9), width + 9);
    const box = (from, to, y, tall, color) => {
      context.fillStyle = color;
      context.fillRect(from, y, Math.max(to - from, 1), tall);
    };
    const write = (text, from, to, y, color, centered) => {
      const wide = context.measureText(text).width;
      if (wide > to - from - 4) return false;
      context.fillStyle = color;
      context.fillText(text, centered ? (from + to - wide) / 2 : from + 3, y);
      return true;
    };
    const every = [1, 2, 5].flatMap(n => [1, 10, 100, 1e3, 1e4, 1e5, 1e6].map(m => n * m)).sort((a, b) => a - b)
      .find(n => n * scale >= 56) || 1e6;
    for (let step = Math.ceil(left / every) * every; step <= Math.min(right, length - 1); step += every) {
      box(x(step), x(step) + 1, 20, height - 20, colors.rule);
      context.fillStyle = colors.muted;
      context.fillText(step.toLocaleString('en'), x(step) + 3, 12);
    }
    figure.querySelectorAll('.row.barrier').forEach((element, row) => {
      const {y, height: tall} = rowOf(element), list = ofBarrier[row];
      let drawn = -1;
      for (let n = Math.max(below(list, left, g => generations[g][2]) - 1, 0); n < list.length; n++) {
        const [, number, first, last] = generations[list[n]], from = x(first), to = x(end(last));
        if (first > right) break;
        if (to < drawn + 1) continue;
        const color = last < 0 && data.stuck ? colors.stuck : colors.generation;
        box(from, to - (to - from > 3), y + 4, tall - 8, color);
        drawn = to;
        const ink = last < 0 && data.stuck ? colors.on : colors.text;
        write(data.units[row] + ' ' + number, Math.max(from, 0), to, y + tall / 2, ink) ||
          write('' + number, Math.max(from, 0), to, y + tall / 2, ink);
      }
    });
    const drawStep = (step, kind, from, to, y) => {
      const tall = kind === ARRIVE || kind === WAIT ? 24 : 18;
      if (kind === STOP) {
        context.strokeStyle = colors.error;
        context.lineWidth = 3;
        context.strokeRect(from + 1.5, y + 6.5, Math.max(to - from - 4, 2), 21);
      } else box(from, to - (to - from > 4), y + 5 + (24 - tall) / 2, tall, colors[groups[kind]]);
      if (to - from > 30) write(nameOf(step), from, to, y + 17, colors.on, true) ||
        write(operationOf(step)[0], from, to, y + 17, colors.on, true) ||
        write(operationOf(step)[0].split(' ')[0], from, to, y + 17, colors.on, true);
    };
    figure.querySelectorAll('.row.warp').forEach((element, row) => {
      const {y} = rowOf(element), list = warps[row];
      box(0, width, y, 1, colors.rule);
      let pixel = -1, best = -1, covered = -1;
      const begin = Math.max(below(list, left, at) - 1, 0);
      for (let n = begin; n < list.length && at(list[n]) <= right; n++) {
        const step = list[n], last = until(step), from = x(at(step)), to = x(at(step) + 1), kind = group(step);
        if ((last < 0 || last > at(step) + 1) && x(end(last)) >= covered + 1)
          box(to, covered = x(end(last)), y + 14, 6, last < 0 && data.stuck ? colors.stuck : colors['wait-line']);
        if (Math.floor(from) === pixel) best = Math.max(best, kind);
        else pixel = Math.floor(from), best = kind;
        const next = list[n + 1];
        if (next !== undefined && Math.floor(x(at(next))) === pixel && at(next) <= right) continue;
        drawStep(step, best, from, to, y);
      }
      let drawn = -1;
      for (const [, first, last] of copiesOf[row]) {
        if (first > right || end(last) < left || x(end(last)) < drawn + 1) continue;
        box(x(first), drawn = x(end(last)), y + element.offsetHeight - 9, 5, colors.copy);
      }
    });
    drawEdges(x, left, right);
    drawMarks(x, width, left, right);
  }
  const topOf = n => figure.querySelectorAll('.row.warp')[warp(n)].offsetTop;
  function drawEdges(x, left, right) {
    const pairs = [];
    if (chosen < 0 && scale < 7) return;
    for (const list of operations.values()) {
      const waits = list.filter(n => group(n) === WAIT && until(n) >= 0 && until(n) >= left);
      for (const a of list) if (group(a) === ARRIVE && at(a) <= right)
        for (const w of waits) if (chosen < 0 || a === chosen || w === chosen) pairs.push([a, w]);
      if (pairs.length > MAX_EDGES) return;
    }
    context.strokeStyle = context.fillStyle = colors.edge;
    context.lineWidth = chosen < 0 ? 1 : 2;
    for (const [a, w] of pairs) {
      const up = topOf(w) < topOf(a), y1 = topOf(a) + (up ? 5 : 29), y2 = topOf(w) + (up ? 29 : 5);
      const x1 = x(at(a) + .5), x2 = x(until(w));
      context.beginPath();
      context.moveTo(x1, y1);
      context.lineTo(x2, y2);
      context.stroke();
      context.beginPath();
      context.moveTo(x2, y2);
      context.lineTo(x2 - 4, y2 + (up ? 5 : -5));
      context.lineTo(x2 + 4, y2 + (up ? 5 : -5));
      context.fill();
    }
  }
  const markText = ([finding, part]) => `${finding + 1} ${findings[finding][1]}${part ? ` (${part})` : ''}`;
  let labels = [];
  function drawMarks(x, width, left, right) {
    labels = [];
    figure.querySelectorAll('.row.warp').forEach((element, row) => {
      const ends = Array(Math.min(ofWarp[row].length, 3)).fill(-1), y = element.offsetTop;
      for (const n of ofWarp[row].slice().sort((a, b) => at(marks[a][2]) - at(marks[b][2]))) {
        const step = marks[n][2], color = colors[findings[marks[n][0]][0]] || colors.error;
        if (at(step) + 1 < left || at(step) > right) continue;
        const from = x(at(step)), wide = context.measureText(markText(marks[n])).width + 8;
        context.strokeStyle = color;
        context.lineWidth = n === flash ? 5 : 2;
        context.strokeRect(from - 1, y + 3, Math.max(x(at(step) + 1) - from, 4), 28);
        const at0 = Math.max(Math.min(from - 1, width - wide), 0), free = ends.findIndex(last => last < at0);
        if (free < 0) continue;
        const top = y + 34 + free * 20;
        ends[free] = at0 + wide + 2;
        context.fillStyle = color;
        context.fillRect(from - 1, y + 31, 2, top - y - 31);
        context.fillRect(at0, top, wide, 17);
        context.fillStyle = colors.on;
        context.fillText(markText(marks[n]), at0 + 4, top + 9);
        labels.push({n, x: at0, y: top, wide});
      }
    });
  }
  const redraw = () => { if (!pending) pending = true, requestAnimationFrame(draw); };
  function zoom(to, about = view.clientWidth / 2) {
    const next = Math.min(Math.max(to, least()), most()), step = (view.scrollLeft + about) / scale;
    whole = next <= least();
    scale = next;
    extent.style.width = Math.max(length * scale + (whole ? 0 : ALL), 1) + 'px';
    view.scrollLeft = step * scale - about;
    const seen = Math.min(length, view.clientWidth / scale);
    zoomed.value = `${whole ? 'all ' : ''}${Math.round(whole ? data.length : seen).toLocaleString('en')} steps`;
    redraw();
  }
  function show(step) {
    if (scale < 24) zoom(Math.min(24, most()));
    view.scrollLeft = (at(step) + .5) * scale - view.clientWidth / 2;
    redraw();
  }
  function nameOf(n) {
    const row = steps[n * FIELDS + 5];
    const phase = row < 0 ? '' : ` ${data.barriers[row]} ${data.units[row]} ${steps[n * FIELDS + 6]}`;
    return operationOf(n)[0] + phase;
  }
  function words(n) {
    const last = until(n), rest = last < 0 ? data.stuck ? ', waits for ever' : ', does not end' :
      last > at(n) + 1 ? `, waits to step ${(last - 1).toLocaleString('en')}` : '';
    return `${data.warps[warp(n)]}, step ${at(n).toLocaleString('en')}: ${nameOf(n)}, ${operationOf(n)[1]}${rest}`;
  }
  let mark = -1;
  function hop(to) {
    if (!marks.length) return;
    mark = (to + marks.length) % marks.length;
    flash = mark;
    show(marks[mark][2]);
    detail.textContent = `finding ${markText(marks[mark])}: ${words(marks[mark][2])}`;
  }
  function hit(event) {
    const bounds = canvas.getBoundingClientRect(), px = event.clientX - bounds.left, y = event.clientY - bounds.top;
    const step = (view.scrollLeft + px) / scale;
    const label = labels.find(l => px >= l.x && px < l.x + l.wide && y >= l.y && y < l.y + 17);
    if (label) return {mark: label.n, text: findings[marks[label.n][0]].slice(1).join(': ')};
    const rows = [...figure.querySelectorAll('.row')];
    const row = rows.find(r => y >= r.offsetTop && y < r.offsetTop + r.offsetHeight);
    if (!row) return null;
    if (row.classList.contains('barrier')) {
      const b = [...figure.querySelectorAll('.row.barrier')].indexOf(row), list = ofBarrier[b];
      const g = generations[list[below(list, step, n => generations[n][2]) - 1]];
      if (!g || step >= end(g[3])) return null;
      const over = g[3] < 0 ? 'not complete' : `complete after step ${(g[3] - 1).toLocaleString('en')}`;
      return {text: `${data.barriers[b]} ${data.units[b]} ${g[1]}: ${g[4]}, ${over}`};
    }
    const w = [...figure.querySelectorAll('.row.warp')].indexOf(row);
    if (w < 0) return null;
    if (y > row.offsetTop + row.offsetHeight - 10) {
      const copy = copiesOf[w].find(c => step >= c[1] && step < end(c[2]));
      const over = copy && copy[2] < 0 ? 'the end: nothing waits for them' : copy && `step ${copy[2] - 1}`;
      if (copy) return {text: `${texts[copy[3]].join(', ')}: ${copy[4].toLocaleString('en')} bytes, in flight ` +
        `from step ${copy[1]} to ${over}`};
    }
    const n = warps[w][below(warps[w], step, at) - 1];
    if (n === undefined || step >= end(until(n))) return null;
    const own = ofWarp[w].find(m => marks[m][2] === n);
    return {step: n, mark: own, text: words(n)};
  }
  const keys = {'+': () => zoom(scale * 1.5), '=': () => zoom(scale * 1.5), '-': () => zoom(scale / 1.5),
    '0': () => zoom(0), 'Home': () => view.scrollLeft = 0, 'End': () => view.scrollLeft = 1e9,
    'n': () => hop(mark + 1), 'p': () => hop(mark < 0 ? -1 : mark - 1),
    'Escape': () => { chosen = flash = -1; tip.hidden = true; redraw(); }};
  figure.hidden = tools.hidden = false;
  for (const button of tools.querySelectorAll('button')) button.onclick = () => keys[button.value]();
  for (const jumps of document.querySelectorAll('.jumps')) jumps.hidden = false;
  for (const button of document.querySelectorAll('[data-mark]')) button.onclick = () => {
    hop(+button.dataset.mark);
    figure.scrollIntoView({block: 'center'});
    view.focus({preventScroll: true});
  };
  view.onkeydown = event => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    keys[event.key]();
    event.preventDefault();
  };
  view.addEventListener('wheel', event => {
    if (!event.ctrlKey && !event.metaKey) return;
    zoom(scale * Math.exp(-event.deltaY / 300), event.clientX - view.getBoundingClientRect().left);
    event.preventDefault();
  }, {passive: false});
  let held = null, moved = 0;
  view.onpointerdown = event => {
    if (event.pointerType !== 'mouse' || event.button !== 0) return;
    held = {x: event.clientX, left: view.scrollLeft};
    moved = 0;
  };
  view.onpointermove = event => {
    if (held) {
      moved = Math.max(moved, Math.abs(held.x - event.clientX));
      view.scrollLeft = held.left + held.x - event.clientX;
    }
    const found = held ? null : hit(event), bounds = figure.getBoundingClientRect();
    tip.hidden = !found;
    canvas.style.cursor = found && found.mark !== undefined ? 'pointer' : 'grab';
    if (!found) return;
    tip.textContent = found.text;
    const px = event.clientX - bounds.left;
    tip.style.left = Math.max(Math.min(px + 12, bounds.width - tip.offsetWidth - 4), 0) + 'px';
    tip.style.top = event.clientY - bounds.top + 14 + 'px';
  };
  view.onpointerup = event => {
    const was = held;
    held = null;
    if (!was || moved > 4) return;
    const found = hit(event);
    chosen = found && found.step !== undefined ? found.step : -1;
    detail.textContent = found ? found.text : '';
    redraw();
    if (!found || found.mark === undefined) return;
    mark = flash = found.mark;
    const article = document.getElementById('finding-' + (marks[found.mark][0] + 1));
    if (article) location.hash = article.id, article.focus();
  };
  view.onpointerleave = () => { held = null; tip.hidden = true; };
  view.onscroll = redraw;
  const fresh = () => { readColors(); zoom(whole ? 0 : scale); };
  addEventListener('resize', fresh);
  addEventListener('beforeprint', () => {
    document.querySelector('details.launch').open = true;
    readColors();
    zoom(0);
    draw();
  });
  addEventListener('afterprint', fresh);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', fresh);
  readColors();
  zoom(0);
  if (data.first !== null) zoom(24), view.scrollLeft = data.first * scale;
  draw();
}
document.querySelectorAll('.live').forEach(start);
"""
_HASH = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_HASH}'"
"""permissions of a page: this one script, and nothing from elsewhere"""
