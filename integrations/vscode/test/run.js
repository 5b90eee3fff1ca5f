// The extension in Node, with a module in place of VS Code: it starts the real server and the real debug adapter.
// `npm test` after `npm install`; WSEMU_PYTHON names the Python that has wsemu[editor].

const assert = require("node:assert");
const fs = require("node:fs");
const Module = require("node:module");
const os = require("node:os");
const path = require("node:path");
const { spawn } = require("node:child_process");
const { pathToFileURL } = require("node:url");
const esbuild = require("esbuild");
const rpc = require("vscode-jsonrpc/node");

const python = process.env.WSEMU_PYTHON || "python3";
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "wsemu-vscode-"));
const file = path.join(folder, "turned.py");
fs.writeFileSync(
  file,
  `import numpy as np
from wsemu import cuda

@cuda.jit
def turned(x, y):
    tile = cuda.shared.array(64, np.float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    y[i] = tile[63 - i]

x = np.zeros(64, np.float32)
turned[1, 64](x, x.copy())
`,
);

const commands = new Map();
const sessions = [];
let factory;
let configurationChanged;
const settings = { interpreter: python };
const vscode = {
  commands: {
    registerCommand: (name, run) => (commands.set(name, run), { dispose() {} }),
    executeCommand: (name, ...words) => commands.get(name)?.(...words) ?? client.command(name, words),
  },
  debug: {
    registerDebugAdapterDescriptorFactory: (type, made) => ((factory = [type, made]), { dispose() {} }),
    startDebugging: async (workspaceFolder, configuration) => sessions.push({ workspaceFolder, configuration }) > 0,
  },
  extensions: { getExtension: () => undefined },
  workspace: {
    getConfiguration: () => ({ get: (name, otherwise) => settings[name] ?? otherwise }),
    getWorkspaceFolder: () => ({ uri: { fsPath: folder } }),
    onDidChangeConfiguration: (run) => ((configurationChanged = run), { dispose() {} }),
  },
  window: {
    activeTextEditor: {
      document: { uri: { fsPath: file, toString: () => pathToFileURL(file).href }, save: async () => true },
    },
    showErrorMessage: async (message) => assert.fail(message),
  },
  Uri: { parse: (text) => ({ fsPath: require("node:url").fileURLToPath(text) }) },
  DebugAdapterExecutable: class {
    constructor(command, args, options) {
      Object.assign(this, { command, args, options });
    }
  },
};

let client;
let starts = 0;
const published = [];

/** The part of vscode-languageclient that the extension uses: it starts the server and speaks to it. */
class LanguageClient {
  constructor(id, name, server, options) {
    Object.assign(this, { id, name, server, options });
    client = this;
  }

  async start() {
    starts += 1;
    this.process = spawn(this.server.command, this.server.args, { cwd: folder, stdio: ["pipe", "pipe", "inherit"] });
    this.connection = rpc.createMessageConnection(
      new rpc.StreamMessageReader(this.process.stdout),
      new rpc.StreamMessageWriter(this.process.stdin),
    );
    this.connection.onNotification("textDocument/publishDiagnostics", (params) => published.push(params));
    this.connection.onRequest("workspace/codeLens/refresh", () => null);
    this.connection.listen();
    const uri = pathToFileURL(folder).href;
    this.abilities = await this.connection.sendRequest("initialize", { processId: process.pid, rootUri: uri, capabilities: {} });
    await this.connection.sendNotification("initialized", {});
  }

  command(name, words) {
    return this.connection.sendRequest("workspace/executeCommand", { command: name, arguments: words });
  }

  async stop() {
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    await this.connection.sendRequest("shutdown");
    await this.connection.sendNotification("exit");
    assert.strictEqual(await ended, 0);
  }
}

/** Bundle the extension; what it imports from the editor is ours. */
async function load() {
  const out = path.join(folder, "extension.js");
  await esbuild.build({
    entryPoints: [path.join(__dirname, "..", "src", "extension.ts")],
    bundle: true,
    format: "cjs",
    platform: "node",
    outfile: out,
    external: ["vscode", "vscode-languageclient/node"],
    logLevel: "error",
  });
  const known = { vscode, "vscode-languageclient/node": { LanguageClient } };
  const original = Module._load;
  Module._load = (name, ...rest) => known[name] ?? original(name, ...rest);
  return require(out);
}

async function until(condition, what) {
  for (let tries = 0; tries < 2400; tries += 1) {
    const found = condition();
    if (found) {
      return found;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return assert.fail(`no ${what} within two minutes`);
}

/** A session of the debug adapter: stop at a statement, read a variable, leave. */
async function debug(executable) {
  const adapter = spawn(executable.command, executable.args, { ...executable.options, stdio: ["pipe", "pipe", "inherit"] });
  const reader = new rpc.StreamMessageReader(adapter.stdout);
  const writer = new rpc.StreamMessageWriter(adapter.stdin);
  const messages = [];
  reader.listen((message) => messages.push(message));
  let number = 0;
  const request = async (command, values = {}) => {
    number += 1;
    const mine = number;
    await writer.write({ seq: mine, type: "request", command, arguments: values });
    const answer = await until(() => messages.find((m) => m.type === "response" && m.request_seq === mine), command);
    assert.ok(answer.success, JSON.stringify(answer));
    return answer.body;
  };
  const event = (name) => until(() => messages.find((m) => m.type === "event" && m.event === name), `event ${name}`);
  await request("initialize", { adapterID: "wsemu", linesStartAt1: true });
  await request("launch", { stopOnEntry: true, thread: "3" });
  await request("configurationDone");
  await event("stopped");
  const { stackFrames } = await request("stackTrace", { threadId: 1 });
  assert.strictEqual(stackFrames[0].name, "turned");
  const ended = new Promise((resolve) => adapter.once("exit", resolve));
  await request("disconnect");
  await ended;
}

async function main() {
  const extension = await load();
  await extension.activate({ subscriptions: [] });
  assert.deepStrictEqual(client.server.args, ["-m", "wsemu", "lsp"]);
  assert.ok(client.abilities.capabilities.codeLensProvider);
  const declared = require("../package.json").contributes.commands.map((entry) => entry.command);
  assert.deepStrictEqual(declared.filter((name) => !commands.has(name)), []);
  console.log("activation: the server runs, all commands are registered");

  await client.connection.sendNotification("textDocument/didOpen", {
    textDocument: { uri: pathToFileURL(file).href, languageId: "python", version: 1, text: fs.readFileSync(file, "utf8") },
  });
  await commands.get("wsemu.checkFile")();
  const { diagnostics } = await until(() => published.at(-1), "diagnostics");
  assert.ok(diagnostics.some((entry) => entry.code === "race"));
  console.log(`check: ${diagnostics.length} diagnostics`);

  await commands.get("wsemu.debug")(pathToFileURL(file).href, "turned");
  const [{ configuration, workspaceFolder }] = sessions;
  assert.deepStrictEqual(configuration.options, ["--kernel", "turned"]);
  const [type, { createDebugAdapterDescriptor }] = factory;
  assert.strictEqual(type, configuration.type);
  await debug(await createDebugAdapterDescriptor({ configuration, workspaceFolder }));
  console.log("debug: the adapter stopped in the kernel");

  configurationChanged({ affectsConfiguration: (name) => name === "wsemu" });
  await until(() => starts === 2 && client.abilities, "second start");
  await extension.deactivate();
  console.log("settings: the server restarted, and ended with the extension");
  fs.rmSync(folder, { recursive: true });
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
