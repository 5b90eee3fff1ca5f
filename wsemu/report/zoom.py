"""The script of a page: it zooms the time line in and out, moves it by dragging, and is all that a page runs.

Without it the time line is as wide as it is drawn, and scrolls.
"""

from __future__ import annotations

import base64
import hashlib

SCRIPT = """
for (const line of document.querySelectorAll('.timeline')) {
  const view = line.querySelector('.scroll'), svg = view.querySelector('svg'), bar = line.previousElementSibling;
  const ticks = svg.querySelectorAll('.tick'), width = svg.width.baseVal.value, said = bar.querySelector('output');
  const left = n => ticks[n].x.baseVal[0].value, apart = ticks.length > 1 ? left(1) - left(0) : 44;
  const least = () => Math.min(1, (view.clientWidth - 2) / width);
  let scale = 1, whole = true;
  function zoom(to, at = view.clientWidth / 2) {
    const next = Math.min(Math.max(to, least()), 16), place = (view.scrollLeft + at) / scale;
    scale = next, whole = next <= least();
    svg.style.width = width * scale + 'px';
    svg.style.setProperty('--shrink', 1 / scale);
    svg.classList.toggle('far', scale * svg.dataset.step < 7);
    const every = Math.ceil(44 / (apart * scale));
    ticks.forEach((tick, n) => tick.classList.toggle('off', n % every));
    view.scrollLeft = place * scale - at;
    said.value = Math.round(scale * 100) + ' %';
  }
  const keys = {'+': () => zoom(scale * 1.5), '=': () => zoom(scale * 1.5), '-': () => zoom(scale / 1.5),
    '0': () => zoom(0), '1': () => zoom(1), 'Home': () => view.scrollLeft = 0, 'End': () => view.scrollLeft = 1e9};
  bar.hidden = false;
  for (const button of bar.querySelectorAll('button')) button.onclick = () => keys[button.value]();
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
  let held = null;
  view.onpointerdown = event => {
    if (event.pointerType === 'mouse' && event.button === 0 && !event.target.closest('a'))
      held = {x: event.clientX, left: view.scrollLeft};
  };
  view.onpointermove = event => { if (held) view.scrollLeft = held.left + held.x - event.clientX; };
  view.onpointerup = view.onpointerleave = () => held = null;
  addEventListener('resize', () => zoom(whole ? 0 : scale));
  zoom(0);
}
"""
_HASH = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_HASH}'"
"""permissions of a page: this one script, and nothing from elsewhere"""
