/** Command lines of wsemu, apart from the editor. */

export interface DebugConfiguration {
  [name: string]: unknown;
  program?: string;
  args?: string[];
  options?: string[];
}

/** The arguments of Python that start the debug adapter for a configuration. */
export function debugArguments(configuration: DebugConfiguration): string[] {
  const { program, args = [], options = [] } = configuration;
  if (!program) {
    throw new Error("the configuration names no `program`");
  }
  return ["-m", "wsemu", "debug", "--dap", ...options, program, ...(args.length ? ["--", ...args] : [])];
}

/** The interpreter: the configured one, else that of the Python extension's API, else `python3`. */
export function interpreterOf(configured: string, api: any): string {
  const active = api?.environments?.getActiveEnvironmentPath?.()?.path;
  const known = api?.settings?.getExecutionDetails?.()?.execCommand?.[0];
  return configured || active || known || (process.platform === "win32" ? "python" : "python3");
}
