'use strict';
// Loads Pyodide, NumPy and wsemu, and runs programs.
const PYODIDE = '{pyodide}';
let python = null;

async function load() {
  postMessage({status: 'Loading Python ...'});
  importScripts(PYODIDE + 'pyodide.js');
  const pyodide = await loadPyodide({indexURL: PYODIDE});
  postMessage({status: 'Loading NumPy ...'});
  await pyodide.loadPackage('numpy', {messageCallback: () => {}});
  postMessage({status: 'Loading wsemu ...'});
  const archive = await (await fetch('wsemu.zip')).arrayBuffer();
  pyodide.unpackArchive(archive, 'zip', {extractDir: '/home/pyodide'});
  pyodide.runPython(await (await fetch('run.py')).text());
  return pyodide;
}

onmessage = async ({data}) => {
  try {
    python = python || load();
    const pyodide = await python, begun = performance.now();
    postMessage({status: 'Running ...'});
    pyodide.setStdout({batched: text => postMessage({output: text + '\n'})});
    pyodide.setStderr({batched: text => postMessage({output: text + '\n'})});
    const run = pyodide.globals.get('run');
    const summary = run(data, report => postMessage({report}));
    run.destroy();
    postMessage({status: `${summary}, ${((performance.now() - begun) / 1000).toFixed(1)} s`, done: true});
  } catch (error) {
    python = null;
    postMessage({status: `wsemu could not run here: ${error.message || error}`, done: true, failed: true});
  }
};
