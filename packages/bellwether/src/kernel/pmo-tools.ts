/**
 * The names of the tools that the PMO hosts: the last part of a subject `cmd.sys.pmo.internal.NAME`. A tool with another such subject
 * cannot be declared, because no process would answer it (T3.3e). The handlers are in pmo/hosted-tools.ts.
 */
export const pmoTools = ['delegate', 'fork_join', 'list_agents'] as const
export type PmoTool = (typeof pmoTools)[number]

const pmoSubject = 'cmd.sys.pmo.internal.'

/** The host name of calls that the PMO has taken. All PMOs share it: each of them can follow a batch. */
export const pmoHost = 'pmo'

/** Tools that create batches. The PMO hosts a call by such a name, even if no project declares the tool. */
const forkTools: readonly PmoTool[] = ['delegate', 'fork_join']

/** The tool with which an agent asks a person. People answer it; no process hosts it. */
export const askPerson = 'ask_person'

/** The name of the wait of a parked turn: its account is held (verbs/accounts). No agent can call it. */
export const accountHold = 'account_hold'

/** The PMO tool that hosts a call by this name unless the project declares another subject. */
export function defaultPmoTool(toolName: string): PmoTool | undefined {
  return forkTools.find((name) => name === toolName)
}

/** Whether every project has this tool without declaring it. */
export function isBuiltInTool(toolName: string): boolean {
  return toolName === askPerson || defaultPmoTool(toolName) !== undefined
}

/** Whether the subject is reserved for parts of Bellwether, and none of them answers it. */
export function isUnansweredSubject(subject: string): boolean {
  return subject.startsWith('cmd.sys.') && !pmoTools.some((tool) => subject === `${pmoSubject}${tool}`)
}
