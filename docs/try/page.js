'use strict';
// The editor, the examples, the link that holds the program, and the worker that runs it.
const get = name => document.getElementById(name);
const source = get('source'), example = get('example'), status = get('status'), reports = get('reports');
const output = get('output'), run = get('run'), stop = get('stop');
let worker = null, examples = [], leaves = false;

const toText = bytes => btoa(String.fromCharCode(...bytes)).replace(/\+/g, '-').replace(/\//g, '_').replace(/=/g, '');
const toBytes = text => Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), c => c.charCodeAt(0));
const through = async (bytes, stream) =>
  new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());

async function makeLink() {
  const bytes = await through(new TextEncoder().encode(source.value), new CompressionStream('deflate-raw'));
  location.hash = 'program=' + toText(bytes);
  try {
    await navigator.clipboard.writeText(location.href);
    status.textContent = 'The link is copied. It holds the program itself.';
  } catch {
    status.textContent = 'The address of this page now holds the program: copy it.';
  }
}

async function readLink() {
  const found = location.hash.match(/^#program=([\w-]+)$/);
  if (!found) return false;
  try {
    source.value = new TextDecoder().decode(await through(toBytes(found[1]), new DecompressionStream('deflate-raw')));
    status.textContent = 'The program is from the link. Read it before you run it.';
    return true;
  } catch {
    status.textContent = 'The link holds no program that can be read.';
    return false;
  }
}

function setRunning(running) {
  run.disabled = running;
  stop.hidden = !running;
}

function receive({data}) {
  if (data.status) status.textContent = data.status;
  if (data.report) {
    const part = document.createElement('div');
    part.innerHTML = data.report;  // made by wsemu, which escapes what programs name
    reports.append(...part.children);
  }
  if (data.output) {
    output.hidden = false;
    output.textContent += data.output;
  }
  if (data.done) {
    setRunning(false);
    document.body.dataset.state = data.failed ? 'broken' : 'done';
  }
}

function start() {
  if (run.disabled) return;
  reports.textContent = output.textContent = '';
  output.hidden = true;
  setRunning(true);
  document.body.dataset.state = 'running';
  if (!worker) {
    worker = new Worker('worker.js');
    worker.onmessage = receive;
    worker.onerror = event => receive({data: {status: `The page could not start Python: ${event.message}`, done: true,
      failed: true}});
  }
  worker.postMessage(source.value);
}

function halt() {
  worker.terminate();
  worker = null;
  setRunning(false);
  status.textContent = 'Stopped. The next run loads Python again, from the cache of the browser.';
}

source.onkeydown = event => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    start();
  } else if (event.key === 'Tab' && !event.shiftKey && !leaves) {
    event.preventDefault();
    source.setRangeText('    ', source.selectionStart, source.selectionEnd, 'end');
  }
  leaves = event.key === 'Escape';
};
example.onchange = () => {
  source.value = examples[example.selectedIndex].text;
  history.replaceState(null, '', location.pathname + location.search);
};
run.onclick = start;
stop.onclick = halt;
get('link').onclick = makeLink;
addEventListener('hashchange', readLink);

(async () => {
  examples = await (await fetch('examples.json')).json();
  for (const {title} of examples) example.add(new Option(title));
  if (!await readLink()) source.value = examples[0].text;
  document.body.dataset.state = 'ready';
})();
