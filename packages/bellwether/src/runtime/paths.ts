/** Names of files and folders that the processes and commands of a project agree on. */
import { hostname } from 'node:os'
import { join } from 'node:path'

/** In the project folder: one file per agent. */
export const agentsFolder = 'agents'
/** The permanent name of the agents folder of a project. */
export const agentsOrigin = (project: string) => `${hostname()}:${join(project, agentsFolder)}`
/** In the project folder: one file per schedule. */
export const schedulesFolder = 'schedules'
/** In the project folder: one file per evaluation suite, with the texts and trails of its cases. */
export const evalsFolder = 'evals'
/** In the project folder: where versions before 0.2 kept the run-time files. */
export const oldDataFolder = '.bellwether'
/** The first administrator's key; only its account can read it. */
export const adminKeyFile = 'admin-key'
/** The addresses of a running `up`; removed when it stops. */
export const upFile = 'up.json'
/** Where versions before 0.2 kept the key of their sensor. */
export const sensorKeyFile = 'sensor-key'
/** Locked by an `up` that does not use the embedded database. */
export const lockFile = 'up.lock'
/** What this account trusts in the project. */
export const trustFile = 'trust.json'
/** The accepted control files of the project. */
export const controlFolder = 'control'
/** In the project folder or task root: the policies. */
export const configFolder = 'config'
/** In the project folder: MCP servers and HTTP tools. */
export const mcpFile = 'mcp.json'
export const toolsFile = 'tools.json'
/** The files that declare tools, one per kind. */
export const declaredToolFiles = [toolsFile] as const
/** The git worktrees of tasks. */
export const worktreesFolder = 'worktrees'
/** The sessions of coding agents that run in a sandbox: one folder per agent. */
export const sessionsFolder = 'sessions'
/** The embedded database. */
export const databaseFolder = 'database'
