/** The extension: it starts `wsemu lsp` and, as debug adapter, `wsemu debug --dap`. */

import * as vscode from "vscode";
import { LanguageClient, ServerOptions, LanguageClientOptions } from "vscode-languageclient/node";
import { debugArguments, interpreterOf } from "./commands";

let client: LanguageClient | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  context.subscriptions.push(
    vscode.commands.registerCommand("wsemu.restart", restart),
    vscode.commands.registerCommand("wsemu.checkFile", checkFile),
    vscode.commands.registerCommand("wsemu.debugFile", () => debugFile()),
    vscode.commands.registerCommand("wsemu.debug", (uri: string, kernel?: string) => debugFile(uri, kernel)),
    vscode.debug.registerDebugAdapterDescriptorFactory("wsemu", { createDebugAdapterDescriptor }),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("wsemu")) {
        void restart();
      }
    }),
  );
  await start();
}

export async function deactivate(): Promise<void> {
  await client?.stop();
  client = undefined;
}

async function start(): Promise<void> {
  const server: ServerOptions = { command: await interpreter(), args: ["-m", "wsemu", "lsp"] };
  const options: LanguageClientOptions = {
    documentSelector: ["python", "cuda-cpp", "ptx"].map((language) => ({ scheme: "file", language })),
    diagnosticCollectionName: "wsemu",
  };
  client = new LanguageClient("wsemu", "wsemu", server, options);
  try {
    await client.start();
  } catch (error) {
    const answer = await vscode.window.showErrorMessage(
      `wsemu does not start: ${String(error)}. Run \`pip install 'wsemu[editor]'\`, or name another interpreter.`,
      "Open settings",
    );
    if (answer) {
      await vscode.commands.executeCommand("workbench.action.openSettings", "wsemu.interpreter");
    }
  }
}

async function restart(): Promise<void> {
  await client?.stop().catch(() => undefined);
  await start();
}

async function interpreter(): Promise<string> {
  const configured = vscode.workspace.getConfiguration("wsemu").get<string>("interpreter", "");
  const python = vscode.extensions.getExtension("ms-python.python");
  return interpreterOf(configured, python && (await python.activate()));
}

async function checkFile(): Promise<void> {
  const document = vscode.window.activeTextEditor?.document;
  if (document) {
    await document.save();
    await vscode.commands.executeCommand("wsemu.check", document.uri.toString());
  }
}

async function debugFile(uri?: string, kernel?: string): Promise<void> {
  const file = uri ? vscode.Uri.parse(uri) : vscode.window.activeTextEditor?.document.uri;
  if (!file) {
    return;
  }
  await vscode.debug.startDebugging(vscode.workspace.getWorkspaceFolder(file), {
    type: "wsemu",
    request: "launch",
    name: kernel ? `wsemu: ${kernel}` : "wsemu",
    program: file.fsPath,
    options: kernel ? ["--kernel", kernel] : [],
    stopOnEntry: true,
  });
}

async function createDebugAdapterDescriptor(session: vscode.DebugSession): Promise<vscode.DebugAdapterDescriptor> {
  const folder = session.workspaceFolder?.uri.fsPath;
  return new vscode.DebugAdapterExecutable(
    await interpreter(),
    debugArguments(session.configuration),
    folder ? { cwd: folder } : undefined,
  );
}
